#!/bin/sh
# Makes NAME.ptx from NAME.cu: of all that are here, or of those named. Needs nvcc and ptxas of CUDA 12 or 13, which
# nothing else does. Other versions make other texts; those here are of 13.0.88, which Python's package index has:
# pip install nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.88
#     nvidia-cuda-cccl
set -eu
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc}
ptxas=${PTXAS:-ptxas}
flags='-ptx -arch=compute_75 -O3'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The flags, the headers that the source includes, the source: all that the text depends on.
sum() {
    { echo "$flags"; cat $(sed -n 's/^#include "\(.*\)"$/\1/p' "$1.cu") "$1.cu"; } | cksum | cut -d' ' -f1
}

make() {
    "$nvcc" $flags -o "$work/full.ptx" "$1.cu"
    {
        echo "// Made by regenerate.sh, not by hand. Source: $1.cu, cksum $(sum "$1")"
        # nvcc names its own version; the kernels use nothing newer than 7.0, which every driver since 450 reads. A newer hint
        # about bytes that are loaded and not used is left out.
        grep -v -e '^//' -e 'pragma "used_bytes_mask' "$work/full.ptx" | sed 's/^\.version .*/.version 7.0/' | cat -s
    } >"$work/$1.ptx"
    "$ptxas" -arch=sm_75 -o /dev/null "$work/$1.ptx"
    "$ptxas" -arch=sm_90 -o /dev/null "$work/$1.ptx"
    mv "$work/$1.ptx" "$1.ptx"
}

[ $# -gt 0 ] || set -- *.cu
for source; do make "${source%.cu}"; done
