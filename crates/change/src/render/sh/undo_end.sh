if [ "$failed" -ne 0 ]; then
    printf 'evenkeel: not everything is as it was: see above\n' >&2
    exit 1
fi
if [ -n "$dir" ]; then
    rm -f "$dir"/*.before "$dir"/*.ours "$dir"/*.draft "$dir/changed" "$dir/ran" "$dir/undo.sh"
    rmdir "$dir" 2>/dev/null || :
fi
say "evenkeel: everything is as it was"
