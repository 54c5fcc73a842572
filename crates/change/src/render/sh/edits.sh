newline='
'
return=$(printf '\r')

# without_ours HOW...: takes out of $text our block, or our kernel arguments. Where nobody could tell what is ours, all stays.
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

# kernel_line: parts $text into $head, $body and $rest, where $body is the last line of kernel arguments: `options` in an entry of
# the Boot Loader Specification, in any other file what is no comment.
kernel_line() {
    head='' body='' rest='' is_last=no is_entry=no before='' left=$text
    printf '%s\n' "$text" | grep -qE '^[[:space:]]*(title|version|linux|initrd|options|efi)([[:space:]]|$)' && is_entry=yes
    while [ -n "$left" ]; do
        whole=${left%%"$newline"*}
        case $left in *"$newline"*) gap=$newline ;; *) gap='' ;; esac
        left=${left#"$whole$gap"}
        line=${whole%"$return"}
        case $is_entry:${line#"${line%%[![:space:]]*}"} in
        yes:options[[:space:]]*[![:space:]]* | no:[!#]*)
            head=$before body=$line rest=${whole#"$line"}$gap$left
            if [ -z "$left" ]; then is_last=yes; else is_last=no; fi
            ;;
        esac
        before=$before$whole$gap
    done
}

# without_arguments ARGUMENT...: two spaces stand before ours. Where somebody wrote the line anew, the last of each goes.
without_arguments() {
    kernel_line
    case "$body " in
    "options  $* ")
        # The line is ours.
        if [ "$is_last" = yes ] && [ -z "$rest" ]; then text=${head%"$newline"}; else text=$head${rest#"$newline"}; fi
        ;;
    *"  $*"[[:space:]]*)
        padded="$body "
        padded=${padded%"  $*"[[:space:]]*}${padded##*"  $*"}
        text=$head${padded% }$rest
        ;;
    *)
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
        text=$head$body$rest
        ;;
    esac
}
