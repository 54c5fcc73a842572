# put_back READING PATH OLD: writes the old value unless it is there, and looks again.
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

# zero_bytes: the kernel takes no 0 there; only writing the other spelling of the limit zeroes it. Where that was in use, it was put
# back first; else both were 0.
zero_bytes() {
    if reads plain "${file%_bytes}_ratio" 0; then
        printf '1\n' >"${file%_bytes}_ratio" && printf '0\n' >"${file%_bytes}_ratio"
    else
        printf '0\n' >"$file"
    fi
}

# old_value BOOT READING PATH OLD [ALONG OLD]...: the file, then what writing it changes elsewhere.
old_value() {
    if [ "$1" != any ] && [ "$1" != "$boot" ]; then
        say "forgotten by the kernel when it restarted: $3"
        return
    fi
    reading=$2 path=$3 old=$4
    shift 4
    # Of two spellings of one limit, the one that was in use comes first: writing it zeroes the other.
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
