#!/usr/bin/env bash
# All-reduce of this workspace beside Open MPI (if mpicc and mpirun are there) and gloo (if $PYTHON, default python3, has PyTorch), in
# one run on one machine. usage: [PYTHON=…] run.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")"
rounds=${1:-2}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if command -v mpicc >/dev/null; then
    mpicc -O2 -o "$scratch/mpi" mpi.c
else
    echo 'Open MPI is not installed: mpicc is missing'
fi
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "gloo is not measured: $python has no PyTorch"; python=; }

for _ in $(seq "$rounds"); do
    RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo bench -q --profile dev -p collective -p lab --bench all_reduce -- 2
    [ ! -x "$scratch/mpi" ] || mpirun --allow-run-as-root -n 2 "$scratch/mpi"
    [ -z "$python" ] || "$python" gloo.py 2
done
