# after PATH...: whether this run, or an earlier run that was killed, changed one of these files.
after() {
    for written in "$@"; do
        if [ -f "$dir/changed" ] && grep -qxF -- "$written" "$dir/changed"; then return 0; fi
    done
    return 1
}

# not_run WORD...: whether a command that depends on no file must still run. It runs once, until its undo.
not_run() { [ ! -f "$dir/ran" ] || ! grep -qxF -- "$*" "$dir/ran"; }

# undone_by WORD...: records the command that undoes the next one.
undone_by() {
    if [ -n "$root" ]; then return; fi
    record=old_command
    for word in "$@"; do record="$record $(quoted "$word")"; done
    records old_command | grep -qxF -- "$record" || remember "$record"
}

# run WORD...: runs a command, but only on the running root. In an image, no program runs that could read the change.
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
