#!/usr/bin/env bash
# Checks the GPU against the CPU, by hand, on a machine with an NVIDIA GPU. Under 5 minutes once the programs are built.
#
#     tests/gpu.sh                      builds with the feature `cuda` (CUDA toolkit needed), then checks
#     PREBUILT=FOLDER tests/gpu.sh      uses FOLDER/oracle and FOLDER/ch1-single-gpu, as tests/cuda-link.sh leaves them;
#                                       CUDA's libraries are looked for in FOLDER/lib too
#
# Three checks: the checkpoints in tests/fixtures (logits, loss, every gradient, on the GPU, against their oracle); SmolLM2's greedy
# text; and the gradients of one batch through SmolLM2, both against what the same program gives on the CPU.
# The last line counts them: `gpu: N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

model=assets/downloads/smollm2-135m-instruct-q4_1.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

stop() {
    echo "gpu: $1" >&2
    exit 1
}

# check NAME COMMAND…: runs it, times it, counts it.
check() {
    local name=$1 before=$SECONDS
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "gpu: $name: ok ($((SECONDS - before)) s)"
    else
        failed=$((failed + 1))
        echo "gpu: $name: FAILED ($((SECONDS - before)) s)"
    fi
}

# The oracle test reads the device from this variable, and its folder when it runs, so that it may have been built elsewhere.
oracle() {
    if [ -n "${PREBUILT:-}" ]; then
        (cd tests && CARGO_MANIFEST_DIR=$PWD DECODER_TEST_DEVICE=cuda "$PREBUILT/oracle")
    else
        DECODER_TEST_DEVICE=cuda cargo test --locked -p tests --features cuda --test oracle
    fi
}

# both COMMAND FLAGS…: one JSON document from each device, in $work/cpu and $work/cuda.
both() {
    local device
    for device in cpu cuda; do
        "$program" "$@" --model "$model" --device "$device" --json >"$work/$device" || return 1
    done
}

# Greedy ids are equal.
text() {
    both generate --prompt "$1" --sample-len 32 --temperature 0 || return 1
    python3 - "$work/cpu" "$work/cuda" <<'PY'
import json, sys
cpu, cuda = (json.load(open(path)) for path in sys.argv[1:])
print("cpu: ", repr(cpu["text"]))
print("cuda:", repr(cuda["text"]))
sys.exit(cpu["ids"] != cuda["ids"] or len(cuda["ids"]) == 0)
PY
}

# Loss within 1e-5, norms of the gradients within 1e-4, relative; the same names.
gradients() {
    both gradients --ids "$1" || return 1
    python3 - "$work/cpu" "$work/cuda" <<'PY'
import json, sys
cpu, cuda = (json.load(open(path)) for path in sys.argv[1:])
far = lambda a, b: abs(a - b) / max(abs(a), 1e-30)
loss, norm = far(cpu["loss"], cuda["loss"]), far(cpu["global_norm"], cuda["global_norm"])
if cpu["norms"].keys() != cuda["norms"].keys() or not cpu["norms"]:
    sys.exit("the two devices name different gradients, or none")
norms = {name: far(cpu["norms"][name], cuda["norms"][name]) for name in cpu["norms"]}
# Written so that NaN is far.
wrong = [name for name in norms if not norms[name] <= 1e-4]
print(f"relative differences: loss {loss:.1e}, global norm {norm:.1e}, norms {max(norms.values()):.1e}; {len(wrong)} of {len(norms)} too far {wrong[:3]}")
sys.exit(not (loss <= 1e-5 and norm <= 1e-4 and not wrong))
PY
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || stop "no NVIDIA GPU answers here (nvidia-smi)"
command -v python3 >/dev/null || stop "python3 is needed to compare the results"

if [ -n "${PREBUILT:-}" ]; then
    PREBUILT=$(cd "$PREBUILT" && pwd) || stop "PREBUILT names no folder"
    program=$PREBUILT/ch1-single-gpu
    [ -x "$program" ] && [ -x "$PREBUILT/oracle" ] || stop "$PREBUILT holds no programs ch1-single-gpu and oracle; tests/cuda-link.sh makes them"
    export LD_LIBRARY_PATH=$PREBUILT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    command -v nvcc >/dev/null || stop "nvcc is not on the PATH; install the CUDA toolkit or set PREBUILT"
    cargo build --locked -p ch1-single-gpu --features cuda || stop "the program does not build with the feature cuda"
    cargo test --locked -p tests --features cuda --test oracle --no-run || stop "the test does not build with the feature cuda"
    program=${CARGO_TARGET_DIR:-target}/debug/ch1-single-gpu
fi

started=$SECONDS
check "oracle checkpoints" oracle
if [ -f "$model" ] || assets/fetch-smollm2.sh; then
    check "SmolLM2 text" text "The capital of France is"
    check "SmolLM2 text, code" text $'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n'
    check "SmolLM2 gradients" gradients '[[504,3575,282,4649,314,7042,30,2],[1252,314,940,48357,42,897,980,8211]]'
else
    skipped=3
    echo "gpu: SmolLM2 is not there and could not be fetched: 3 checks skipped"
fi
echo "gpu: $((SECONDS - started)) s, $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1), $(uname -m)"
echo "gpu: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$skipped" -eq 0 ]
