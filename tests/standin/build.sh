#!/bin/sh
# Builds the stand-in for the CUDA driver: sh tests/standin/build.sh [FOLDER], where FOLDER is target/standin if not said.
# Then LD_LIBRARY_PATH=FOLDER FERRY_BACKEND=cuda PROGRAM runs on it. CFLAGS adds to the compiler's options.
set -eu
here=$(dirname "$0")
out=${1:-$here/../../target/standin}
mkdir -p "$out"
gcc -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -shared -Wl,-soname,libcuda.so.1 -Wl,--version-script="$here"/exports.map -fPIC -pthread ${CFLAGS:-} \
    "$here"/*.c -o "$out/libcuda.so.1"
