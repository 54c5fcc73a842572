"""A node of the lab that boots: host1 gets a boot loader, a kernel command line and a boot id of its own, which only its mounts show."""
from __future__ import annotations

import json
import subprocess

from cluster import GOALS, MERGE, NODES, Refused, until

HOST = "host1"
NAMESPACE = "games"
ARGUMENT = "tsc=reliable"
# Nobody plays the kubelet here, so nothing would end a pod's container.
POD = {"containers": [{"name": "server", "image": "none"}], "nodeName": HOST, "terminationGracePeriodSeconds": 5}
SET_UP = """
set -eu
[ ! -e /srv/boots ] || exit 0
mkdir -p /etc/default/grub.d /srv/sbin /srv/work
echo 'GRUB_CMDLINE_LINUX=""' >/etc/default/grub
mount -t tmpfs none /srv/work
mkdir /srv/work/upper /srv/work/work
printf '#!/bin/sh\\nexit 0\\n' >/srv/work/upper/update-grub
chmod 755 /srv/work/upper/update-grub
mount -t overlay -o lowerdir=/usr/sbin,upperdir=/srv/work/upper,workdir=/srv/work/work none /usr/sbin
echo console=ttyS0 >/srv/cmdline
echo 00000000-0000-0000-0000-000000000000 >/srv/boot_id
mount --bind /srv/cmdline /proc/cmdline
mount --bind /srv/boot_id /proc/sys/kernel/random/boot_id
# What the agent runs: the lab sees the file, and boots.
printf '#!/bin/sh\\necho told >>/srv/told\\n' >/srv/reboot
chmod 755 /srv/reboot
echo 0 >/srv/boots
"""
BOOT = """
set -eu
boots=$(($(cat /srv/boots) + 1))
echo "$boots" >/srv/boots
echo "console=ttyS0 $(sed -n 's/.*GRUB_CMDLINE_LINUX \\(.*\\)"$/\\1/p' /etc/default/grub.d/*.cfg 2>/dev/null | tr '\\n' ' ')" >/srv/cmdline
echo "$boots$boots$boots$boots$boots$boots$boots$boots-0000-0000-0000-000000000000" >/srv/boot_id
rm -f /srv/told
"""


def set_up(lab):
    lab.hosts.enter(HOST, "sh", "-c", SET_UP)
    lab.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    until("its account", lambda: lab.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))


def goal(name, **reboot):
    spec = {"settings": [f"cmdline.{ARGUMENT}"], "allow": "reboot", "reboot": reboot, "nodeSelector": {"matchLabels": {"boots": "yes"}},
            "rollout": {"canaries": {"count": 1}, "pauseSeconds": 0}}
    return {"apiVersion": "evenkeel.dev/v1alpha1", "kind": "HostGoal", "metadata": {"name": name}, "spec": spec}


def pod(lab, name, owner=None, labels=None):
    """A pod that runs on the host, as its kubelet would say."""
    owners = [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
               "uid": owner["metadata"]["uid"], "controller": True}] if owner else []
    thing = {"apiVersion": "v1", "kind": "Pod", "spec": POD,
             "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}, "ownerReferences": owners}}
    lab.cluster.apply(thing)
    conditions = [{"type": "Ready", "status": "True"}]
    lab.cluster.ask("PATCH", f"{path(name)}/status", {"status": {"phase": "Running", "conditions": conditions}},
                    "application/strategic-merge-patch+json")


def path(name):
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"


def play_kubelet(lab):
    """Ends the pods that were asked to end."""
    for one in lab.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        if one["metadata"].get("deletionTimestamp"):
            lab.cluster.ask("DELETE", path(one["metadata"]["name"]), {"gracePeriodSeconds": 0})


def record(lab):
    text = lab.cluster.get(f"{NODES}/{HOST}")["metadata"].get("annotations", {}).get("evenkeel.dev/reboot")
    return json.loads(text) if text else None


def is_cordoned(lab):
    return lab.cluster.get(f"{NODES}/{HOST}")["spec"].get("unschedulable", False)


def is_told(lab):
    return subprocess.run(lab.hosts.argv(HOST, "test", "-e", "/srv/told")).returncode == 0


def boot(lab):
    """The host goes down, and comes back with the command line that its boot loader has by now."""
    lab.hosts.kill(HOST)
    lab.cluster.ready(HOST, False)
    lab.hosts.enter(HOST, "sh", "-c", BOOT)
    lab.hosts.spawn(HOST)
    lab.cluster.ready(HOST, True)


def label(lab, value):
    lab.cluster.ask("PATCH", f"{NODES}/{HOST}", {"metadata": {"labels": {"boots": value}}}, MERGE)


def end(lab, name):
    """Without the goal the argument leaves the boot loader, and the node takes pods again."""
    lab.delete(name)
    until("the node takes pods", lambda: not is_cordoned(lab))
    until("the argument is gone", lambda: subprocess.run(lab.hosts.argv(HOST, "test", "-e", "/etc/default/grub.d/90-evenkeel.cfg")).returncode == 1)
    boot(lab)
    lab.cluster.ask("PATCH", f"{NODES}/{HOST}", {"metadata": {"annotations": {"evenkeel.dev/reboot": None}}}, MERGE)
    label(lab, None)


def reboots(lab):
    """A node is drained and rebooted for a goal, and its rollout waits for it; an agent is killed in each phase."""
    set_up(lab)
    label(lab, "yes")
    wanted = goal("boots", drainSeconds=120)
    lab.cluster.apply(wanted)
    owner = lab.cluster.get(f"{GOALS}/boots")
    pod(lab, "match", owner, {"app": "match"})
    pod(lab, "alone")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "match", "namespace": NAMESPACE},
              "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "match"}}}}
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    lab.cluster.ask("POST", budgets, budget)
    until("the budget is counted", lambda: lab.cluster.get(f"{budgets}/match")["status"].get("observedGeneration"))
    controller = lab.controller("boots", account="evenkeel-rollout")
    waits = until("the node is drained", lambda: (record(lab) or {}).get("message", "").startswith("waits for 2 pods") and record(lab))
    assert waits["phase"] == "Draining" and is_cordoned(lab), waits
    assert f"{NAMESPACE}/alone (nothing starts it again elsewhere: delete it yourself)" in waits["message"], waits
    until("the rollout says what it waits for", lambda: "waits for 2 pods" in lab.rollout("boots").get("message", ""))
    assert not lab.cluster.get(path("match"))["metadata"].get("deletionTimestamp"), "its budget protects it"
    lab.hosts.kill(HOST)
    lab.cluster.ask("DELETE", path("alone"), {"gracePeriodSeconds": 0})
    lab.hosts.spawn(HOST)
    until("one pod is left", lambda: record(lab)["message"].startswith("waits for 1 pod:"))
    lab.cluster.delete(f"{budgets}/match")
    until("the pod is evicted", lambda: lab.cluster.get(path("match"))["metadata"].get("deletionTimestamp"))
    assert not is_told(lab), "a pod that ends is still there"
    play_kubelet(lab)
    until("the host is told", lambda: is_told(lab))
    assert record(lab)["phase"] == "Rebooting" and is_cordoned(lab), record(lab)
    boot(lab)
    done = until("the reboot is done", lambda: record(lab)["phase"] == "Done" and record(lab))
    assert not is_cordoned(lab) and not done.get("message"), done
    lab.wait_phase("boots", "InForce", [HOST])
    controller.wait(timeout=60)
    assert controller.returncode == 0 and lab.rollout("boots")["phase"] == "Complete", lab.rollout("boots")
    events = lab.cluster.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    reasons = {event["reason"] for event in events if event["regarding"]["kind"] == "Node"}
    assert {"Draining", "Rebooting", "Done"} <= reasons, reasons
    end(lab, "boots")
    # A pod that does not end: nothing is rebooted, the node takes pods again, and the rollout halts.
    label(lab, "yes")
    lab.cluster.apply(goal("slow", drainSeconds=3))
    pod(lab, "stays")
    controller = lab.controller("slow", account="evenkeel-rollout")
    controller.wait(timeout=60)
    assert controller.returncode == 1, lab.rollout("slow")
    message = lab.rollout("slow")["message"]
    assert message.startswith(f"node {HOST}: its reboot failed: after ") and f"{NAMESPACE}/stays" in message, message
    assert not is_cordoned(lab) and not is_told(lab), record(lab)
    lab.cluster.ask("DELETE", path("stays"), {"gracePeriodSeconds": 0})
    end(lab, "slow")
    # A goal that goes away in the drain.
    label(lab, "yes")
    lab.cluster.apply(goal("gone"))
    pod(lab, "stays")
    controller = lab.controller("gone", account="evenkeel-rollout")
    until("the node is cordoned", lambda: is_cordoned(lab))
    lab.delete("gone")
    until("the node takes pods, and nothing is recorded", lambda: not is_cordoned(lab) and record(lab) is None)
    controller.wait(timeout=60)
    lab.cluster.ask("DELETE", path("stays"), {"gracePeriodSeconds": 0})
    label(lab, None)


def without(lab, says, is_said):
    """A node is drained until its agent says which right is missing."""
    set_up(lab)
    label(lab, "yes")
    lab.cluster.apply(goal("probe", drainSeconds=600))
    owner = lab.cluster.get(f"{GOALS}/probe")
    pod(lab, "match", owner)
    controller = lab.controller("probe")
    until(f"the agent says: {says}", is_said)
    controller.kill()
    controller.wait()
    try:
        lab.cluster.ask("DELETE", path("match"), {"gracePeriodSeconds": 0})
    except Refused as refused:
        assert refused.status == 404, refused
    lab.delete("probe")
    until("the node takes pods", lambda: not is_cordoned(lab) and record(lab) is None)
    label(lab, None)
