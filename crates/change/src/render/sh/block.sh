# block PATH: adds the lines of the standard input to the end of another owner's file, between two marks.
block() {
    path=$1 edit=block
    lines=$(cat; printf x)
    current
    without_ours block
    case $text in
    '' | *"$newline") text=$text$begin ;;
    *) text=$text$begin_open ;;
    esac
    text=$text${lines%x}$end
    put_text same
}
