# current: sets $text to the text of another owner's file at $path; empty if there is no file.
current() {
    if [ -L "$root$path" ]; then fail "edit $path: it is a symbolic link, and only files are edited"; fi
    text=
    if [ -f "$root$path" ]; then
        text=$(cat "$root$path"; printf x)
        text=${text%x}
    fi
}
