#!/bin/sh
# Makes kernels.ptx from kernels.cu. Needs nvcc and ptxas of CUDA 12 or 13; nobody else needs them.
set -eu
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc}
ptxas=${PTXAS:-ptxas}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -ptx -arch=compute_75 -O3 -o "$work/full.ptx" kernels.cu
{
    echo "// Made by regenerate.sh, not by hand. Source: kernels.cu, cksum $(cksum <kernels.cu | cut -d' ' -f1)"
    # nvcc names its own version; the kernels use nothing newer than 7.0, which every driver since 450 reads.
    grep -v '^//' "$work/full.ptx" | sed 's/^\.version .*/.version 7.0/' | cat -s
} >"$work/kernels.ptx"
"$ptxas" -arch=sm_75 -o /dev/null "$work/kernels.ptx"
"$ptxas" -arch=sm_90 -o /dev/null "$work/kernels.ptx"
mv "$work/kernels.ptx" kernels.ptx
