#!/usr/bin/env python3
"""A Python server's tick with some work. It prints its own count at SIGTERM.

usage: ticks.py call_at|call_later|asleep|sleep HZ WORK_US

call_at: asyncio, each tick due a period after the due time before (set times)
call_later: asyncio, the next tick a period after the end of this one (chained)
asleep: asyncio.sleep in a loop (chained)
sleep: time.sleep in a loop (chained)
"""
import asyncio, os, signal, sys, time

how, hz, work_us = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
period = 1 / hz


def rounds(n):
    x = 1
    for _ in range(n):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF


best = 1e9
for _ in range(20):
    begin = time.perf_counter()
    rounds(5000)
    best = min(best, time.perf_counter() - begin)
work = int(5000 / best * work_us / 1e6 * float(os.environ.get("ZOO_WORK_PERCENT", 100)) / 100)
ticks, start = 0, time.perf_counter()


def end(*_):
    seconds = time.perf_counter() - start
    print(f"zoo: {ticks} ticks in {seconds:.3f} s, {ticks / seconds:.3f} Hz", file=sys.stderr, flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)


def tick():
    global ticks
    rounds(work)
    ticks += 1


async def main():
    loop = asyncio.get_running_loop()
    if how == "asleep":
        while True:
            tick()
            await asyncio.sleep(period)
    due = loop.time()

    def again():
        nonlocal due
        tick()
        if how == "call_at":
            due += period
            loop.call_at(due, again)
        else:
            loop.call_later(period, again)

    again()
    await asyncio.Event().wait()


if how == "sleep":
    while True:
        tick()
        time.sleep(period)
asyncio.run(main())
