# make_folders: creates the missing folders above $path, the outermost first. Nothing is created outside of the root.
make_folders() {
    folder=
    rest=${path%/*}
    rest=${rest#/}
    while [ -n "$rest" ]; do
        folder=$folder/${rest%%/*}
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
        if [ ! -d "$root$folder" ]; then
            remember "old_file $(quoted "$folder") folder"
            changed=$((changed + 1))
            mkdir -m 755 "$root$folder"
        fi
        at_home "$root$folder" || fail "write $path: a link at $folder leads out of $root"
    done
}

# arrive: replaces the file with the draft.
arrive() {
    changed=$((changed + 1))
    printf '%s\n' "$path" >>"$dir/changed"
    take_place "$draft" "$file" || fail "write $path"
    if [ -n "$edit" ]; then cp -p "$file" "$kept.ours"; fi
    say "written: $path"
}

# depart: records the entry at $path before it is changed. $edit describes how to remove our part later.
depart() {
    make_folders
    file=$root$path
    draft_of "$file"
    [ -n "$draft" ] || fail "write $path: every name of its draft, .NAME.evenkeel-draft and so on, is taken"
    kept=$dir/$(printf '%s' "$path" | tr / %)
    start="old_file $(quoted "$path")"
    if knows "$start"; then return; fi
    mkdir -p "$dir"
    if [ -L "$file" ]; then
        record="$start link $(quoted "$(readlink "$file")")"
    elif [ -f "$file" ]; then
        cp -p "$file" "$kept.before"
        flush "$kept.before"
        record="$start text"
    elif [ -e "$file" ]; then
        fail "write $path: it is neither a file nor a link"
    else
        record="$start absent"
    fi
    remember "$record${edit:+ edited $edit}"
}

# has_text MODE: whether $path is a file of this mode with $text in it.
has_text() {
    if [ -L "$root$path" ] || [ ! -f "$root$path" ]; then return 1; fi
    if [ "$1" != same ] && [ -z "$(find "$root$path" -prune -perm "$1")" ]; then return 1; fi
    printf '%s' "$text" | cmp -s - "$root$path"
}

# put_text MODE: writes $text to the file at $path. The file keeps its owner, and keeps its mode if MODE is `same`.
put_text() {
    if has_text "$1"; then
        say "already set: $path"
        return
    fi
    depart
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        cp -p "$file" "$draft"
        [ "$1" = same ] || chmod "$1" "$draft"
        printf '%s' "$text" >"$draft"
    else
        printf '%s' "$text" >"$draft"
        if [ "$1" = same ]; then chmod 644 "$draft"; else chmod "$1" "$draft"; fi
    fi
    arrive
}

# place MODE PATH [cut]: writes the standard input to the file; with `cut`, without its last newline.
place() {
    path=$2 edit=
    text=$(cat; printf x)
    text=${text%x}
    if [ "${3-}" = cut ]; then text=${text%?}; fi
    put_text "$1"
}
