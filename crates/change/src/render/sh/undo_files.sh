# old_file PATH KIND [MORE]...: restores the entry that was at PATH. KIND is absent, text (a copy is next to this script), link TARGET,
# folder (we created it) or ours (the original is unknown). After `edited`: how to remove our part if somebody has changed the file since.
old_file() {
    path=$1 kind=$2
    shift 2
    file=$root$path
    kept=$dir/$(printf '%s' "$path" | tr / %)
    if [ "$kind" = folder ]; then
        if rmdir "$file" 2>/dev/null; then say "removed the empty folder: $path"; fi
        return 0
    fi
    if [ -d "${file%/*}" ] && ! at_home "${file%/*}"; then
        failed=1
        printf 'evenkeel: NOT put back: %s: a link leads out of the root\n' "$path" >&2
        return 0
    fi
    draft_of "$file"
    if put_file "$kind" "$@"; then
        say "put back: $path"
    else
        failed=1
        printf 'evenkeel: NOT put back: %s\n' "$path" >&2
    fi
}

put_file() {
    kind=$1
    shift
    target=
    if [ "$kind" = link ]; then
        target=$1
        shift
    fi
    if [ "${1-}" = edited ] && [ -f "$file" ] && { [ "$kind" = ours ] || ! cmp -s "$file" "$kept.ours"; }; then
        shift
        text=$(cat "$file"; printf x)
        text=${text%x}
        without_ours "$@"
        cp -p "$file" "$draft" && printf '%s' "$text" >"$draft" && take_place "$draft" "$file"
        return
    fi
    case $kind in
    absent) rm -f "$file" ;;
    ours) [ "${1-}" = edited ] || rm -f "$file" ;;
    text) cp -p "$kept.before" "$draft" && take_place "$draft" "$file" ;;
    link) ln -s -- "$target" "$draft" && take_place "$draft" "$file" ;;
    esac
}
