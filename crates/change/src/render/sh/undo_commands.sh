# old_command WORD...: runs a command, but only on the running root.
old_command() {
    if [ -n "$root" ]; then
        say "to run in $root: $*"
    elif "$@"; then
        say "ran: $*"
    else
        failed=1
        printf 'evenkeel: FAILED: %s\n' "$*" >&2
    fi
}
