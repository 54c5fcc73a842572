#!/usr/bin/env python3
"""Waits for a server to end, then ends its load and removes its folder.

usage: keeper.py PID FOLDER [COMMAND...]

It waits on a pidfd, so it never wakes while the server runs. It leaves the session of the server: the server has no child that it did
not start, and its process group is its own. The load starts a second after the server and ends after LIMIT_S at most;
what it prints goes to the file ZOO_LOG.
"""
import ctypes, os, select, shutil, signal, subprocess, sys, time

LIMIT_S = 900
server, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
fd = os.pidfd_open(server)
if os.fork():
    os._exit(0)
os.setsid()
load = None
ended = select.select([fd], [], [], 1.0 if command else None)[0]
if command and not ended:
    out = open(os.environ.get("ZOO_LOG") or os.devnull, "ab")
    load = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
    ended = select.select([fd], [], [], LIMIT_S)[0]
    try:
        os.killpg(load.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    load.wait()
select.select([fd], [], [])
time.sleep(0.2)
shutil.rmtree(folder, ignore_errors=True)
