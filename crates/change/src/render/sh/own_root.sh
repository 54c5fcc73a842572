# flush FILE: syncs a file to disk.
flush() { sync "$1" 2>/dev/null || sync; }

# at_home FOLDER: whether a folder is really below the root, after following all links. On the running root, every folder is.
at_home() {
    [ -n "$root" ] || return 0
    case $(cd -P "$1" && pwd)/ in
    "$(cd -P "$root" && pwd)"/*) return 0 ;;
    *) return 1 ;;
    esac
}
