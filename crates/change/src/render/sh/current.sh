# current: the text of the file at $path that is somebody else's; nothing where there is no file.
current() {
    if [ -L "$root$path" ]; then fail "edit $path: it is a symbolic link, and only files are edited"; fi
    text=
    if [ -f "$root$path" ]; then
        text=$(cat "$root$path"; printf x)
        text=${text%x}
    fi
}
