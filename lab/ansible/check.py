"""The steps of lab/ansible.sh: runs plays on three hosts made of namespaces, and compares what Ansible says with what the hosts have.

Runs among the hosts, as the command of lab/hosts.sh. Prints a line for each play with its time; fails at the first difference.
"""
from __future__ import annotations

import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
WORK = pathlib.Path(sys.argv[1])
PROGRAM = sys.argv[2]
HOSTS = ["host1", "host2", "host3"]
DEMUX, RMEM = "/proc/sys/net/ipv4/udp_early_demux", "/proc/sys/net/ipv4/udp_rmem_min"
SYSCTL_FILE = "/etc/sysctl.d/90-evenkeel.conf"
GOAL = ["net.ipv4.udp_early_demux=0", "net.ipv4.udp_rmem_min=16384"]
SECRET = "password-of-the-load"

# A link that a driver loses with a setting: lost before the program ends, so that no timing decides; back with the old value.
LOSING = f"""#!/bin/sh
/opt/evenkeel/bin/evenkeel "$@"
code=$?
[ "$(cat {DEMUX})" = 1 ] || ip link set eth0 down
exit $code
"""
LINK = f'while sleep 0.1; do [ "$(cat {DEMUX})" != 1 ] || ip link set eth0 up; done'


def enter(host, *command, **options):
    """Runs a command in a host, not over its network."""
    pid = (WORK / f"{host}.pid").read_text().strip()
    argv = ["nsenter", f"--target={pid}", "--mount", "--net", "--uts", "--pid", "--ipc", *command]
    return subprocess.run(argv, check=True, text=True, capture_output=True, **options).stdout


def state(host):
    """The values and files of a host that the plays change."""
    files = enter(host, "sh", "-c", "find /etc /usr/local -type f | sort | xargs cksum")
    return (enter(host, "cat", DEMUX).strip(), enter(host, "cat", RMEM).strip(), files)


class Play:
    """One run of ansible-playbook, and what it recorded."""

    def __init__(self, name, *options, good=(0,), variables=None):
        record = WORK / "record.jsonl"
        record.unlink(missing_ok=True)
        extra = json.dumps(dict(variables or {}))
        path = f"{HERE}/plays/{name}.yml" if "." not in name else name
        argv = ["ansible-playbook", "--inventory", str(WORK / "inventory.ini"), "--extra-vars", extra, *options, path]
        begin = time.monotonic()
        # The bound is for a hang only.
        done = subprocess.run(argv, env=environment(record), text=True, capture_output=True, cwd=WORK, timeout=300)
        took_s = time.monotonic() - begin
        print(f"play {name} {' '.join(options)}: {took_s:.1f} s, exit code {done.returncode}", flush=True)
        self.out = done.stdout + done.stderr
        self.lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        if done.returncode not in good:
            sys.exit(f"{name}: exit code {done.returncode}\n{self.out}")

    def result(self, task, host):
        """The one result of a task on a host."""
        found = [line for line in self.lines if line["task"].split(" : ")[-1] == task and line["host"] == host]
        if len(found) != 1:
            sys.exit(f"{task} on {host}: {len(found)} results\n{self.out}")
        return found[0]

    def changed(self):
        """The tasks that changed something, with their hosts."""
        return [(line["task"], line["host"]) for line in self.lines if line["result"].get("changed")]

    def expect(self, what, is_so, *about):
        if not is_so:
            sys.exit(f"not so: {what}\n{json.dumps(about, indent=1)}\n{self.out}")


def environment(record):
    """An environment of its own: nothing of the user's Ansible is read or written."""
    own = dict(
        HOME=str(WORK / "home"),
        ANSIBLE_HOME=str(WORK / "home/.ansible"),
        ANSIBLE_CONFIG=str(WORK / "ansible.cfg"),
        ANSIBLE_COLLECTIONS_PATH=str(WORK / "collections"),
        ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callback"),
        ANSIBLE_CALLBACKS_ENABLED="record",
        TMPDIR=str(WORK),
        EVENKEEL_RECORD=str(record),
        PYTHONDONTWRITEBYTECODE="1",
        LC_ALL="C.UTF-8",
        PATH=os.environ["PATH"],
        PWD=str(WORK),
    )
    return own


def prepare():
    (WORK / "home").mkdir()
    (WORK / "ansible.cfg").write_text(
        "[defaults]\nhost_key_checking = false\nforks = 4\nnocows = true\nretry_files_enabled = false\n"
        "localhost_warning = false\n[privilege_escalation]\nbecome_allow_same_user = true\n[ssh_connection]\npipelining = true\n"
        f"control_path_dir = {WORK}/cp\nssh_args = -o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile=/dev/null\n"
    )
    # As users install it, from a folder.
    argv = ["ansible-galaxy", "collection", "install", "--offline", "-p", str(WORK / "collections"), str(TOP / "deploy/ansible/evenkeel/host")]
    subprocess.run(argv, env=environment(WORK / "none"), check=True, stdout=subprocess.DEVNULL)
    evidence = dict(format=1, workload=dict(command=["load", "--password", SECRET]))
    goal = dict(format=1, title="a proved set", settings=GOAL, steps=[], evidence=evidence)
    (WORK / "goal.json").write_text(json.dumps(goal))
    (WORK / "program").write_text('#!/bin/sh\nexec /opt/evenkeel/bin/evenkeel "$@"\n')


def isolated():
    """No host can change a setting of the machine, or of another host."""
    networks = {enter(host, "readlink", "/proc/self/ns/net") for host in HOSTS} | {os.readlink("/proc/self/ns/net")}
    if len(networks) != len(HOSTS) + 1:
        sys.exit(f"hosts share a network: {networks}")
    for path in ("/proc/sys/vm/swappiness", "/proc/sys/net/ipv4/../../kernel/hostname", "/sys/kernel/mm/transparent_hugepage/enabled"):
        for host in HOSTS:
            tried = enter(host, "sh", "-c", f"cat {path} > /tmp/it; cat /tmp/it > {path} && echo written || true")
            if "written" in tried:
                sys.exit(f"{host} can write {path}")


class Files(http.server.BaseHTTPRequestHandler):
    """Serves the program to whoever has the token."""

    def do_GET(self):
        is_known = self.headers["Authorization"] == f"Bearer {SECRET}"
        self.send_response(200 if is_known else 403)
        self.end_headers()
        self.wfile.write((WORK / "program").read_bytes() if is_known else b"")

    def log_message(self, *_):
        pass


def plan_then_apply():
    """Check mode changes nothing, and its difference is what `apply` then does. A second run changes nothing."""
    server = http.server.ThreadingHTTPServer(("10.99.0.254", 8000), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    goal = dict(
        goal=str(WORK / "goal.json"),
        url="http://10.99.0.254:8000/program",
        checksum="sha256:" + hashlib.sha256((WORK / "program").read_bytes()).hexdigest(),
        headers=dict(Authorization=f"Bearer {SECRET}"),
    )
    before = {host: state(host) for host in HOSTS}
    look = Play("look", "--check", "--diff", variables=goal)
    for host in HOSTS:
        facts = look.result("facts", host)["result"]["ansible_facts"]["evenkeel"]
        look.expect("facts have the kernel", facts["kernel"]["release"] == os.uname().release, facts["kernel"])
        audit = look.result("audit", host)["result"]
        look.expect("the audit has advice", audit["advice"] and audit["counts"], audit)
        plan = look.result("plan", host)["result"]
        look.expect("check mode reports a change", plan["changed"] and len(plan["plan"]) == 2, plan)
        look.expect("check mode changes nothing", state(host) == before[host], host)

    tune = Play("tune", "--diff", variables=goal)
    for host in HOSTS:
        planned = look.result("plan", host)["result"]["diff"]
        applied = tune.result("Apply the settings", host)["result"]
        tune.expect("the difference is the planned one", applied["diff"] == planned and len(planned) == 3, planned, applied["diff"])
        tune.expect("a new connection confirmed it", applied["confirmed"] and not applied["undone_by_host"], applied)
        tune.expect("no evidence went to the hosts", SECRET not in json.dumps(applied), applied)
        fetched = tune.result("Fetch the program", host)["result"]
        tune.expect("the program was fetched, and the token is not logged", fetched["changed"] and "censored" in fetched, fetched)
        demux, rmem, _ = state(host)
        tune.expect("the values are in force", (demux, rmem) == ("0", "16384"), demux, rmem)
        text = enter(host, "cat", SYSCTL_FILE)
        tune.expect("the file is what the difference shows", added(planned[2]["prepared"]) == text, text)
        tune.expect("verify agrees", tune.result("Verify the settings", host)["result"]["holds"] == 3)

    after = {host: state(host) for host in HOSTS}
    # One host each is enough from here on: all have run the same tasks with the same result.
    again = Play("tune", "--diff", "--limit", "host1", variables=goal)
    again.expect("a second run changes nothing", again.lines and again.changed() == [], again.changed())
    again.expect("nor does it leave anything", {host: state(host) for host in HOSTS} == after)
    by_file = dict(goal=goal["goal"], program=str(WORK / "program"))
    check = Play("tune", "--check", "--limit", "host2", variables=by_file)
    check.expect("check mode agrees", check.lines and check.changed() == [], check.changed())
    return before


def added(unified):
    """The text of a new file, from its unified difference."""
    lines = unified.splitlines()
    return "".join(line[1:] + "\n" for line in lines if line.startswith("+") and not line.startswith("+++"))


def drift_and_revert(before):
    """Drift on one host is found and repaired there alone. `revert` puts everything back, once."""
    enter("host2", "sh", "-c", f"echo 1 > {DEMUX}")
    drift = Play("drift", "--diff", variables=dict(goal=str(WORK / "goal.json")))
    for host in HOSTS:
        found = drift.result("drift", host)
        drifted = [one["knob"] for one in found["result"]["drift"]]
        is_there = host == "host2"
        drift.expect("drift is on host2 alone", drifted == (["net.ipv4.udp_early_demux"] if is_there else []), host, drifted)
        drift.expect("drift fails the task", (found["status"] == "failed") == is_there, found)
        drift.expect("the repair changes host2 alone", drift.result("repair", host)["result"]["changed"] == is_there, host)
        would, did = (drift.result(task, host)["result"] for task in ("would revert", "revert"))
        drift.expect("check mode announces the undo", would["changed"] and did["changed"], would, did)
        drift.expect("everything is undone", did["all_undone"], did)
        drift.expect("a second revert changes nothing", not drift.result("revert again", host)["result"]["changed"], host)
        left = state(host)
        drift.expect("the values are as before", left[:2] == before[host][:2], left, before[host])
        gone = [line for line in left[2].splitlines() if line not in before[host][2]]
        drift.expect("of files only the program is left", [line.split()[-1] for line in gone] == ["/usr/local/bin/evenkeel"], gone)


class Numbers(http.server.BaseHTTPRequestHandler):
    """A stand-in for Prometheus: half as much from a host that has the goal. It keeps which hosts those were."""

    seen: list[list[str]] = []

    def do_GET(self):
        tuned = [host for host in HOSTS if enter(host, "cat", RMEM).strip() == "16384"]
        Numbers.seen.append(tuned)
        noise = {host: 1 + (31 * len(Numbers.seen) + 7 * place) % 10 / 500 for place, host in enumerate(HOSTS)}
        values = {host: (50 if host in tuned else 100) * noise[host] for host in HOSTS}
        samples = [dict(metric=dict(instance=f"{host}:9100"), value=[0, str(value)]) for host, value in values.items()]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(dict(status="success", data=dict(resultType="vector", result=samples))).encode())

    def log_message(self, *_):
        pass


def fleet_prove():
    """A trial over the hosts switches them by Ansible, goes on after a kill, and puts everything back."""
    before = {host: state(host)[:2] for host in HOSTS}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 9090), Numbers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    inventory = WORK / "trial.ini"
    inventory.write_text((WORK / "inventory.ini").read_text() + "evenkeel_program=/opt/evenkeel/bin/evenkeel\nevenkeel_try=0\n")
    plan = [PROGRAM, "plan", "net.ipv4.udp_rmem_min=16384", "--output", str(WORK / "trial.json")]
    subprocess.run(plan, env=environment(WORK / "none"), check=True)
    argv = [PROGRAM, "fleet", "prove", "trial.json", "--inventory", str(inventory), "--prometheus", "http://127.0.0.1:9090"]
    argv += ["--metric", "x[$window]", "--block", "1s", "--wash-out", "0s", "--blocks-before", "1", "--blocks", "3", "--json"]
    log = WORK / "fleet-trial.jsonl"
    running = subprocess.Popen(argv, env=environment(WORK / "none"), cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # It is killed when it has measured one block of the trial.
    while running.poll() is None and (not log.exists() or len(log.read_text().splitlines()) < 3):
        time.sleep(0.05)
    if running.poll() is not None:
        sys.exit(f"fleet prove ended by itself: {running.communicate()}\n{(WORK / 'fleet-trial.ansible.log').read_text()}")
    running.kill()
    running.communicate()
    seen = len(Numbers.seen)
    argv += ["--continue"]
    ended = subprocess.run(argv, env=environment(WORK / "none"), cwd=WORK, text=True, capture_output=True, timeout=300)
    about = f"{ended}\n{Numbers.seen}\n{(WORK / 'fleet-trial.ansible.log').read_text()}"
    if ended.returncode != 0:
        sys.exit(f"fleet prove failed: {about}")
    answer = json.loads(ended.stdout)
    is_right = answer["blocks"] == 3 and 0.45 < answer["ratio"] < 0.55 and answer["hosts"] == 2 and seen == 2
    if not is_right or Numbers.seen[0] or any(len(tuned) != 1 for tuned in Numbers.seen[1:]):
        sys.exit(f"not what was switched: {about}")
    after = {host: state(host)[:2] for host in HOSTS}
    if after != before:
        sys.exit(f"not put back: {after} {about}")
    print("fleet prove: all is as expected", flush=True)


def trouble():
    """Each host has its own end, and none of them hinders another."""
    before = {host: state(host) for host in HOSTS}
    enter("host2", "sh", "-c", f"mount --bind {RMEM} {RMEM} && mount -o remount,bind,ro {RMEM}")
    enter("host3", "sh", "-c", "cat > /srv/losing && chmod 755 /srv/losing", input=LOSING)
    pid = (WORK / "host3.pid").read_text().strip()
    argv = ["nsenter", f"--target={pid}", "--mount", "--net", "--pid", "sh", "-c", LINK]
    subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    inventory = (WORK / "inventory.ini").read_text()
    own = "\n[all]\nghost ansible_host=10.99.0.99 ansible_user=root ansible_timeout=2\n"
    # As root to root, `su` shows that a confirmation gets its rights as tasks do.
    own += "host1 ansible_become=true ansible_become_method=su\n"
    own += "host3 program_here=/srv/losing limit_s=5\n"
    (WORK / "inventory.ini").write_text(inventory + own)
    play = Play("trouble", "--diff", good=(0, 2, 4))
    status = {host: play.result("apply", host)["status"] for host in [*HOSTS, "ghost"]}
    expected = dict(host1="ok", host2="failed", host3="failed", ghost="unreachable")
    play.expect("each host has its own end", status == expected, status)
    failed = play.result("apply", "host2")["result"]
    play.expect("a change that fails half-way is undone", (failed["exit_code"], failed["outcome"]) == (5, "undone"), failed)
    play.expect("and it says what was put back", failed["put_back"]["all_undone"] and not failed["changed"], failed)
    lost = play.result("apply", "host3")["result"]
    play.expect("the host undid the change itself", lost["undone_by_host"] and not lost["changed"], lost)
    play.expect("host3 is there again", play.result("verify", "host3")["status"] == "ok")
    play.expect("the change of host1 was confirmed", play.result("apply", "host1")["result"]["confirmed"])
    play.expect("the revert undoes it", play.result("revert", "host1")["result"]["changed"])
    for host in HOSTS:
        play.expect("all is as before", state(host) == before[host], host, state(host), before[host])


# A program's exit code and answer, and what the module then says.
ANSWERS = {
    "silent": (0, "", "it is no JSON object"),
    "words": (0, "well", "it is no JSON object"),
    "list": (0, "[]", "it is no JSON object"),
    "newer": (0, '{"format": 2}', "it has format 2, and this collection knows 1"),
    "user": (3, '{"format": 1, "error": {"message": "denied", "exit_code": 3}}', "denied; run the task with become"),
    "stuck": (6, '{"format": 1, "put_back": {"all_undone": false}}', "see put_back"),
    "stopped": (8, '{"format": 1}', "exit code 8 (stopped)"),
}
TASKS = [
    (dict(settings=["--state=/tmp/elsewhere"]), "unknown knob"),
    (dict(settings=["/etc/passwd"]), "expected KNOB=VALUE"),
    (dict(settings=["vm.swapiness=10"]), "did you mean"),
    (dict(settings=["net.ipv4.udp_early_demux=7"]), "net.ipv4.udp_early_demux"),
    (dict(settings=["a=1"], goal=dict(format=1)), "mutually exclusive"),
    (dict(goal=dict(format=3, settings=["a=1"])), "has format 3"),
    (dict(goal=dict(format=1, settings="a=1")), "has no settings"),
    (dict(goal="no-such-file.json"), "failed to read the goal"),
    (dict(settings=["net.ipv4.udp_early_demux=0"], executable="no-such-program"), "failed to find the program"),
    ({"settings": ["net.ipv4.udp_early_demux=0"], "try": 0}, "from 1 to 3600"),
    ({}, "one of the following is required"),
]


def answers():
    """Answers that no program should give, and tasks that cannot be meant, are errors that say why. Nothing changes."""
    before = state("host1")
    enter("host1", "mkdir", "/srv/answers")
    for name, (code, text, _) in ANSWERS.items():
        script = f"#!/bin/sh\nprintf %s '{text}'\nexit {code}\n"
        enter("host1", "sh", "-c", f"cat > /srv/answers/{name} && chmod 755 /srv/answers/{name}", input=script)
    url = dict(url="http://10.99.0.254:8000/program", headers=dict(Authorization=f"Bearer {SECRET}"))
    variables = dict(programs=list(ANSWERS), wrong=[task for task, _ in TASKS], **url)
    play = Play("answers", variables=variables)
    wrong = [one["msg"] for one in play.result("answers", "host1")["result"]["results"]]
    for message, (name, (_, _, expected)) in zip(wrong, ANSWERS.items(), strict=True):
        play.expect(f"the answer {name} is refused", expected in message, message)
    tasks = play.result("tasks", "host1")["result"]["results"]
    for one, (task, expected) in zip(tasks, TASKS, strict=True):
        play.expect(f"{task} is refused", one["failed"] and not one.get("changed") and expected in one["msg"], one)
    audit = play.result("the audit fails where it is asked to", "host1")
    levels = set(audit["result"]["counts"]) & {"set", "owned-by", "blocked", "unknown"}
    play.expect("the audit fails for its findings", (audit["status"] == "failed") == bool(levels), audit)
    fetched = play.result("Fetch the program", "host1")["status"]
    play.expect("a program with another checksum is refused", fetched == "failed", fetched)
    play.expect("one of two changes is undone", (play.result("first undone", "host1")["result"]["holds"]) == 1)
    play.expect("nothing changed", state("host1") == before)


def report():
    """One page for all hosts, the missing one named."""
    play = Play("evenkeel.host.report", variables=dict(evenkeel_local_program=PROGRAM), good=(0,))
    page = (WORK / "evenkeel-report.md").read_text()
    for expected in ("3 hosts", "## Hosts without a capture", "- ghost: "):
        play.expect(f"the report has {expected!r}", expected in page, page)
    captures = sorted(path.name for path in (WORK / "evenkeel-captures").iterdir())
    play.expect("the captures are files", captures == [f"{host}.txt" for host in HOSTS], captures)
    # No host can be reached, or none is named: still a page, which says so.
    for hosts, expected in (("ghost", "No host gave a capture, so there is nothing to audit."),
                            ("nowhere", "No host of the inventory matches nowhere.")):
        variables = dict(evenkeel_local_program=PROGRAM, evenkeel_hosts=hosts)
        play = Play("evenkeel.host.report", variables=variables, good=(0,))
        page = (WORK / "evenkeel-report.md").read_text()
        play.expect(f"the report says that {hosts} gave no capture", page.startswith(expected), page)
        play.expect("the reason is in the report", ("- ghost: " in page) == (hosts == "ghost"), page)
        play.expect("no capture of an earlier run is left", list((WORK / "evenkeel-captures").iterdir()) == [])


def main():
    isolated()
    prepare()
    drift_and_revert(plan_then_apply())
    answers()
    fleet_prove()
    trouble()
    report()
    print("all is as expected")


if __name__ == "__main__":
    main()
