#!/bin/sh
# Makes product.ptx from product.cu, by the tools that crates/backends/src/cuda/kernels/regenerate.sh names.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${NVCC:-nvcc}" -ptx -arch=compute_80 -O3 -o "$work/full.ptx" product.cu
{
    echo "// Made by regenerate.sh, not by hand. Source: product.cu, cksum $(cksum <product.cu | cut -d' ' -f1)"
    # Nothing in it is newer than 7.0, which every driver since 450 reads.
    grep -v '^//' "$work/full.ptx" | sed 's/^\.version .*/.version 7.0/' | cat -s
} >"$work/product.ptx"
for gpu in sm_80 sm_90; do
    "${PTXAS:-ptxas}" -arch=$gpu -o /dev/null "$work/product.ptx"
done
mv "$work/product.ptx" product.ptx
