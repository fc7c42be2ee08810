#!/usr/bin/env bash
# A step of the action: installs Ferry and what else is asked for, and shows what a program will find.
set -euo pipefail
read -ra packages <<<"${FERRY_PACKAGE:-} ${FERRY_PACKAGES:-}"
if [ "${#packages[@]}" -gt 0 ]; then
    python3 -m pip install --quiet --disable-pip-version-check "${packages[@]}"
fi
# What is wrong is said here; the tests will show whether it matters.
python3 -m ferry_acl.command doctor -- python3 || true
