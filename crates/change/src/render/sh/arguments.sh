# kernel_arguments PATH ARGUMENT...: adds the arguments to the end of the first line of kernel arguments, before the word `--` and the
# arguments of init. Two spaces before them mark them as ours.
kernel_arguments() {
    path=$1
    shift
    edit=arguments
    for argument in "$@"; do edit="$edit $(quoted "$argument")"; done
    if [ ! -f "$root$path" ]; then fail "edit $path: it is not there, and ours alone would be a kernel without its root"; fi
    current
    kernel_line first
    own_part
    case $is_entry:$own in
    *:*[![:space:]]*) ;;
    yes:*) fail "edit $path: it has no options line, and one with ours alone would replace the boot loader's default arguments" ;;
    *) fail "edit $path: it holds no kernel arguments" ;;
    esac
    case "$own " in
    *"  $*"[[:space:]]*) ;;
    *)
        quotes=$(printf '%s' "$own" | tr -dc '"')
        if [ $((${#quotes} % 2)) -ne 0 ]; then fail "edit $path: a quote is open at the end of its kernel arguments"; fi
        text="$head$own  $*$inits$rest"
        ;;
    esac
    put_text same
}
