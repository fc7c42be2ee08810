#!/bin/sh
# Builds the companion libraries: sh crates/companions/build.sh FOLDER. Every src/NAME.c becomes FOLDER/libNAME.so.
#
# Programs written for Ascend are linked with these names beside libascendcl.so. Each depends on libascendcl.so, which the loader
# finds in the same folder (or has loaded already), so that dlsym on a companion's handle finds its functions too. To link, a
# library of that name without functions will do, so this needs no build of ours. CC and CFLAGS are heeded.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh FOLDER}
mkdir -p "$out"
out=$(cd "$out" && pwd)
# From the top of the repository: a path in a message, or in __FILE__, then names no folder of this machine.
cd "$here/../.."
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
${CC:-gcc} -shared -nostdlib -Wl,-soname,libascendcl.so -x c /dev/null -o "$stub/libascendcl.so"
for source in crates/companions/src/*.c; do
    name=lib$(basename "$source" .c).so
    # Written beside its place and renamed: a process may have the old one loaded.
    ${CC:-gcc} -std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Iinclude ${CFLAGS:-} -shared -s -pthread \
        -Wl,-soname,"$name" -Wl,-z,nodelete -Wl,-rpath,'$ORIGIN' "$source" \
        -Wl,--no-as-needed -L"$stub" -lascendcl -o "$out/.$name.$$"
    mv "$out/.$name.$$" "$out/$name"
done
