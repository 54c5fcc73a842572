"""The steps of lab/kube.sh: goals on a real control plane, with agents in three hosts made of namespaces and with nodes that this file plays.

Runs among the hosts, as the command of lab/hosts.sh. Prints a line for each step with its time; ends at the first difference.
"""
from __future__ import annotations

import http.server
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

try:
    import yaml  # noqa: F401
except ModuleNotFoundError:
    print("kube: python3 has no yaml: apt-get install --no-install-recommends python3-yaml", file=sys.stderr)
    sys.exit(4)

import reboots
from cluster import GOALS, MERGE, NAMESPACE, NODES, STATES, Cluster, Hosts, Refused, rendered, until

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent.parent / "deploy/kubernetes/chart"
WORK, PROGRAM, TOOLS = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
WANTED = sys.argv[4:]
DEMUX, RMEM = "/proc/sys/net/ipv4/udp_early_demux", "/proc/sys/net/ipv4/udp_rmem_min"
SETTINGS = ["net.ipv4.udp_early_demux=0", "net.ipv4.udp_rmem_min=16384"]
KILLS = int(os.environ.get("EVENKEEL_KUBE_KILLS", "200"))
FAKE_NODES = int(os.environ.get("EVENKEEL_KUBE_NODES", "500"))


def goal(name, settings=SETTINGS, **spec):
    spec = {"settings": settings, "allow": "runtime", **spec}
    return {"apiVersion": "evenkeel.dev/v1alpha1", "kind": "HostGoal", "metadata": {"name": name}, "spec": spec}


class Lab:
    def __init__(self):
        self.cluster = Cluster(WORK, TOOLS)
        self.hosts = Hosts(WORK, self.cluster)
        self.controllers = []

    def set_up(self):
        self.cluster.start()
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})
        self.things = rendered(TOOLS, CHART)
        for kinds in (["CustomResourceDefinition"], ["ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"],
                      ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]):
            for thing in self.things:
                if thing["kind"] in kinds:
                    self.cluster.apply(thing)
        until("the resources are served", lambda: self.cluster.get(GOALS))
        for host in self.hosts.names:
            self.cluster.node(host, {"pool": "games"})
        self.before = {host: self.values(host) for host in self.hosts.names}
        for host in self.hosts.names:
            self.hosts.start(host)

    def values(self, host):
        return self.hosts.read(host, DEMUX), self.hosts.read(host, RMEM)

    def phases(self, name):
        """The phase of a goal by node."""
        found = {}
        for state in self.cluster.get(STATES)["items"]:
            for one in state.get("status", {}).get("goals", []):
                if one["goal"] == name:
                    found[state["metadata"]["name"]] = one
        return found

    def wait_phase(self, name, phase, hosts=None, generation=None):
        hosts = hosts or self.hosts.names

        def is_so():
            found = self.phases(name)
            rows = [found.get(host, {}) for host in hosts]
            return all(row.get("phase") == phase and generation in (None, row["generation"]) for row in rows) and found

        return until(f"goal {name} is {phase} on {', '.join(hosts)}", is_so)

    def wait_as_before(self):
        until("every host is as before", lambda: all(self.values(host) == self.before[host] for host in self.hosts.names))

    def delete(self, name):
        self.cluster.delete(f"{GOALS}/{name}")

    def patch(self, name, body):
        return self.cluster.ask("PATCH", f"{GOALS}/{name}", body, MERGE)

    def controller(self, *arguments, account=None):
        """`fleet rollout` in the background; by default with an administrator's rights."""
        name = account or "admin"
        config = self.cluster.kubeconfig(name, self.cluster.token(account)) if account else self.cluster.dir / "admin.conf"
        log = open(WORK / "rollout.log", "a")
        argv = [PROGRAM, "fleet", "rollout", "--kubeconfig", str(config), "--every", "200ms", *arguments]
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        self.controllers.append(process)
        return process

    def agent_requests(self):
        return sum(user["username"].endswith(":evenkeel-agent") for user, _, _ in self.cluster.requests())

    def rollout(self, name):
        return (self.cluster.get(f"{GOALS}/{name}") or {}).get("status", {}).get("rollout", {})


# The steps, in order.


def step_schema(lab):
    """The API server refuses goals that make no sense."""
    wrong = [
        goal("wrong", advised={}),
        {**goal("wrong"), "spec": {"allow": "runtime"}},
        goal("wrong", allow="audit", rollout={}),
        goal("wrong", ["no value"]),
        goal("wrong", ["a=1\nb=2"]),
        goal("wrong", ["--state=/tmp"]),
        goal("wrong", allow="everything"),
        goal("wrong", rollout={"maxUnavailable": "0%"}),
        goal("wrong", nodeSelector={"matchExpressions": [{"key": "pool", "operator": "in", "values": ["games"]}]}),
        goal("wrong", reboot={}, rollout={}),
        goal("wrong", allow="reboot", reboot={}),
        goal("wrong", allow="reboot", reboot={"drainSeconds": 0}, rollout={}),
        goal("wrong", rollout={"guards": [{"name": "x", "query": "", "worse": "higher"}]}),
    ]
    for thing in wrong:
        try:
            lab.cluster.apply(thing, dry_run=True)
        except Refused as refused:
            assert refused.status == 422, refused
        else:
            sys.exit(f"accepted: {json.dumps(thing)}")
    lab.cluster.apply(goal("right", allow="reboot", reboot={"drainSeconds": 60}, rollout={}), dry_run=True)
    lab.cluster.apply(goal("right", rollout={"canaries": {"count": 2}, "maxUnavailable": "25%"}), dry_run=True)


def step_chart(lab):
    """The API server accepts all of the chart, and Pod Security refuses the agent where it should."""
    pods = {}
    for thing in lab.things:
        lab.cluster.apply(thing, dry_run=True)
        if thing["kind"] in ("DaemonSet", "Deployment"):
            pods[thing["kind"]] = thing["spec"]["template"]["spec"]
    for level in ("baseline", "restricted"):
        lab.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": level, "labels": {"pod-security.kubernetes.io/enforce": level}}})
        until("its account", lambda: lab.cluster.get(f"/api/v1/namespaces/{level}/serviceaccounts/default"))
    def pod(kind, namespace):
        spec = {**pods[kind], "serviceAccountName": "default"}
        lab.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": namespace}, "spec": spec}, dry_run=True)
    pod("Deployment", "restricted")
    for level in ("baseline", "restricted"):
        try:
            pod("DaemonSet", level)
        except Refused as refused:
            assert refused.status == 403 and "hostPID" in refused.message or "host namespaces" in refused.message, refused
        else:
            sys.exit(f"the agent is allowed where pods are {level}")


def step_goals(lab):
    """A goal comes, drifts, is healed, changes and goes."""
    lab.cluster.apply(goal("steady", nodeSelector={"matchLabels": {"pool": "games"}}))
    lab.wait_phase("steady", "InForce")
    assert all(lab.values(host) == ("0", "16384") for host in lab.hosts.names)
    lab.hosts.write("host2", RMEM, 8192)
    drifted = lab.wait_phase("steady", "Drifted", ["host2"])["host2"]["drift"][0]
    assert (drifted["knob"], drifted["wanted"], drifted["found"]) == ("net.ipv4.udp_rmem_min", "16384", "8192"), drifted
    conditions = {c["type"]: c for c in lab.cluster.get(f"{NODES}/host2")["status"]["conditions"]}
    assert conditions["EvenkeelSettings"]["reason"] == "Drifted", conditions
    lab.patch("steady", {"spec": {"onDrift": "heal"}})
    until("host2 is healed", lambda: lab.values("host2") == ("0", "16384"))
    lab.wait_phase("steady", "InForce")
    # A second goal that contradicts the first is refused with the reason.
    lab.cluster.apply(goal("second", ["net.ipv4.udp_rmem_min=4096"]))
    why = lab.wait_phase("second", "Refused")["host1"]["message"]
    assert why == "net.ipv4.udp_rmem_min is 16384 in the older goal steady, and 4096 here", why
    lab.delete("second")
    lab.cluster.apply(goal("look", ["net.ipv4.udp_rmem_min=4096"], allow="audit"))
    # What is already so in this kernel is not counted: the value is that of the older goal.
    message = lab.wait_phase("look", "Audited")["host1"]["message"]
    assert message == "1 would change: net.ipv4.udp_rmem_min=4096", message
    lab.delete("look")
    lab.patch("steady", {"spec": {"settings": ["net.ipv4.udp_rmem_min=20000"]}})
    until("the new generation is in force, and what it left out is as before",
          lambda: all(lab.values(host) == ("1", "20000") for host in lab.hosts.names))
    # A node that loses its label loses the goal.
    lab.cluster.ask("PATCH", f"{NODES}/host3", {"metadata": {"labels": {"pool": None}}}, MERGE)
    until("host3 is as before", lambda: lab.values("host3") == lab.before["host3"])
    lab.cluster.ask("PATCH", f"{NODES}/host3", {"metadata": {"labels": {"pool": "games"}}}, MERGE)
    lab.wait_phase("steady", "InForce")
    # What only some hosts refuse.
    lab.cluster.apply(goal("elsewhere", ["net.core.nosuch=1"]))
    lab.wait_phase("elsewhere", "Refused")
    lab.delete("elsewhere")
    events = [event["reason"] for event in lab.cluster.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]]
    assert {"InForce", "Drifted", "Refused"} <= set(events), events
    lab.delete("steady")
    lab.wait_as_before()


class FakeAgents(threading.Thread):
    """Agents of nodes that are objects only: each reports what is released to it. Nodes in `refuses` refuse."""

    def __init__(self, lab, prefix):
        super().__init__(daemon=True)
        self.lab, self.prefix, self.refuses, self.ends = lab, prefix, set(), False

    def run(self):
        for node in self.lab.cluster.get(NODES)["items"]:
            if node["metadata"]["name"].startswith(self.prefix):
                state = {"apiVersion": "evenkeel.dev/v1alpha1", "kind": "HostState", "metadata": {"name": node["metadata"]["name"]}, "spec": {}}
                self.lab.cluster.apply(state)
                self.lab.cluster.ask("PATCH", f"{STATES}/{node['metadata']['name']}/status", {"status": {"summary": "played"}}, MERGE)
        while not self.ends:
            try:
                self.once()
            except (OSError, Refused):
                pass
            time.sleep(0.2)

    def once(self):
        generations = {one["metadata"]["name"]: one for one in self.lab.cluster.get(GOALS)["items"]}
        for state in self.lab.cluster.get(STATES)["items"]:
            name = state["metadata"]["name"]
            if not name.startswith(self.prefix):
                continue
            released = [one for one in state["spec"].get("released", []) if one["goal"] in generations]
            phase = "Refused" if name in self.refuses else "InForce"
            goals = [{"goal": one["goal"], "uid": one["uid"], "generation": one["generation"], "phase": phase} for one in released]
            if state.get("status", {}).get("goals", []) != goals:
                body = {"status": {"version": "lab", "summary": "", "goals": goals}}
                self.lab.cluster.ask("PATCH", f"{STATES}/{name}/status", body, MERGE)


class Numbers(http.server.BaseHTTPRequestHandler):
    """What Prometheus would say: one number a node."""

    numbers = {}
    measure = None

    def do_GET(self):
        numbers = Numbers.measure() if Numbers.measure else self.numbers
        rows = [{"metric": {"node": node}, "value": [0, str(number)]} for node, number in numbers.items()]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def step_rollout(lab):
    """Waves over twenty nodes; a node that refuses halts it; an undo puts everything back."""
    for i in range(17):
        lab.cluster.node(f"fake-{i:02}", {"pool": "games"})
    agents = FakeAgents(lab, "fake-")
    agents.start()
    spec = {"canaries": {"count": 2, "selector": {"matchLabels": {"canary": "yes"}}}, "maxUnavailable": "30%", "pauseSeconds": 1}
    for host in ("host1", "host2"):
        lab.cluster.ask("PATCH", f"{NODES}/{host}", {"metadata": {"labels": {"canary": "yes"}}}, MERGE)
    lab.cluster.apply(goal("wave", rollout=spec))
    time.sleep(1)
    assert lab.values("host1") == lab.before["host1"], "nothing happens before a rollout releases it"
    agents.refuses = {"fake-05"}
    first = lab.controller("wave", account="evenkeel-rollout")
    first.wait(timeout=120)
    rollout = lab.rollout("wave")
    assert (first.returncode, rollout["phase"]) == (1, "Halted"), (first.returncode, rollout)
    assert rollout["message"] == "node fake-05 reports Refused", rollout
    in_force = [node for node, one in lab.phases("wave").items() if one["phase"] == "InForce"]
    assert {"host1", "host2"} <= set(in_force) and len(in_force) < 20, in_force
    agents.refuses = set()
    until("the node that refused has it", lambda: lab.phases("wave")["fake-05"]["phase"] == "InForce")
    second = lab.controller("wave", "--continue")
    second.wait(timeout=120)
    assert second.returncode == 0 and lab.rollout("wave")["phase"] == "Complete", lab.rollout("wave")
    status = lab.cluster.get(f"{GOALS}/wave")["status"]
    assert status["nodes"]["inForce"] == 20, status
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"InForce": "True", "Degraded": "False", "Halted": "False"}, status
    undo = lab.controller("wave", "--undo")
    undo.wait(timeout=120)
    assert undo.returncode == 0 and lab.rollout("wave")["phase"] == "Undone"
    lab.wait_as_before()
    lab.delete("wave")
    # A guard halts it: the number of the canaries grows, that of the others does not.
    numbers = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Numbers)
    threading.Thread(target=numbers.serve_forever, daemon=True).start()
    nodes = [node["metadata"]["name"] for node in lab.cluster.get(NODES)["items"]]
    Numbers.numbers = {node: 100.0 for node in nodes}
    guarded = {**spec, "pauseSeconds": 3600, "guards": [{"name": "lateness", "query": "lateness", "worse": "higher"}]}
    lab.cluster.apply(goal("guarded", rollout=guarded))
    # Looks are 15 s apart in production; each start of the program looks at once.
    for _ in range(40):
        process = lab.controller("guarded", "--prometheus", f"http://127.0.0.1:{numbers.server_address[1]}")
        until("a look", lambda: len(lab.rollout("guarded").get("guards", {}).get("lateness", {}).get("before", {})) == 20)
        time.sleep(0.6)
        Numbers.numbers.update({"host1": 150.0, "host2": 150.0})
        if process.poll() is not None:
            break
        process.terminate()
        process.wait()
    rollout = lab.rollout("guarded")
    assert rollout["phase"] == "Halted" and rollout["message"].startswith("guard lateness: changed by +"), rollout
    assert len([node for node, one in lab.phases("guarded").items() if one["phase"] == "InForce"]) == 2
    lab.delete("guarded")
    lab.wait_as_before()
    agents.ends = True
    agents.join()
    for i in range(17):
        lab.cluster.ask("DELETE", f"{NODES}/fake-{i:02}")


def step_prove(lab):
    """A trial over hosts finds an effect that was planted, goes on after its program was killed, and puts everything back."""
    for i in range(5):
        lab.cluster.node(f"fake-{i:02}", {"pool": "games"})
    agents = FakeAgents(lab, "fake-")
    agents.start()
    chance, nodes = random.Random(3), [*lab.hosts.names, *(f"fake-{i:02}" for i in range(5))]
    level = {node: 100 * chance.uniform(0.8, 1.2) for node in nodes}
    calls = [0]

    def measure():
        """The number of each node: its own level, an evening that all share, and a fifth less with the setting. Real hosts are looked at."""
        calls[0] += 1
        evening = 1 + 0.5 * (calls[0] % 10) / 10
        released = {state["metadata"]["name"] for state in lab.cluster.get(STATES)["items"] if state["spec"].get("released")}
        with_it = {node for node in nodes if (lab.values(node)[0] == "0" if node in lab.hosts.names else node in released)}
        return {node: level[node] * evening * chance.uniform(0.98, 1.02) * (0.8 if node in with_it else 1) for node in nodes}

    Numbers.measure = measure
    numbers = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Numbers)
    threading.Thread(target=numbers.serve_forever, daemon=True).start()
    lab.cluster.apply(goal("steady", rollout={}))
    log = WORK / "trial.jsonl"
    argv = [PROGRAM, "--json", "fleet", "prove", "steady", "--metric", "lateness[$window]", "--prometheus", f"http://127.0.0.1:{numbers.server_address[1]}",
            "--block", "200ms", "--wash-out", "0s", "--blocks-before", "4", "--blocks", "40", "--log", str(log), "--kubeconfig", str(lab.cluster.dir / "admin.conf")]
    first = subprocess.Popen([*argv, "--seed", "11"], stdout=subprocess.DEVNULL, stderr=open(WORK / "prove.log", "a"))
    until("two blocks of the trial", lambda: log.exists() and log.read_text().count('"record":"block"') >= 2)
    first.kill()
    first.wait()
    other = subprocess.run([*argv[:-4], "--log", str(WORK / "other.jsonl"), *argv[-2:]], text=True, capture_output=True)
    assert other.returncode == 2 and "is in trial" in other.stdout + other.stderr, other
    second = subprocess.run([*argv, "--continue"], text=True, capture_output=True, timeout=200)
    assert second.returncode == 0, second
    answer = json.loads(second.stdout)
    assert answer["verdict"] == "better" and answer["low"] < 0.8 < answer["high"], answer
    assert answer["hosts"] == 8 and answer["before"] in ("same", "undecided") and not answer["caveats"], answer
    lab.wait_as_before()
    found = lab.cluster.get(f"{GOALS}/steady")
    assert "evenkeel.dev/trial" not in found["metadata"].get("annotations", {}), found
    released = [one["goal"] for state in lab.cluster.get(STATES)["items"] for one in state["spec"].get("released", [])]
    assert "steady" not in released, released
    print(f"  {answer['blocks']} blocks, {answer['ratio']:.3f} ({answer['low']:.3f} to {answer['high']:.3f}), 0.8 planted", flush=True)
    Numbers.measure = None
    lab.delete("steady")
    agents.ends = True
    agents.join()
    for i in range(5):
        lab.cluster.ask("DELETE", f"{NODES}/fake-{i:02}")


def step_reboots(lab):
    """A node is drained and rebooted for a goal; one that cannot be drained is not."""
    reboots.reboots(lab)


def step_kills(lab):
    """Agents and the controller are killed at random moments while goals change."""
    seed = int(os.environ.get("EVENKEEL_KUBE_SEED", "1"))
    chance = random.Random(seed)
    rollout = {"canaries": {"count": 1}, "maxUnavailable": "3", "pauseSeconds": 0}
    lab.cluster.apply(goal("steady", onDrift="heal", rollout=rollout))
    controller = lab.controller("--forever", account="evenkeel-rollout")
    value = 16384
    for kill in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.6))
        if kill % 5 == 2:
            value += 1024
            lab.patch("steady", {"spec": {"settings": ["net.ipv4.udp_early_demux=0", f"net.ipv4.udp_rmem_min={value}"]}})
        if kill % 7 == 3:
            lab.hosts.write(chance.choice(lab.hosts.names), DEMUX, 1)
        victim = chance.choice([*lab.hosts.names, "controller"])
        if victim == "controller":
            controller.kill()
            controller.wait()
            controller = lab.controller("--forever", account="evenkeel-rollout")
        else:
            lab.hosts.kill(victim)
            lab.hosts.spawn(victim)
    until(f"every host has the last generation (seed {seed})",
          lambda: all(lab.values(host) == ("0", str(value)) for host in lab.hosts.names))
    lab.wait_phase("steady", "InForce")
    until("the status says so", lambda: lab.cluster.get(f"{GOALS}/steady")["status"]["nodes"]["inForce"] == 3)
    lab.delete("steady")
    lab.wait_as_before()
    controller.terminate()
    controller.wait()


def step_outage(lab):
    """The API server goes and comes back; a host loses its network: nothing is put back meanwhile, and all is caught up afterwards."""
    lab.cluster.apply(goal("steady", onDrift="heal"))
    lab.wait_phase("steady", "InForce")
    lab.cluster.stop_server()
    lab.hosts.write("host1", RMEM, 8192)
    until("host1 heals itself without the API server", lambda: lab.values("host1") == ("0", "16384"))
    assert all(lab.values(host) == ("0", "16384") for host in lab.hosts.names)
    lab.cluster.start_server()
    lab.hosts.enter("host2", "ip", "link", "set", "eth0", "down")
    lab.patch("steady", {"spec": {"settings": ["net.ipv4.udp_rmem_min=20000"]}})
    until("the hosts that hear it follow", lambda: all(lab.values(host) == ("1", "20000") for host in ("host1", "host3")), 120)
    assert lab.values("host2") == ("0", "16384"), "host2 goes on with what it last saw"
    lab.hosts.enter("host2", "ip", "link", "set", "eth0", "up")
    # The kernel notices a dead connection late: the agent's watch ends after five minutes at the most, or with its next write.
    until("host2 follows", lambda: lab.values("host2") == ("1", "20000"), 400)
    lab.delete("steady")
    lab.wait_as_before()


def step_rights(lab):
    """The steps before used each right of the chart; an agent's token writes to its own node only."""
    # Before this step itself asks with the token of an agent.
    used = lab.cluster.requests()
    token = lab.cluster.token("evenkeel-agent", "host1")
    status = {"status": {"version": "x", "summary": "", "goals": []}}
    for path, body, kind in [
        (f"{STATES}/host2/status", status, MERGE),
        (f"{NODES}/host2", {"metadata": {"labels": {"evenkeel.dev/x": "y"}}}, MERGE),
        (f"{NODES}/host1", {"metadata": {"labels": {"pool": "voice"}}}, MERGE),
        (f"{NODES}/host1", {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}, MERGE),
        (f"{NODES}/host2", {"spec": {"unschedulable": True}}, MERGE),
    ]:
        try:
            lab.cluster.ask("PATCH", path, body, kind, token=token)
        except Refused as refused:
            assert refused.status in (403, 422) and "an agent" in refused.message, refused
        else:
            sys.exit(f"an agent of host1 may write {path} {body}")
    # An agent that may not reboot its node has no right to its pods, nor to what it is cordoned by.
    things = rendered(TOOLS, CHART, reboots=False)
    plain = json.dumps([thing for thing in things if thing["kind"] in ("ClusterRole", "Role")])
    assert '"pods' not in plain and "an agent changes no node's spec\"" in json.dumps(things), plain
    roles = [thing for thing in lab.things if thing["kind"] in ("ClusterRole", "Role")]
    used = {(user["username"].rsplit(":", 1)[-1], verb, resource) for user, verb, resource in used}
    count = 0
    for role in roles:
        account = role["metadata"]["name"].removesuffix("-events")
        for rule in role["rules"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    count += 1
                    assert (account, verb, resource) in used, f"{account}: {verb} {resource} is never used"
    print(f"  {count} rights, each used", flush=True)


def without(role, resource, verb):
    """The role without one right."""
    less = json.loads(json.dumps(role))
    rules = []
    for rule in less["rules"]:
        rest = [one for one in rule["verbs"] if one != verb or resource not in rule["resources"]]
        rules += [{**rule, "verbs": rest}] if rest else []
    return {**less, "rules": rules}


def step_each_right(lab):
    """Each right of the chart is taken away once: what needs it fails, and the program says which right that is."""
    taken = 0
    for role in (thing for thing in lab.things if thing["kind"] in ("ClusterRole", "Role")):
        name = role["metadata"]["name"]
        for resource, verb in [(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]]:
            taken += 1
            lab.cluster.apply(without(role, resource, verb))
            says = f'cannot {verb} resource "{resource}"'
            try:
                (rollout_without if name == "evenkeel-rollout" else agent_without)(lab, says)
            finally:
                lab.cluster.apply(role)
    for host in lab.hosts.names:
        lab.hosts.kill(host)
        lab.hosts.spawn(host)
    lab.wait_as_before()
    print(f"  {taken} rights, each taken away once", flush=True)


def said_since(log, begun, says):
    return log.exists() and says in log.read_text()[begun:]


def agent_without(lab, says):
    """An agent that starts, takes a goal, sees drift come and go, and gives the goal back, until it says which right is missing."""
    log, host = WORK / "host1-agent.log", "host1"
    begun = len(log.read_text())
    if 'resource "pods' in says:
        return reboots.without(lab, says, lambda: said_since(log, begun, says))
    lab.hosts.kill(host)
    lab.cluster.delete(f"{STATES}/{host}")
    labels = lab.cluster.get(f"{NODES}/{host}")["metadata"]["labels"]
    lost = {label: None for label in labels if label.startswith("evenkeel.dev/")}
    lab.cluster.ask("PATCH", f"{NODES}/{host}", {"metadata": {"labels": lost}}, MERGE)
    lab.hosts.spawn(host)
    is_said = lambda: said_since(log, begun, says)  # noqa: E731
    is_in = lambda phase: lab.phases("probe").get(host, {}).get("phase") == phase  # noqa: E731
    steps = [
        lambda: bool(lab.cluster.apply(goal("probe"))),
        lambda: lab.values(host) == ("0", "16384"),
        lambda: is_in("InForce"),
        lambda: lab.hosts.write(host, RMEM, 8192),
        lambda: is_in("Drifted"),
        # In force again: the event is one that was there before, which is written to.
        lambda: lab.hosts.write(host, RMEM, 16384),
        lambda: is_in("InForce"),
        lambda: lab.delete("probe"),
        lambda: lab.values(host) == lab.before[host],
    ]
    for step in steps:
        until(f"the agent goes on, or says: {says}", lambda: is_said() or step() is not False)
        if is_said():
            break
    lab.delete("probe")
    until(f"the agent says: {says}", is_said)


def rollout_without(lab, says):
    """A rollout to a node that has no state yet and to one that has, until it says which right is missing."""
    log = WORK / "rollout.log"
    begun = len(log.read_text()) if log.exists() else 0
    for node in ("fake-new", "fake-known"):
        lab.cluster.node(node, {"pool": "rights"})
        lab.cluster.delete(f"{STATES}/{node}")
    lab.cluster.apply({"apiVersion": "evenkeel.dev/v1alpha1", "kind": "HostState", "metadata": {"name": "fake-known"}, "spec": {}})
    lab.cluster.apply(goal("probe", nodeSelector={"matchLabels": {"pool": "rights"}}, rollout={"canaries": {"count": 2}, "maxUnavailable": "100%"}))
    process = lab.controller("probe", account="evenkeel-rollout")
    until(f"the rollout says: {says}", lambda: said_since(log, begun, says))
    process.kill()
    process.wait()
    lab.delete("probe")
    for node in ("fake-new", "fake-known"):
        lab.cluster.delete(f"{NODES}/{node}")


def step_scale(lab):
    """Many nodes: what a rollout and an agent at rest cost."""
    made = time.monotonic()
    for i in range(FAKE_NODES):
        lab.cluster.node(f"many-{i:03}", {"pool": "many"})
    made = time.monotonic() - made
    agents = FakeAgents(lab, "many-")
    agents.start()
    spec = {"canaries": {"count": 5}, "maxUnavailable": "25%", "pauseSeconds": 0}
    lab.cluster.apply(goal("many", nodeSelector={"matchLabels": {"pool": "many"}}, rollout=spec))
    begun, requests = time.monotonic(), lab.agent_requests()
    process = lab.controller("many", account="evenkeel-rollout")
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, int([line for line in open(f"/proc/{process.pid}/status") if line.startswith("VmHWM")][0].split()[1]))
        except (OSError, IndexError):
            pass
        time.sleep(0.05)
        assert time.monotonic() - begun < 300, lab.rollout("many")
    took = time.monotonic() - begun
    assert process.returncode == 0, lab.rollout("many")
    # The agents of the three real hosts see none of it.
    requests, rest = lab.agent_requests() - requests, lab.agent_requests()
    time.sleep(10)
    rest = lab.agent_requests() - rest
    memory = {}
    for host, agent in lab.hosts.agents.items():
        for child in subprocess.run(["pgrep", "-g", str(agent.pid)], text=True, capture_output=True).stdout.split():
            text = pathlib.Path(f"/proc/{child}/status").read_text()
            # A program that the agent ran and that has just ended has no memory any more.
            rss = [int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")]
            if "Name:\tevenkeel" in text and rss:
                memory[host] = max(memory.get(host, 0), rss[0])
    print(f"  {FAKE_NODES} nodes made in {made:.0f} s; rolled out in {took:.1f} s, {peak} KiB at the most; agents meanwhile asked {requests} times, "
          f"at rest {rest} times in 10 s (3 agents); resident {memory} KiB", flush=True)
    assert rest <= 3, "an agent at rest asks less than once in 10 s"
    agents.ends = True
    agents.join()
    lab.delete("many")


STEPS = [step_schema, step_chart, step_goals, step_rollout, step_reboots, step_prove, step_kills, step_outage, step_scale, step_rights, step_each_right]


def main():
    lab = Lab()
    begun = time.monotonic()
    lab.set_up()
    print(f"set up: {time.monotonic() - begun:.1f} s", flush=True)
    for step in STEPS:
        name = step.__name__.removeprefix("step_")
        if WANTED and name not in WANTED:
            continue
        begun = time.monotonic()
        try:
            step(lab)
        except BaseException:
            keep = os.environ.get("EVENKEEL_KUBE_KEEP")
            if keep:
                subprocess.run(["cp", "-r", str(WORK), keep], check=False)
            for log in sorted(WORK.glob("*.log")):
                print(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-15:]), file=sys.stderr)
            raise
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)


main()
