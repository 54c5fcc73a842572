# take_place DRAFT FILE: a whole file, or none of it.
take_place() {
    if [ -d "$2" ] && [ ! -L "$2" ]; then return 1; fi
    [ -L "$1" ] || flush "$1"
    if [ -L "$2" ]; then rm -f "$2"; fi
    mv -f "$1" "$2" && flush "${2%/*}"
}
