plan
trap - EXIT HUP INT TERM
rm -f "$dir/changed"
if [ "$changed" -eq 0 ]; then
    say "evenkeel: nothing to change"
elif [ -f "$dir/undo.sh" ]; then
    say "evenkeel: changed; to undo: sh $dir/undo.sh"
else
    say "evenkeel: changed"
fi
