#!/usr/bin/env bash
# A step of the action: runs the command. The first line of each finding becomes an annotation of the line that it names.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
echo "::add-matcher::$here/problem-matcher.json"
bash -c "$FERRY_COMMAND"
code=$?
echo "::remove-matcher owner=ferry::"
exit "$code"
