newline='
'
return=$(printf '\r')

# without_ours HOW...: removes our block, or our kernel arguments, from $text. If it is unclear what is ours, everything stays.
without_ours() {
    case $1 in
    block)
        case $text in
        *"$begin"*"$end"*) first=$begin ;;
        *"$begin_open"*"$end"*) first=$begin_open ;;
        *) return 0 ;;
        esac
        rest=${text#*"$first"}
        text=${text%%"$first"*}${rest#*"$end"}
        ;;
    arguments)
        shift
        without_arguments "$@"
        ;;
    esac
}

# kernel_line first|marked TEXT|worded ARGUMENT...: splits $text into $head, $body and $rest, where $body is a line of kernel arguments. In
# an entry of the Boot Loader Specification, these are the `options` lines; in any other file, all lines that are not comments. first: the
# first such line. marked: the first whose own part has TEXT, otherwise the last that has TEXT anywhere. worded: the first that has one of
# the arguments as a word. $body is empty if no line matches.
kernel_line() {
    wanted=$1
    shift
    head='' body='' rest='' is_last=no is_entry=no before='' left=$text is_found=no
    printf '%s\n' "$text" | grep -qE '^[[:space:]]*(title|version|linux|initrd|options|efi)([[:space:]]|$)' && is_entry=yes
    while [ -n "$left" ]; do
        whole=${left%%"$newline"*}
        case $left in *"$newline"*) gap=$newline ;; *) gap='' ;; esac
        left=${left#"$whole$gap"}
        line=${whole%"$return"}
        case $is_found:$is_entry:${line#"${line%%[![:space:]]*}"} in
        no:yes:options[[:space:]]*[![:space:]]* | no:no:[!#]*)
            if is_wanted "$@"; then
                head=$before body=$line rest=${whole#"$line"}$gap$left
                if [ -z "$left" ]; then is_last=yes; else is_last=no; fi
            fi
            ;;
        esac
        before=$before$whole$gap
    done
}

# is_wanted TEXT|ARGUMENT...: whether $line matches the search of `kernel_line`. $is_found=yes ends the search.
is_wanted() {
    case $wanted in
    first) is_found=yes ;;
    marked)
        was_body=$body body=$line
        own_part
        body=$was_body
        case "$own " in *"$1"[[:space:]]*) is_found=yes ;; esac
        case "$line " in *"$1"[[:space:]]*) ;; *) return 1 ;; esac
        ;;
    worded)
        for argument in "$@"; do
            case " $line " in *" $argument "*) is_found=yes ;; esac
        done
        [ "$is_found" = yes ]
        ;;
    esac
}

# own_part: splits $body into $own and $inits. $inits begins with the white space before the word `--`, because the kernel passes all words
# after it to init. A `--` in quotes does not count.
own_part() {
    own='' inits=$body
    case "$body " in --[[:space:]]*) return 0 ;; esac
    padded="$body "
    while :; do
        case $padded in
        *[[:space:]]--[[:space:]]*) ;;
        *)
            own=$body inits=''
            return 0
            ;;
        esac
        piece=${padded%%[[:space:]]--[[:space:]]*}
        padded=${padded#"$piece"}
        own=$own$piece
        quotes=$(printf '%s' "$own" | tr -dc '"')
        if [ $((${#quotes} % 2)) -eq 0 ]; then
            inits=${body#"$own"}
            return 0
        fi
        own=$own${padded%"${padded#???}"}
        padded=${padded#???}
    done
}

# without_arguments ARGUMENT...: removes our arguments, which are marked by two spaces before them. If somebody rewrote the line, the last
# word equal to each argument is removed.
without_arguments() {
    kernel_line marked "  $*"
    if [ -z "$body" ]; then
        kernel_line worded "$@"
        for argument in "$@"; do
            case " $body " in
            *" $argument "*)
                padded=" $body "
                padded="${padded%" $argument "*} ${padded##*" $argument "}"
                padded=${padded# }
                body=${padded% }
                ;;
            esac
        done
        if [ "$is_found" = yes ]; then text=$head$body$rest; fi
        return 0
    fi
    own_part
    case "$own " in *"  $*"[[:space:]]*) ;; *) own=$body inits='' ;; esac
    if [ "$own$inits" = "options  $*" ]; then
        # The line is ours.
        if [ "$is_last" = yes ] && [ -z "$rest" ]; then text=${head%"$newline"}; else text=$head${rest#"$newline"}; fi
        return 0
    fi
    padded="$own "
    padded=${padded%"  $*"[[:space:]]*}${padded##*"  $*"}
    text=$head${padded% }$inits$rest
}
