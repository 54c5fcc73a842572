# kernel_arguments PATH ARGUMENT...: they are to be at the end of the last line of kernel arguments, behind two spaces, which tell
# later that they are ours.
kernel_arguments() {
    path=$1
    shift
    edit=arguments
    for argument in "$@"; do edit="$edit $(quoted "$argument")"; done
    if [ ! -f "$root$path" ]; then fail "edit $path: it is not there, and ours alone would be a kernel without its root"; fi
    current
    kernel_line
    case "$body " in
    *"  $*"[[:space:]]*) ;;
    ' ')
        if [ "$is_entry" = no ]; then fail "edit $path: it holds no kernel arguments"; fi
        case $text in
        *"$newline") text="${text}options  $*$newline" ;;
        *) text="$text${newline}options  $*" ;;
        esac
        ;;
    *)
        quotes=$(printf '%s' "$body" | tr -dc '"')
        if [ $((${#quotes} % 2)) -ne 0 ]; then fail "edit $path: a quote is open at the end of its kernel arguments"; fi
        text="$head$body  $*$rest"
        ;;
    esac
    put_text same
}
