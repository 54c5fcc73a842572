# link TARGET PATH: a symbolic link is to be there.
link() {
    path=$2 edit=
    if [ -L "$root$path" ] && [ "$(readlink "$root$path")" = "$1" ]; then
        say "so already: $path -> $1"
        return
    fi
    depart
    ln -s -- "$1" "$draft"
    arrive
}
