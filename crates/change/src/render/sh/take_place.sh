# draft_of FILE: sets $draft to a free name next to the file; empty if all names are taken. A file or link with such a name was left by a
# killed script, and is removed. Anything else belongs to another owner, so the next name is tried.
draft_of() {
    free=
    for number in '' -1 -2 -3 -4 -5 -6 -7; do
        draft=${1%/*}/.${1##*/}.evenkeel-draft$number
        if [ -f "$draft" ] || [ -L "$draft" ]; then rm -f "$draft" 2>/dev/null || :; fi
        if [ -z "$free" ] && [ ! -e "$draft" ] && [ ! -L "$draft" ]; then free=$draft; fi
    done
    draft=$free
}

# take_place DRAFT FILE: replaces the file with the draft, completely or not at all.
take_place() {
    if [ -d "$2" ] && [ ! -L "$2" ]; then return 1; fi
    [ -L "$1" ] || flush "$1"
    if [ -L "$2" ]; then rm -f "$2"; fi
    mv -f "$1" "$2" && flush "${2%/*}"
}
