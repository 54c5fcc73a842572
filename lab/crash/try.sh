# shellcheck shell=bash
# Tests `apply --try`: the change is undone by itself, even if the program, its terminal, or the watchdog dies.

# The maximum time that a watchdog with a limit of 1 s may take on a machine that does other work too, in tenths of a second.
PATIENCE=200

# heals WHAT: whether everything is as before after the time limit, with only the watchdog at work.
heals() {
    local turn
    for ((turn = 0; turn < PATIENCE; turn++)); do
        # Check the values first: once the transaction is closed, no drafts of half-restored files may remain.
        [ "$(values)" = "$VALUES_BEFORE" ] && "$EVENKEEL" verify >"$T/verify" 2>&1 && break
        sleep 0.1
    done
    as_before "$1"
}

# watchdogs: prints the process numbers of the watchdogs. The process namespace contains only watchdogs of this script.
watchdogs() {
    local words folder
    for folder in /proc/[0-9]*; do
        mapfile -d '' -t words <"$folder/cmdline" 2>/dev/null || continue
        if [ "${words[1]:-}" = watchdog ]; then echo "${folder#/proc/}"; fi
    done
}

tries() {
    hold_host
    remember
    parent_killed
    line_cut
    free_host
}

watchdog_deaths() {
    hold_host
    remember
    watchdog_signalled
    watchdog_killed
    watchdog_killed_for_good
    watchdog_killed_anywhere
    free_host
}

parent_killed() {
    local tried=0 back=0 call number side first started=$SECONDS
    fresh
    calls "$EVENKEEL" apply --try 600 "${WANTED[@]}" >"$T/all"
    undo_all 'apply --try, not killed'
    # A watchdog exists from the fork on; during a few of the calls before the fork, there is no watchdog.
    first=$(grep -nE '^(clone3?|fork|vfork) 1 after' "$T/all" | cut -d: -f1)
    [ -n "$first" ] || { fail 'apply --try starts no watchdog'; return; }
    tail -n "+$first" "$T/all" >"$T/list"
    sample "$T/list" "${TRY_READS:-3}" >"$T/chosen"
    while read -r call number side <&4; do
        fresh
        kill_at "$call" "$number" "$side" "$EVENKEEL" apply --try 1 "${WANTED[@]}" && tried=$((tried + 1))
        # If the command was killed before the watchdog's first sign, there may be no watchdog, but then nothing was changed either.
        heals "apply --try killed $side $call $number" && back=$((back + 1))
        undo_all "apply --try killed $side $call $number, and reverted"
        breathe "$tried"
    done 4<"$T/chosen"
    report 'apply --try, parent killed' "$tried" "$back" "of $(wc -l <"$T/list"), back by itself" $((SECONDS - started))
}

# A connection breaks: the terminal disappears, and all its processes get SIGHUP.
line_cut() {
    local shell started=$SECONDS turn
    command -v script >/dev/null || { say 'skipped the terminal that goes: script is missing: apt-get install --no-install-recommends bsdutils'; return; }
    fresh
    setsid script -qfc "$EVENKEEL apply --try 2 ${WANTED[*]}; sleep 60" /dev/null </dev/null >"$T/said" 2>&1 &
    shell=$!
    for ((turn = 0; turn < PATIENCE; turn++)); do
        [ "$(values)" != "$VALUES_BEFORE" ] && grep -q 'undoes itself' "$T/said" && break
        sleep 0.1
    done
    [ "$(values)" != "$VALUES_BEFORE" ] || fail "apply --try in a terminal changed nothing: $(tail -n 3 "$T/said")"
    [ -n "$(watchdogs)" ] || fail 'apply --try in a terminal left no watchdog'
    # The terminal's other end closes with it, and the kernel hangs up on all processes of the terminal.
    { kill -KILL "$shell" && wait "$shell"; } 2>/dev/null
    heals 'apply --try, the terminal gone' && undo_all 'apply --try, the terminal gone' &&
        report 'apply --try, terminal gone' 1 1 'back by itself' $((SECONDS - started))
}

watchdog_killed() {
    local started=$SECONDS pid
    fresh
    on_trial
    for pid in $(watchdogs); do kill -KILL "$pid"; done
    "$EVENKEEL" verify --json >"$T/said" 2>&1
    expect 'verify with the watchdog killed' $? '0 1' '"unconfirmed"'
    is_as_before && fail 'the values are as before though nobody put them back'
    undo_all 'the watchdog killed' && report 'watchdog killed' 1 1 'verify reports it, revert restores' $((SECONDS - started))
}

# No signal that a process can ignore ends the watchdog.
watchdog_signalled() {
    local started=$SECONDS pid signal tried=0
    fresh
    on_trial
    for pid in $(watchdogs); do
        for signal in HUP INT QUIT USR1 USR2 PIPE ALRM TERM ABRT SEGV BUS ILL FPE TRAP SYS; do
            kill -"$signal" "$pid"
            tried=$((tried + 1))
        done
        sleep 0.3
        kill -0 "$pid" 2>/dev/null || fail 'a signal ended the watchdog'
    done
    [ "$tried" -gt 0 ] || fail 'apply --try left no watchdog'
    undo_all 'the watchdog signalled' && report 'watchdog signalled' "$tried" "$tried" 'signals withstood' $((SECONDS - started))
}

# If no watchdog is left when the time is over, the next command detects that, and undoes the change.
watchdog_killed_for_good() {
    local started=$SECONDS pid command tried=0 back=0
    for command in verify history "apply ${WANTED[0]}"; do
        fresh
        "$EVENKEEL" apply --try 2 "${WANTED[@]}" >"$T/said" 2>&1 || fail "apply --try 2: $(tail -n 2 "$T/said")"
        for pid in $(watchdogs); do kill -KILL "$pid"; done
        sleep 2.5
        is_as_before && fail 'the values are as before though nobody put them back'
        tried=$((tried + 1))
        # shellcheck disable=SC2086 # words
        "$EVENKEEL" $command >"$T/said" 2>&1
        grep -q 'confirm' "$T/said" || fail "$command after the time was over: does not say that nobody confirmed: $(tail -n 3 "$T/said")"
        [[ $command == apply* ]] && { "$EVENKEEL" revert >"$T/said" 2>&1 || fail "revert: $(tail -n 2 "$T/said")"; }
        is_as_before && back=$((back + 1))
        undo_all "the watchdog killed and the time over, after $command"
    done
    report 'watchdog killed, time over' "$tried" "$back" 'by the next command' $((SECONDS - started))
}

# The watchdog is killed in the middle of its own work: at each system call while it restores the values. The next command of any kind
# finishes the rest.
watchdog_killed_anywhere() {
    local started=$SECONDS pid call number side tried=0 back=0 missed=0 applied registers=/run/evenkeel
    local watchdog=("$EVENKEEL" watchdog 1 --late --state "$STATE")
    fresh
    "$EVENKEEL" apply --try 1 "${WANTED[@]}" >"$T/said" 2>&1 || fail "apply --try 1: $(tail -n 2 "$T/said")"
    for pid in $(watchdogs); do kill -KILL "$pid"; done
    sleep 1.2
    applied=$(values)
    [ "$applied" != "$VALUES_BEFORE" ] || { fail 'the watchdog was faster than its killer'; return; }
    rm -rf "$T/overdue" "$T/registers"
    cp -a "$STATE" "$T/overdue"
    cp -a "$registers" "$T/registers"
    calls "${watchdog[@]}" >"$T/list"
    is_as_before || fail "a late watchdog does not undo: $(tail -n 3 "$T/said")"
    undo_all 'a late watchdog, not killed'
    sample "$T/list" "${READS:-15}" >"$T/chosen"
    while read -r call number side <&4; do
        rm -rf "$STATE" "$registers"
        cp -a "$T/overdue" "$STATE"
        cp -a "$T/registers" "$registers"
        put_values_back "$applied"
        if kill_at "$call" "$number" "$side" "${watchdog[@]}"; then tried=$((tried + 1)); else missed=$((missed + 1)); fi
        "$EVENKEEL" verify >"$T/verify" 2>&1 || fail "verify after a watchdog killed $side $call $number: $? $(tail -n 3 "$T/verify")"
        as_before "a watchdog killed $side $call $number, by verify" && back=$((back + 1))
        undo_all "a watchdog killed $side $call $number"
        breathe $((tried + missed))
    done 4<"$T/chosen"
    report 'watchdog killed as it undoes' "$tried" "$back" "of $(wc -l <"$T/list"), $missed not reached" $((SECONDS - started))
}
