say() { printf '%s\n' "$*"; }

# text_of READING FILE: prints the value of a file as one would write it: for `a [b] c`, the word in brackets.
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

# spelled READING TEXT: prints a value in one spelling, so that equal values compare as equal. It ignores extra spaces and, in masks, commas
# and leading zeros.
spelled() {
    if [ "$1" = cpu-mask ]; then
        printf '%s' "$2" | tr -d ', \t\n' | tr A-F a-f | sed 's/^00*\(.\)/\1/'
    else
        printf '%s' "$2" | tr -s ' \t\n' ' ' | sed 's/^ //; s/ $//'
    fi
}

# reads READING FILE TEXT: whether a file has the value TEXT.
reads() {
    found=$(text_of "$1" "$2") || return 1
    [ "$(spelled "$1" "$found")" = "$(spelled "$1" "$3")" ]
}
