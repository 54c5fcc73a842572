# cpus LIST: prints one CPU per line.
cpus() {
    printf '%s\n' "$1" | tr ',' '\n' | while IFS=- read -r first last; do
        if [ -z "$first" ]; then continue; fi
        last=${last:-$first}
        while [ "$first" -le "$last" ]; do
            printf '%s\n' "$first"
            first=$((first + 1))
        done
    done
}

# holds READING FILE TEXT [IN_FORCE]: whether the file has the value, and the file IN_FORCE agrees: the CPUs that serve an interrupt must be
# among the allowed ones.
holds() {
    reads "$1" "$2" "$3" || return 1
    if [ -z "${4-}" ] || [ ! -f "$root$4" ]; then return 0; fi
    serving=$(cat "$root$4") || return 1
    for cpu in $(cpus "$serving"); do
        cpus "$3" | grep -qx "$cpu" || return 1
    done
}

# set_value READING PATH TEXT [IN_FORCE [ALONG]...]: writes TEXT unless it is in force already, and reads it back. The kernel changes the
# files ALONG too.
set_value() {
    reading=$1 path=$2 value=$3 in_force=${4-}
    file=$root$path
    [ -f "$file" ] || fail "set $path: it is not here"
    if [ -L "$file" ] || ! at_home "${file%/*}"; then [ -z "$root" ] || fail "set $path: a link leads out of $root"; fi
    old=$(text_of "$reading" "$file") || fail "read $path"
    if holds "$reading" "$file" "$value" "$in_force"; then
        say "already set: $path = $value"
        return
    fi
    if [ $# -gt 4 ]; then shift 4; else shift $#; fi
    start="old_value $boot $reading $(quoted "$path")"
    record="$start $(quoted "$old")"
    for along in "$@"; do
        if [ -f "$root$along" ]; then record="$record $(quoted "$along") $(quoted "$(cat "$root$along")")"; fi
    done
    knows "$start" || remember "$record"
    changed=$((changed + 1))
    printf '%s\n' "$value" >"$file" || fail "write $value to $path"
    # An interrupt moves only when it next fires, so the file in force may change a moment after the write.
    looks=20
    until holds "$reading" "$file" "$value" "$in_force"; do
        looks=$((looks - 1))
        if [ -z "$in_force" ] || [ "$looks" -eq 0 ]; then fail "set $path to $value: it reads $(cat "$file")"; fi
        sleep 0.05 2>/dev/null || sleep 1
    done
    say "set: $path = $value (was $old)"
}
