#!/bin/sh
# Makes the HTML pages of evenkeel and looks at them in Chromium (pages.py): contrast, and whether anything is wider than the window.
#
# usage: lab/pages.sh PROGRAMS    the folder of evenkeel
set -eu
cd "$(dirname "$0")/.."

evenkeel=$(cd "$1" && pwd)/evenkeel
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
data=crates/profile/tests/data

# A trial of two arms, a trial of several arms, and the pages over boots and machines that the tests store.
"$evenkeel" prove process.timer_slack_ns=1 --workload simulated --seed 5 --state "$folder/state" --report "$folder/trial" >/dev/null 2>&1
"$evenkeel" prove --arm process.timer_slack_ns=1 --arm process.timer_slack_ns=1000 --workload simulated --seed 5 \
    --state "$folder/state" --report "$folder/arms" >/dev/null 2>&1
"$evenkeel" profile view "$data/mixed.data" --output "$folder/flame.html" >/dev/null
"$evenkeel" profile switches "$data/mixed.data" --html "$folder/switches.html" >/dev/null 2>&1 || rm -f "$folder/switches.html"
"$evenkeel" measure clock --report "$folder/meter.html" >/dev/null
# The site's main pages, if `make site` has been run.
site=
for page in index proving commands coming-from quantum tutorials/prove-a-setting; do
    [ ! -e "target/site/$page.html" ] || site="$site target/site/$page.html"
done
# shellcheck disable=SC2046,SC2086
python3 lab/pages.py $(find "$folder" -name '*.html' | sort) crates/evenkeel/src/report/tests/*.html $site
