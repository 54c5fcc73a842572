# shellcheck shell=bash disable=SC2034 # the parts share variables
# Kills a command right before, and right after, each of its system calls, in one run each.
#
# `strace -e inject=CALL:signal=KILL:when=N` kills the program as it enters its Nth CALL, so that the kernel never begins the call: that is
# "before". `delay_exit` holds the program after the call has ended and before the program continues; a kill at that point is "after".
# Between two calls, a program with one thread changes only its own memory. So "after" a call that changes nothing is the same as "before"
# the next call, and the script kills on both sides only of calls that change something. N counts each system call separately, as strace
# does.

# Calls that leave something behind, or that another process can observe.
CHANGES='^(write|pwrite64|writev|fsync|fdatasync|rename.*|unlink.*|mkdir.*|rmdir|ftruncate|fchmod.*|chmod|fchown.*|chown|symlink.*|link.*|flock|clone.*|fork|vfork|kill|memfd_create)$'

# calls COMMAND…: prints one line for each system call of an undisturbed run, in order: "NAME NUMBER SIDE".
calls() {
    strace -o "$T/calls.log" "$@" >"$T/said" 2>&1
    awk -v changes="$CHANGES" '
        match($0, /^[a-z0-9_]+\(/) {
            name = substr($0, 1, RLENGTH - 1)
            number = ++count[name]
            if (name == "execve" && number == 1) next
            makes = name ~ /^open/ && /O_CREAT/
            if (name ~ changes || makes) { print name, number, "before"; if (name !~ /^exit/) print name, number, "after" }
            else print name, number, "reads"
        }' "$T/calls.log"
}

# kill_at NAME NUMBER SIDE COMMAND…: returns 0 if the command was killed at that call, 1 if it never made the call.
kill_at() {
    local name=$1 number=$2 side=$3 status line tracee tracer
    shift 3
    if [ "$side" = after ]; then
        rm -f "$T/trace"
        mkfifo "$T/trace"
        exec 3<>"$T/trace"
        { strace -D -o "$T/trace" -e "trace=$name" -e "inject=$name:delay_exit=5000000:when=$number" "$@" >"$T/said" 2>&1 & } 2>/dev/null
        tracee=$!
        while read -r -t 20 -u 3 line; do
            case $line in
            *DELAYED*)
                # Kill strace too, which would wait for the whole delay.
                tracer=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$tracee/status")
                kill -KILL "$tracee" "$tracer"
                break
                ;;
            '+++ '*) break ;;
            esac
        done
        { wait "$tracee"; } 2>/dev/null
        status=$?
        exec 3>&-
    else
        { strace -o /dev/null -e "trace=$name" -e "inject=$name:signal=${SIGNAL:-KILL}:when=$number" "$@" >"$T/said" 2>&1; } 2>/dev/null
        status=$?
    fi
    [ "$status" -gt 128 ]
}

# sample LIST MANY: with --quick, every call that changes something (on both sides for at most every second of these calls), and MANY of the
# calls that only read, spread over all. Otherwise all calls. With --shard=K/N, every Nth of the chosen calls.
sample() {
    awk -v quick="${QUICK:-}" -v many="$2" -v shard="${SHARD%/*}" -v shards="${SHARD#*/}" '
        { all[NR] = $0; if (/ reads$/) reads++; else changes++ }
        END {
            step = quick && reads > many ? reads / many : 1
            thin = quick && changes > 2 * many ? changes / (2 * many) : 1
            for (at = 1; at <= NR; at++) {
                if (all[at] ~ / reads$/) chosen = int(++r / step) > int((r - 1) / step)
                else chosen = int(++c / thin) > int((c - 1) / thin)
                if (chosen && n++ % shards == shard) print all[at]
            }
        }' "$1"
}

# undo_all WHAT: `revert` after a crash. The revert must report success, everything must be as before, and a second revert must find nothing
# to do.
undo_all() {
    local what=$1 status
    "${REVERT[@]}" >"$T/revert" 2>&1
    status=$?
    [ $status -eq 0 ] || fail "$what: revert ends with $status: $(tail -n 3 "$T/revert")"
    as_before "$what" || return 1
    "${REVERT[@]}" --json >"$T/revert" 2>&1
    status=$?
    if [ $status -ne 0 ] || ! grep -q '"transactions": *\[\]' "$T/revert"; then
        fail "$what: a second revert ends with $status: $(head -n 3 "$T/revert")"
        return 1
    fi
    as_before "$what, reverted twice"
}

# scenario NAME PREPARE COMMAND…: kills the command at every chosen call and reverts each time. PREPARE is a function that runs undisturbed
# before each kill.
scenario() {
    local name=$1 prepare=$2 tried=0 back=0 missed=0 call number side started=$SECONDS
    shift 2
    hold_host
    remember
    fresh
    "$prepare"
    calls "$@" >"$T/list"
    undo_all "$name, not killed" || { free_host; return; }
    local total
    total=$(wc -l <"$T/list")
    sample "$T/list" "${READS:-15}" >"$T/chosen"
    while read -r call number side <&4; do
        fresh
        "$prepare"
        if kill_at "$call" "$number" "$side" "$@"; then
            tried=$((tried + 1))
        else
            missed=$((missed + 1))
        fi
        undo_all "$name killed $side $call $number" && back=$((back + 1))
        breathe $((tried + missed))
    done 4<"$T/chosen"
    free_host
    report "$name" "$tried" "$back" "of $total, $missed not reached" $((SECONDS - started))
}

report() {
    local line
    printf -v line '%-34s %6s crash points  %6s put back  (%s; %s s)' "$1" "$2" "$3" "$4" "$5"
    say "$line"
    echo "$line" >>"$T/figures"
    TRIED=$((TRIED + $2))
}
TRIED=0

nothing() { :; }
applied() { "$EVENKEEL" apply "${WANTED[@]}" >"$T/said" 2>&1 || fail "apply, undisturbed: $(tail -n 2 "$T/said")"; }
applied_to_last() { "$EVENKEEL" apply --persist "${LASTING[@]}" >"$T/said" 2>&1 || fail "apply --persist, undisturbed: $(tail -n 2 "$T/said")"; }
applied_twice() {
    applied_to_last
    "$EVENKEEL" apply vm.swappiness=20 >"$T/said" 2>&1 || fail "a second apply, undisturbed: $(tail -n 2 "$T/said")"
}
on_trial() { "$EVENKEEL" apply --try 600 "${WANTED[@]}" >"$T/said" 2>&1 || fail "apply --try, undisturbed: $(tail -n 2 "$T/said")"; }
in_image() { "$EVENKEEL" image "$IMAGE" "${IMAGED[@]}" >"$T/said" 2>&1 || fail "image, undisturbed: $(tail -n 2 "$T/said")"; }

kills() {
    REVERT=("$EVENKEEL" revert)
    scenario 'apply' nothing "$EVENKEEL" apply "${WANTED[@]}"
    scenario 'revert' applied "$EVENKEEL" revert
    scenario 'apply --persist' nothing "$EVENKEEL" apply --persist "${LASTING[@]}"
    scenario 'revert of --persist and apply' applied_twice "$EVENKEEL" revert
    scenario 'confirm' on_trial "$EVENKEEL" confirm
    scenario 'apply that fails and rolls back' nothing "$EVENKEEL" apply "${WANTED[@]}" "${REFUSED[@]}"
    REVERT=("$EVENKEEL" image --undo "$IMAGE")
    scenario 'image' nothing "$EVENKEEL" image "$IMAGE" "${IMAGED[@]}"
    scenario 'image --undo' in_image "$EVENKEEL" image --undo "$IMAGE"
    REVERT=("$EVENKEEL" revert)
}

# The boot loader's program is killed at each of its system calls: once, so that the undo succeeds, and always, so that it fails.
child_kills() {
    if ! [ -x /usr/sbin/update-grub ] || [[ ${LASTING[*]} != *cmdline* ]]; then
        say 'skipped update-grub killed: nothing here makes apply --persist run it'
        return
    fi
    local call number tried=0 back=0 status started=$SECONDS
    hold_host
    remember
    fresh
    rm -f "$T/child.log"
    echo count 0 >"$T/child"
    "$EVENKEEL" apply --persist "${LASTING[@]}" >"$T/said" 2>&1
    [ -e "$T/child.log" ] || { fail "update-grub was not run"; free_host; return; }
    undo_all 'update-grub, not killed'
    awk 'match($0, /^[a-z0-9_]+\(/) { name = substr($0, 1, RLENGTH - 1); n = ++c[name]; if (name != "execve" || n > 1) print name, n, "reads" }' "$T/child.log" >"$T/list"
    sample "$T/list" 15 >"$T/chosen"
    while read -r call number _ <&4; do
        for always in '' always; do
            fresh
            [ -z "$always" ] || : >"$T/child-always"
            echo "$call $number" >"$T/child"
            "$EVENKEEL" apply --persist "${LASTING[@]}" >"$T/said" 2>&1
            status=$?
            rm -f "$T/child" "$T/child-always"
            tried=$((tried + 1))
            case $status$always in
            0*) ;; # It had done its work, or was never there.
            5 | 5always) is_as_before || fail "update-grub killed at $call $number: exit code 5, but not all is as before" ;;
            6always) tr -s '\n ' ' ' <"$T/said" | grep -q 'not restored' || fail "update-grub killed at $call $number: exit code 6, but not what is left" ;;
            *) fail "update-grub killed at $call $number $always: exit code $status: $(tail -n 2 "$T/said")" ;;
            esac
            undo_all "update-grub killed at $call $number $always" && back=$((back + 1))
            breathe "$tried"
        done
    done 4<"$T/chosen"
    free_host
    report 'update-grub, child of apply' "$tried" "$back" "of $((2 * $(wc -l <"$T/list")))" $((SECONDS - started))
}
