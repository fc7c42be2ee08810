#!/usr/bin/env bash
# A step of the action: ferry check sees accesses of the CPU by userfaultfd, which the kernel does not give to every user.
set -euo pipefail
setting=/proc/sys/vm/unprivileged_userfaultfd
if [ "$(id -u)" -eq 0 ] || [ "$(cat "$setting" 2>/dev/null)" = 1 ]; then
    exit 0
fi
if ! sudo -n sysctl -q vm.unprivileged_userfaultfd=1 2>/dev/null; then
    echo "::notice::accesses of the CPU are not checked: vm.unprivileged_userfaultfd cannot be set"
fi
