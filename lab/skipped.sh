#!/bin/sh
# Lists what tests could not run on this machine, and why: the last lines of `make test`.
#
# usage: lab/skipped.sh FILE
set -eu

file=$1
if [ -s "$file" ]; then
    echo
    echo "skipped on this machine:"
    sort -u "$file" | sed 's/^/  /'
    echo "$(sort -u "$file" | wc -l) tests were skipped, which cargo counts as passed; all are listed above."
else
    echo "No test was skipped."
fi
