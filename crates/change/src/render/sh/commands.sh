# after PATH...: whether one of these files was changed, by this run or by one that was cut short.
after() {
    for written in "$@"; do
        if [ -f "$dir/changed" ] && grep -qxF -- "$written" "$dir/changed"; then return 0; fi
    done
    return 1
}

# not_run WORD...: whether a command that follows no file is still to be run: once is enough, until it is undone.
not_run() { [ ! -f "$dir/ran" ] || ! grep -qxF -- "$*" "$dir/ran"; }

# undone_by WORD...: notes the command that undoes the next one.
undone_by() {
    if [ -n "$root" ]; then return; fi
    record=old_command
    for word in "$@"; do record="$record $(quoted "$word")"; done
    records old_command | grep -qxF -- "$record" || remember "$record"
}

# run WORD...: only on the running root: in an image, no program runs that could read the change.
run() {
    if [ -n "$root" ]; then
        say "to run in $root: $*"
        return
    fi
    changed=$((changed + 1))
    "$@" || fail "run $*"
    mkdir -p "$dir"
    printf '%s\n' "$*" >>"$dir/ran"
    say "ran: $*"
}
