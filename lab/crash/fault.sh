# shellcheck shell=bash disable=SC2034 # the parts share variables
# Tests what may go wrong without a crash: calls that fail, disks that are full or read only, journals that are torn or damaged, signals.

# Calls on files. evenkeel promises nothing for calls that fail because memory runs out.
FALLIBLE='^(open|openat|openat2|read|pread64|write|pwrite64|fsync|fdatasync|rename.*|unlink.*|mkdir.*|rmdir|ftruncate|fchmod|fchown|flock|fstat|newfstatat|statx|getdents64|symlink.*|readlink.*|lseek|fcntl|access)$'

# judge WHAT STATUS: whether the exit code of a change describes the resulting state.
judge() {
    local what=$1 status=$2
    case $status in
    0 | 7) "$EVENKEEL" verify >"$T/verify" 2>&1 || [ $? -eq 7 ] || fail "$what: exit code $status, but verify: $(head -n 4 "$T/verify")" ;;
    3 | 4 | 5) is_as_before || fail "$what: exit code $status says that nothing is changed, but it is: $(tail -n 3 "$T/said")
$(diff <(echo "$VALUES_BEFORE") <(values))" ;;
    6) tr -s '\n ' ' ' <"$T/said" | grep -Eq 'not restored|the change is made all the same' || fail "$what: exit code 6, but not what is left: $(tail -n 3 "$T/said")" ;;
    # These are calls of the dynamic loader, before evenkeel's first line.
    127) is_as_before || fail "$what: exit code 127, but something is changed" ;;
    *) fail "$what: exit code $status: $(tail -n 3 "$T/said")" ;;
    esac
}

# judge_undo WHAT STATUS: whether the exit code of a revert describes the resulting state, after PREPARE had applied a change.
judge_undo() {
    local what=$1 status=$2
    case $status in
    0) is_as_before || fail "$what: exit code 0, but not all is as before: $(tail -n 3 "$T/said")" ;;
    3 | 4 | 6 | 127) ;;
    *) fail "$what: exit code $status: $(tail -n 3 "$T/said")" ;;
    esac
}

# fail_everywhere NAME ERROR PREPARE JUDGE COMMAND…: each call on a file fails once.
fail_everywhere() {
    local name=$1 error=$2 prepare=$3 judge=$4 tried=0 back=0 call number side status started=$SECONDS
    shift 4
    hold_host
    remember
    fresh
    "$prepare"
    calls "$@" | grep -v ' after$' | awk -v fallible="$FALLIBLE" '$1 ~ fallible' >"$T/list"
    undo_all "$name, undisturbed"
    sample "$T/list" "${READS:-15}" >"$T/chosen"
    while read -r call number side <&4; do
        fresh
        "$prepare"
        strace -o /dev/null -e "trace=$call" -e "inject=$call:error=$error:when=$number" "$@" >"$T/said" 2>&1
        status=$?
        tried=$((tried + 1))
        "$judge" "$name with $error from $call $number" "$status"
        undo_all "$name with $error from $call $number (exit code $status)" && back=$((back + 1))
        breathe "$tried"
    done 4<"$T/chosen"
    free_host
    report "$name, $error from each call" "$tried" "$back" "of $(wc -l <"$T/list")" $((SECONDS - started))
}

errors() {
    fail_everywhere 'apply' EIO nothing judge "$EVENKEEL" apply "${WANTED[@]}"
    fail_everywhere 'apply --persist' EIO nothing judge "$EVENKEEL" apply --persist "${LASTING[@]}"
    fail_everywhere 'apply --persist' ENOSPC nothing judge "$EVENKEEL" apply --persist "${LASTING[@]}"
    fail_everywhere 'revert' EIO applied_to_last judge_undo "$EVENKEEL" revert
    REVERT=("$EVENKEEL" image --undo "$IMAGE")
    fail_everywhere 'image' EIO nothing judge_image "$EVENKEEL" image "$IMAGE" "${IMAGED[@]}"
    REVERT=("$EVENKEEL" revert)
}

# No kernel runs in an image. `revert` there shows whether the image is as before.
judge_image() {
    case $2 in
    0 | 6) ;;
    # The root of an image is an argument, so a root that can't be opened is wrong use.
    2) is_as_before || fail "$1: exit code 2, but something is changed" ;;
    *) judge "$@" ;;
    esac
}

# SIGTERM and SIGHUP while a change is made. (A command that a shell starts in the background ignores SIGINT.)
signals() {
    local signal started=$SECONDS call number side tried back
    for signal in TERM HUP; do
        tried=0 back=0
        hold_host
        remember
        fresh
        calls "$EVENKEEL" apply --persist "${LASTING[@]}" | grep ' before$' >"$T/list"
        undo_all "$signal, undisturbed"
        sample "$T/list" 10 >"$T/chosen"
        while read -r call number side <&4; do
            fresh
            SIGNAL=$signal kill_at "$call" "$number" "$side" "$EVENKEEL" apply --persist "${LASTING[@]}" && tried=$((tried + 1))
            undo_all "SIG$signal at $call $number" && back=$((back + 1))
        done 4<"$T/chosen"
        free_host
        report "apply --persist, SIG$signal" "$tried" "$back" 'where it changes something' $((SECONDS - started))
    done
}

# expect WHAT STATUS EXPECTED WORDS: checks the last command's exit code and output.
expect() {
    local what=$1 status=$2 expected=$3 words=$4
    [[ " $expected " == *" $status "* ]] || fail "$what: exit code $status, not $expected: $(tail -n 3 "$T/said")"
    tr -s '\n ' ' ' <"$T/said" | grep -q -- "$words" || fail "$what: does not say '$words': $(tail -n 3 "$T/said")"
}

full_journal() {
    local room status tried=0 back=0 started=$SECONDS
    # The kernel counts in pages of 4 kB: with each additional page of space, evenkeel can write one more page of the journal.
    for room in 4 8 12 16 20 24 32; do
        fresh
        mkdir -p "$STATE" && mount -t tmpfs -o "mode=700,size=${room}k" none "$STATE"
        "$EVENKEEL" apply --persist "${LASTING[@]}" >"$T/said" 2>&1
        status=$?
        judge "apply with ${room} kB for the journal" $status
        [ $status -eq 0 ] || expect "apply with ${room} kB for the journal" $status '4 5' 'ENOSPC'
        # The disk is still full: the data for the rest of the undo is on disk already.
        undo_all_full "apply with ${room} kB for the journal" && back=$((back + 1))
        tried=$((tried + 1))
        umount "$STATE"
    done
    # Space for the change, but not for the record of its undo.
    fresh
    mkdir -p "$STATE" && mount -t tmpfs -o mode=700,size=256k none "$STATE"
    "$EVENKEEL" apply "${WANTED[@]}" >"$T/said" 2>&1
    cat /dev/zero >"$STATE/filler" 2>/dev/null
    undo_all_full 'revert with a journal that has no room' && back=$((back + 1))
    rm "$STATE/filler"
    undo_all 'revert once there is room' && back=$((back + 1))
    umount "$STATE"
    report 'journal on a full disk' $((tried + 2)) "$back" 'rooms of 4 to 32 kB, and none' $((SECONDS - started))
}

# On a full disk, evenkeel restores the values but cannot record that in the journal. It reports this, and a later revert checks again.
undo_all_full() {
    "$EVENKEEL" revert >"$T/revert" 2>&1 || [ $? -eq 4 ] || fail "$1: revert: $(tail -n 2 "$T/revert")"
    as_before "$1"
}

full_etc() {
    local left status tried=0 back=0 started=$SECONDS
    for left in 0 1 2 3 4 6; do
        fresh
        cat /dev/zero >/etc/filler 2>/dev/null
        truncate -s -$((left * 4096)) /etc/filler
        "$EVENKEEL" apply --persist "${LASTING[@]}" >"$T/said" 2>&1
        status=$?
        mv /etc/filler "$T/filler" 2>/dev/null || rm -f /etc/filler
        rm -f "$T/filler"
        judge "apply --persist with $left pages left in /etc" $status
        tried=$((tried + 1))
        undo_all "apply --persist with $left pages left in /etc" && back=$((back + 1))
    done
    # Restoring a file needs room for the file's draft.
    fresh
    applied_to_last
    cat /dev/zero >/etc/filler 2>/dev/null
    "$EVENKEEL" revert >"$T/said" 2>&1
    status=$?
    rm -f /etc/filler
    judge_undo 'revert with /etc full' $status
    undo_all 'revert with /etc full, and then with room' && back=$((back + 1))
    report '/etc on a full disk' $((tried + 1)) "$back" '0 to 6 pages left' $((SECONDS - started))
}

# read_only NAME PREPARE PATH…: tests the changes of PREPARE and their revert while PATHs are read-only, and afterwards.
read_only() {
    local name=$1 prepare=$2 path status command=("$EVENKEEL" apply "${WANTED[@]}")
    shift 2
    [ "$prepare" = applied ] || command=("$EVENKEEL" apply --persist "${LASTING[@]}")
    fresh
    for path in "$@"; do ro "$path"; done
    "${command[@]}" >"$T/said" 2>&1
    status=$?
    judge "apply with $name read only" $status
    [ $status -eq 0 ] && fail "apply with $name read only: exit code 0"
    for path in "$@"; do rw "$path"; done
    undo_all "apply with $name read only" || return
    fresh
    "$prepare"
    for path in "$@"; do ro "$path"; done
    "$EVENKEEL" revert >"$T/said" 2>&1
    status=$?
    for path in "$@"; do rw "$path"; done
    judge_undo "revert with $name read only" $status
    [ $status -eq 0 ] && fail "revert with $name read only: exit code 0"
    undo_all "revert with $name read only, and then writable"
    report "$name read only" 2 2 'apply, revert' 0
}

# The journal's folder and /etc are separate file systems here. /proc and /sys become read-only only in this script's namespace.
ro() { mountpoint -q "$1" || mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; }
rw() { mount -o remount,bind,rw "$1"; }

disks() {
    hold_host
    remember
    full_journal
    full_etc
    read_only /etc applied_to_last /etc
    read_only /sys applied /sys
    read_only /proc/sys applied /proc/sys
    read_only '/proc/sys and /sys' applied_to_last /proc/sys /sys
    free_host
}

journals() {
    hold_host
    remember
    torn_journals
    damaged_journals
    two_at_once
    free_host
}

# A crash in the middle of a write leaves a part of the last record, and damages no other record.
torn_journals() {
    local last length cut tried=0 back=0 started=$SECONDS
    fresh
    applied_to_last
    last=$(tail -n 1 "$STATE/journal")
    undo_all 'an untorn journal'
    length=${#last}
    for ((cut = 0; cut < length; cut += ${QUICK:+$((length / 8 + 1))} + 0)); do
        fresh
        applied_to_last
        printf %s "${last:0:cut}" >>"$STATE/journal"
        tried=$((tried + 1))
        undo_all "a record torn after $cut of $length bytes" && back=$((back + 1))
        [ -n "${QUICK:-}" ] || cut=$((cut + 3))
    done
    report 'last record torn' "$tried" "$back" "of $length lengths" $((SECONDS - started))
}

# Commands that change something refuse a journal that is damaged before its end. `revert` names what is lost and restores the rest. Each
# line of the journal also contains shell commands that undo it.
damaged_journals() {
    local size at status tried=0 back=0 started=$SECONDS line
    for at in 10 200 45% 70%; do
        fresh
        applied_to_last
        size=$(stat -c %s "$STATE/journal")
        [[ $at == *% ]] && at=$((size * ${at%\%} / 100))
        printf '\377' | dd of="$STATE/journal" bs=1 seek="$at" conv=notrunc status=none
        for command in 'apply vm.swappiness=30' confirm; do
            # shellcheck disable=SC2086 # words
            "$EVENKEEL" $command >"$T/said" 2>&1
            expect "$command with byte $at of the journal damaged" $? 4 'undo'
        done
        tried=$((tried + 1))
        cp "$STATE/journal" "$T/damaged"
        "$EVENKEEL" revert >"$T/said" 2>&1
        expect "revert with byte $at of the journal damaged" $? 6 'Not everything is as it was'
        # These are the steps of a person who has only the journal and a shell. They do no harm after the revert.
        tac "$T/damaged" | LC_ALL=C sed -nE 's/.*"undo":"((\\.|[^"\])*)".*/\1/p' | while read -r line; do printf '%b\n' "$line"; done >"$T/undo.sh"
        sh "$T/undo.sh" >"$T/said" 2>&1
        # The damaged line may be the line with that information.
        if is_as_before; then back=$((back + 1)); else say "byte $at of $size: $(tail -n 1 "$T/said") $(diff <(echo "$VALUES_BEFORE") <(values)) $(cut -c1-90 "$T/undo.sh")"; fi
        put_values_back "$VALUES_BEFORE"
        tree_back
    done
    report 'journal damaged' "$tried" "$back" 'by revert and its undo lines; the damaged line is lost' $((SECONDS - started))
}

# Runs a second evenkeel while the first evenkeel works, for longer than three waits for the lock.
two_at_once() {
    local first command
    fresh
    { strace -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_enter=6000000:when=2 "$EVENKEEL" apply "${WANTED[@]}" >"$T/first" 2>&1 & } 2>/dev/null
    first=$!
    until [ -s "$STATE/journal" ]; do sleep 0.02; done
    for command in 'apply vm.swappiness=30' revert confirm; do
        # shellcheck disable=SC2086 # words
        "$EVENKEEL" $command >"$T/said" 2>&1
        expect "$command beside another" $? 4 'another evenkeel (process'
    done
    "$EVENKEEL" history >"$T/said" 2>&1 || fail "history beside another: $(tail -n 2 "$T/said")"
    wait $first || fail "the first of two: $(tail -n 2 "$T/first")"
    undo_all 'two at once' && report 'a second evenkeel' 3 3 'refused with exit code 4' 0
}
