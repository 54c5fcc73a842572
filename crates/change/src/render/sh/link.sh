# link TARGET PATH: makes a symbolic link at PATH.
link() {
    path=$2 edit=
    if [ -L "$root$path" ] && [ "$(readlink "$root$path")" = "$1" ]; then
        say "already set: $path -> $1"
        return
    fi
    depart
    ln -s -- "$1" "$draft"
    arrive
}
