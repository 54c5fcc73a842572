#!/usr/bin/env python3
"""Does one short stop (SIGSTOP, then SIGCONT) move the phase of a server's tick?

usage: lab/zoo/nudge.py EVENKEEL [NAME...]       EVENKEEL is the program, such as target/debug/evenkeel

Starts each server of TABLE by run.sh, records its wakes with `evenkeel measure ticks --save`, and stops it once in the middle of every second
window. The windows between have no stop, and show how far the phase moves by itself. All servers run at once; root is needed. A stop is
shorter than the period and lasts 50 ms at most. Prints a line for each window, then a table. It takes about four minutes.
"""
import cmath, math, os, signal, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = 10
WINDOW_S, STOP_AT_S = 9, 4.5
# Name, mode, the period in ms, whether it is exact, the thread, the CPU time in us from which a wake counts as a tick, and the stop in ms.
TABLE = [
    ("ddnet", "load", 20.0, True, "DDNet-Server", 60, 18),
    ("teeworlds", "load", 20.0, True, "teeworlds", 60, 18),
    ("openarena", "load", 50.0, True, "ioq3ded", 300, 45),
    ("minetest", "idle", 90.4, False, "minetestserver", 1, 50),
    ("mosquitto", "idle", 100.4, False, "mosquitto", 1, 50),
    ("asyncio-call-at", "idle", 50.0, True, "python3", 500, 45),
    ("python-sleep", "idle", 54.0, False, "python3", 500, 50),
]


def server_of(pid):
    """run.sh becomes the server, or a child of it does."""
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return server_of(int(children[0])) if children else pid


def wakes(file, thread):
    """When the busiest thread of this name woke, in ns since the recording began, and for how much CPU time."""
    threads, now, last = {}, None, 0
    for line in open(file):
        words = line.split()
        if words and words[0] == "thread":
            now, last = threads.setdefault((words[2], " ".join(words[4:])), []), 0
        elif words and words[0].isdigit():
            last += int(words[0])
            now.append((last, int(words[2])))
    fitting = [found for (_, name), found in threads.items() if name.startswith(thread)]
    return max(fitting, key=lambda found: sum(cpu for _, cpu in found), default=[])


def mean(times, period):
    """The mean of the phases, as a complex number: 1 is one phase for all, 0 is any."""
    return sum(cmath.exp(2j * math.pi * at / period) for at in times) / len(times)


def fitted(times, period):
    """The period near this one at which the phases agree best."""
    step = period * period / (times[-1] - times[0]) / 40
    return max((period + turn * step for turn in range(-400, 401)), key=lambda one: abs(mean(times, one)))


def window(evenkeel, pid, row, nth, stop_ms, folder):
    name, _, period_ms, is_exact, thread, cpu_us, _ = row
    file = os.path.join(folder, f"{name}-{nth}")
    command = [evenkeel, "measure", "ticks", "--pid", str(pid), "--seconds", str(WINDOW_S), "--save", file]
    meter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The stops come at other phases each time.
    time.sleep(STOP_AT_S + 0.0137 * nth)
    if stop_ms:
        # Another process continues it, in case this one is killed meanwhile.
        rescue = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {pid}"])
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stop_ms / 1000)
        os.kill(pid, signal.SIGCONT)
        rescue.wait()
    meter.wait()
    times = [at for at, cpu in wakes(file, thread) if cpu >= cpu_us * 1000]
    before = [at for at in times if 0.2e9 < at < (STOP_AT_S - 0.2) * 1e9]
    after = [at for at in times if at > (STOP_AT_S + 0.7) * 1e9]
    if min(len(before), len(after)) < 20:
        return None
    period = period_ms * 1e6 if is_exact else fitted(before, period_ms * 1e6)
    # Those next to the stop: a small error of the period counts for little there.
    before, after = before[-max(20, len(before) // 3) :], after[: max(20, len(after) // 3)]
    turn = cmath.phase(mean(after, period) / mean(before, period)) / (2 * math.pi)
    shift_ms, period_ms = turn * period / 1e6, period / 1e6
    print(f"{name}: stop {stop_ms} ms, period {period_ms:.3f} ms, moved {shift_ms:+.2f} ms", flush=True)
    return shift_ms


def try_one(evenkeel, row, folder, lines):
    name, mode, _, _, _, _, stop_ms = row
    run = subprocess.Popen([os.path.join(HERE, "run.sh"), name, mode], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(15)
    if run.poll() is not None:
        lines[name] = f"| {name} | not installed: lab/zoo/setup.sh | | |"
        return
    pid = server_of(run.pid)
    shifts = {0: [], stop_ms: []}
    try:
        for nth in range(2 * PAIRS):
            stop = stop_ms if nth % 2 else 0
            shifts[stop].append(window(evenkeel, pid, row, nth, stop, folder))
    finally:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
        try:
            run.wait(10)
        except subprocess.TimeoutExpired:
            run.kill()
    known = {stop: sorted(abs(one) for one in found if one is not None) for stop, found in shifts.items()}
    shown = [f"{found[len(found) // 2]:.2f} ({found[-1]:.2f})" if found else "unknown" for found in known.values()]
    lines[name] = f"| {name} ({mode}) | {stop_ms} | {shown[0]} | {shown[1]} |"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    evenkeel, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    rows = [row for row in TABLE if not names or row[0] in names]
    lines = {}
    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=try_one, args=(evenkeel, row, folder, lines)) for row in rows]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("| server | stop (ms) | moved without a stop, median (max) in ms | moved by a stop |\n|---|---|---|---|")
    print("\n".join(lines[row[0]] for row in rows))


main()
