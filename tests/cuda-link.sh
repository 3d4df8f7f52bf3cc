#!/usr/bin/env bash
# Compiles and links the programs with the features `cuda` and `nccl` for real, by hand, on a machine that may have no GPU and no driver.
# The toolkit (CUDA 13.0: nvcc, cuBLAS, cuRAND, NVRTC, NCCL) comes from Python packages into target/cuda-link/toolkit: 1.4 GB, no root.
# Needs gcc (at most the version that CUDA 13.0 accepts, 15), Python 3 with pip, and about 10 CPU-minutes for candle's kernels.
#
#     tests/cuda-link.sh [COMPUTE_CAPABILITY]       90 (Hopper) unless given
#
# It leaves target/cuda-link/prebuilt with what `PREBUILT=target/cuda-link/prebuilt tests/gpu.sh` runs on a machine with a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/target/cuda-link
packages=$build/toolkit
toolkit=$packages/nvidia/cu13
libraries=$toolkit/lib
prebuilt=$build/prebuilt
mkdir -p "$build" "$prebuilt"

# 1. The toolkit. CUDA 13.0 is the oldest with nvcc among these packages.
if [ ! -x "$toolkit/bin/nvcc" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --target "$packages" \
        'cuda-toolkit[nvcc,cudart,cccl,nvrtc,cublas,curand,crt,nvvm]==13.0.2' nvidia-nccl-cu13==2.30.7
fi

# 2. The packages hold libX.so.N only; the linker asks for libX.so. NCCL is put where the rest is.
cp -n "$packages"/nvidia/nccl/include/*.h "$toolkit/include/"
ln -sf "$packages/nvidia/nccl/lib/libnccl.so.2" "$libraries/libnccl.so.2"
for library in "$libraries"/lib*.so.*; do
    file=$(basename "$library")
    [[ $file == *.alt.* ]] || ln -sf "$file" "$libraries/${file%%.so.*}.so"
done
ln -sfn lib "$toolkit/lib64"

# 3. The driver's library comes with a driver, which is not here: one in its place, made from the header, whose every function
#    answers CUDA_ERROR_STUB_LIBRARY (34).
if [ ! -e "$libraries/stubs/libcuda.so" ]; then
    mkdir -p "$libraries/stubs"
    grep -oE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+)?(_pts[zd])?\b' "$toolkit/include/cuda.h" | sort -u |
        sed 's/.*/int &(void) { return 34; }/' >"$build/libcuda.c"
    cc -w -shared -fPIC -Wl,-soname,libcuda.so.1 "$build/libcuda.c" -o "$libraries/stubs/libcuda.so"
    ln -sf libcuda.so "$libraries/stubs/libcuda.so.1"
fi

export CUDA_HOME=$toolkit CUDA_PATH=$toolkit CUDA_ROOT=$toolkit CUDA_TOOLKIT_ROOT_DIR=$toolkit
export NVCC=$toolkit/bin/nvcc PATH=$toolkit/bin:$PATH CUDA_COMPUTE_CAP=${1:-90} CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-2}

# 4. The programs. Debug information is left out of the copies: they are meant to travel.
cargo build --locked --target-dir "$build" -p ch1-single-gpu --features cuda,nccl
oracle=$(cargo test --locked --target-dir "$build" -p tests --features cuda,nccl --test oracle --no-run --message-format=json |
    python3 -c 'import json, sys; print([m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")][-1])')
strip -o "$prebuilt/ch1-single-gpu" "$build/debug/ch1-single-gpu"
strip -o "$prebuilt/oracle" "$oracle"
ls -lh "$prebuilt"

# 5. Where there is no GPU, `--device cuda` must end in an error that says so.
if ! nvidia-smi >/dev/null 2>&1; then
    code=0
    LD_LIBRARY_PATH=$libraries:$libraries/stubs "$prebuilt/ch1-single-gpu" score --model tests/fixtures/tiny/llama-gqa \
        --ids '[[1,2,3]]' --device cuda 2>"$build/message" || code=$?
    cat "$build/message"
    if [ "$code" -ne 1 ] || grep -q panicked "$build/message"; then
        echo "cuda-link: expected exit code 1 and a message without a GPU, found exit code $code" >&2
        exit 1
    fi
fi
echo "cuda-link: linked for compute capability $CUDA_COMPUTE_CAP; the programs are in $prebuilt"
