# flush FILE: it is on disk when this returns.
flush() { sync "$1" 2>/dev/null || sync; }

# at_home FOLDER: whether a folder lies below the root, whatever links lead to it. The running root has no outside.
at_home() {
    [ -n "$root" ] || return 0
    case $(cd -P "$1" && pwd)/ in
    "$(cd -P "$root" && pwd)"/*) return 0 ;;
    *) return 1 ;;
    esac
}
