# put_back READING PATH OLD: writes the old value unless it is in force already, and reads it back.
put_back() {
    file=$root$2
    if [ ! -f "$file" ]; then
        say "gone: $2"
        return
    fi
    if reads "$1" "$file" "$3"; then
        say "as before: $2 = $3"
        return
    fi
    was=$found
    case $2=$3 in
    /proc/sys/vm/dirty_*bytes=0) zero_bytes || : ;;
    *) printf '%s\n' "$3" >"$file" || : ;;
    esac
    if reads "$1" "$file" "$3"; then
        say "put back: $2 = $3 (was $was)"
    else
        failed=1
        printf 'evenkeel: NOT put back: %s = %s\n' "$2" "$3" >&2
    fi
}

# zero_bytes: sets a limit in bytes to 0. The kernel refuses to write 0 there; only a write to the ratio of the same limit sets it to 0. If
# the ratio was in use, it was restored before this. Otherwise both were 0.
zero_bytes() {
    if reads plain "${file%_bytes}_ratio" 0; then
        printf '1\n' >"${file%_bytes}_ratio" && printf '0\n' >"${file%_bytes}_ratio"
    else
        printf '0\n' >"$file"
    fi
}

# old_value BOOT READING PATH OLD [ALONG OLD]...: restores a file, and then the files that a write to it changes.
old_value() {
    if [ "$1" != any ] && [ "$1" != "$boot" ]; then
        say "forgotten by the kernel when it restarted: $3"
        return
    fi
    reading=$2 path=$3 old=$4
    shift 4
    # In an exclusive pair, restore the file that was in use first, because a write to it sets the other to 0.
    case $path=$old in
    /proc/sys/vm/dirty_*ratio=0 | /proc/sys/vm/dirty_*bytes=0) later=yes ;;
    *)
        later=no
        put_back "$reading" "$path" "$old"
        ;;
    esac
    while [ $# -gt 1 ]; do
        put_back plain "$1" "$2"
        shift 2
    done
    [ "$later" = no ] || put_back "$reading" "$path" "$old"
}
