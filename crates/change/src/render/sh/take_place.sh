# draft_of FILE: $draft is a name beside it that is free; empty where none is. A file or link under such a name is what a killed script
# left. Anything else is somebody else's, and the next name is taken.
draft_of() {
    free=
    for number in '' -1 -2 -3 -4 -5 -6 -7; do
        draft=${1%/*}/.${1##*/}.evenkeel-draft$number
        if [ -f "$draft" ] || [ -L "$draft" ]; then rm -f "$draft" 2>/dev/null || :; fi
        if [ -z "$free" ] && [ ! -e "$draft" ] && [ ! -L "$draft" ]; then free=$draft; fi
    done
    draft=$free
}

# take_place DRAFT FILE: a whole file, or none of it.
take_place() {
    if [ -d "$2" ] && [ ! -L "$2" ]; then return 1; fi
    [ -L "$1" ] || flush "$1"
    if [ -L "$2" ]; then rm -f "$2"; fi
    mv -f "$1" "$2" && flush "${2%/*}"
}
