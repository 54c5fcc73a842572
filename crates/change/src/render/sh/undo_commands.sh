# old_command WORD...: runs it, on the running root alone.
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
