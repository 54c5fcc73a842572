fail() {
    printf 'evenkeel: failed to %s\n' "$*" >&2
    exit 4
}

changed=0

# give_up: after a failure, a signal or a failed command, restores what was changed so far.
give_up() {
    status=$?
    trap - EXIT HUP INT TERM
    if [ "$changed" -eq 0 ] || [ ! -f "$dir/undo.sh" ]; then exit "$status"; fi
    printf 'evenkeel: putting back what was changed\n' >&2
    if sh "$dir/undo.sh" >&2; then exit 5; fi
    printf 'evenkeel: see above, then try again: sh %s/undo.sh\n' "$dir" >&2
    exit 6
}
trap give_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# records KIND: prints the undo script's records of a kind, the last change first.
records() { if [ -f "$dir/undo.sh" ]; then grep "^$1 " "$dir/undo.sh" || :; fi; }

# knows START: whether the undo script has a record with this start. The first record stays, because a later one would contain what we
# wrote.
knows() { records "${1%% *}" | grep -qF -- "$1 "; }

# remember RECORD: adds a record to the undo script, and syncs it to disk. The undo script restores files first, then runs the programs that
# read them, then restores the values.
remember() {
    case $1 in
    *'
'*) fail "change what has more than one line and could not be put back: $1" ;;
    esac
    mkdir -p "$dir"
    {
        undo_head
        for kind in old_file old_command old_value; do
            case $1 in "$kind "*) [ "$kind" = old_command ] || printf '%s\n' "$1" ;; esac
            # Drop values of an earlier boot, because the kernel has lost them.
            if [ "$kind" = old_value ]; then records "$kind $boot"; else records "$kind"; fi
            case $1 in "old_command "*) [ "$kind" != old_command ] || printf '%s\n' "$1" ;; esac
        done
        undo_end
    } >"$dir/undo.sh.draft"
    flush "$dir/undo.sh.draft"
    mv -f "$dir/undo.sh.draft" "$dir/undo.sh"
    flush "$dir"
}
