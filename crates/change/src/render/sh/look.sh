say() { printf '%s\n' "$*"; }

# text_of READING FILE: what a file holds, as it would be written there: of `a [b] c` the word in brackets.
text_of() {
    text=$(cat "$2") || return 1
    case $1:$text in
    chosen-word:*'['*']'*)
        text=${text#*\[}
        text=${text%%\]*}
        ;;
    esac
    printf '%s' "$text"
}

# spelled READING TEXT: one spelling of all that mean the same: spaces, and in masks commas and leading zeros, count for nothing.
spelled() {
    if [ "$1" = cpu-mask ]; then
        printf '%s' "$2" | tr -d ', \t\n' | tr A-F a-f | sed 's/^00*\(.\)/\1/'
    else
        printf '%s' "$2" | tr -s ' \t\n' ' ' | sed 's/^ //; s/ $//'
    fi
}

# reads READING FILE TEXT: whether a file holds what TEXT would bring about.
reads() {
    found=$(text_of "$1" "$2") || return 1
    [ "$(spelled "$1" "$found")" = "$(spelled "$1" "$3")" ]
}
