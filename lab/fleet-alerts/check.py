"""The steps of lab/fleet-alerts.sh: plants drift on one of three hosts, and reads what Alertmanager sends to a webhook.

Runs among the hosts, as the command of lab/hosts.sh. It waits for conditions; its bounds are for hangs only.
"""
from __future__ import annotations

import http.server
import json
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SHIPPED = TOP / "deploy/prometheus"
WORK = pathlib.Path(sys.argv[1])
HOSTS = {"host1": "10.99.0.1:9177", "host2": "10.99.0.2:9177", "host3": "10.99.0.3:9177"}
DEMUX = "/proc/sys/net/ipv4/udp_early_demux"
SETTING = "net.ipv4.udp_early_demux=0"
EVENKEEL = "/opt/evenkeel/bin/evenkeel"
TOKEN = "a-token-of-the-lab-0123456789"
PATIENCE_S = 120
BEGIN = time.monotonic()

ALERTMANAGER = """
route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: test
    webhook_configs: [{url: 'http://127.0.0.1:9099/', send_resolved: true}]
"""


def say(what):
    print(f"{time.monotonic() - BEGIN:5.1f} s  {what}", flush=True)


def enter(host, *command):
    """The command line that runs a command in a host."""
    pid = (WORK / f"{host}.pid").read_text().strip()
    return ["nsenter", f"--target={pid}", "--mount", "--net", "--uts", "--pid", "--ipc", *command]


def run(host, *command):
    subprocess.run(enter(host, *command), check=True, stdout=subprocess.DEVNULL)


def wait_for(what, condition):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"waited {PATIENCE_S} s in vain for {what}")


class Serve:
    """`evenkeel serve` on a host. A new one verifies the settings at once; a running one does each minute."""

    def __init__(self, host):
        self.host = host
        run(host, "sh", "-c", f"umask 077; echo {TOKEN} > /etc/token")
        self.start()

    def start(self):
        words = [EVENKEEL, "serve", "--listen", HOSTS[self.host], "--token-file", "/etc/token"]
        self.child = subprocess.Popen(enter(self.host, *words), stdout=subprocess.PIPE, text=True)
        if not self.child.stdout.readline().startswith("serving on"):
            sys.exit(f"{self.host} does not serve")

    def stop(self):
        # nsenter waits for the program, which ends with its signal.
        subprocess.run(["pkill", "-TERM", "-P", str(self.child.pid)], check=True)
        self.child.wait()

    def again(self):
        self.stop()
        self.start()


class Webhook(http.server.BaseHTTPRequestHandler):
    """Receives alerts."""

    alerts: queue.SimpleQueue = queue.SimpleQueue()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            self.alerts.put((alert["labels"]["alertname"], alert["labels"].get("instance"), alert["status"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def next_alerts(*expected):
    """The next alerts of the webhook, in any order; another one than expected is an error."""
    left = set(expected)
    while left:
        try:
            alert = Webhook.alerts.get(timeout=PATIENCE_S)
        except queue.Empty:
            sys.exit(f"no alert within {PATIENCE_S} s, expected {left}")
        if alert not in left:
            sys.exit(f"expected {left}, got {alert}")
        left.remove(alert)
        say(f"{alert[0]} {alert[1] or 'of the group'} {alert[2]}")


def query(expression):
    """What Prometheus answers, as instance -> value. None while it can't answer."""
    try:
        url = "http://127.0.0.1:9090/api/v1/query?query=" + urllib.request.quote(expression)
        with urllib.request.urlopen(url, timeout=10) as answer:
            result = json.load(answer)["data"]["result"]
    except OSError:
        return None
    return {one["metric"].get("instance", one["metric"].get("group")): float(one["value"][1]) for one in result}


def prometheus():
    """The shipped files, with shorter times: a second between scrapes, and alerts of drift that fire at once."""
    folder = WORK / "prometheus"
    (folder / "hosts").mkdir(parents=True)
    config = (SHIPPED / "scrape/file_sd.yml").read_text()
    (folder / "prometheus.yml").write_text(config.replace("15s", "1s"))
    for name in ("evenkeel.rules.yml", "evenkeel-fleet.rules.yml"):
        rules = re.sub(r"(- alert: Evenkeel\w*Drift\n.*\n) *for: .*\n", r"\1", (SHIPPED / name).read_text())
        (folder / name).write_text(rules)
    (folder / "token").write_text(TOKEN)
    targets = [dict(targets=list(HOSTS.values()), labels=dict(group="lab"))]
    (folder / "hosts/lab.yml").write_text(json.dumps(targets))
    log = open(WORK / "prometheus.log", "w", encoding="utf-8")
    words = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:9090"]
    subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)


def alertmanager():
    threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 9099), Webhook).serve_forever, daemon=True).start()
    (WORK / "alertmanager.yml").write_text(ALERTMANAGER)
    log = open(WORK / "alertmanager.log", "w", encoding="utf-8")
    words = ["prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address="]
    subprocess.Popen([*words, "--web.listen-address=127.0.0.1:9093"], cwd=WORK, stdout=log, stderr=log)


def main():
    for host in HOSTS:
        run(host, EVENKEEL, "apply", SETTING)
    serves = {host: Serve(host) for host in HOSTS}
    alertmanager()
    prometheus()
    well = dict.fromkeys(HOSTS.values(), 0.0)
    wait_for("metrics of all hosts", lambda: query("evenkeel_settings_drift") == well)
    wait_for("the rule of the group", lambda: query("evenkeel:group_hosts:count") == {"lab": 3.0})
    wait_for("the rule of its drift", lambda: query("evenkeel:group_drifted_hosts:count") == {"lab": 0.0})
    say("three hosts are well")

    run("host2", "sh", "-c", f"echo 1 > {DEMUX}")
    serves["host2"].again()
    next_alerts(("EvenkeelSettingsDrift", HOSTS["host2"], "firing"))
    wait_for("the count of the group", lambda: query("evenkeel:group_drifted_hosts:count") == {"lab": 1.0})
    # The command that `evenkeel verify` names.
    run("host2", EVENKEEL, "apply", SETTING)
    serves["host2"].again()
    next_alerts(("EvenkeelSettingsDrift", HOSTS["host2"], "resolved"))
    # While it starts anew, a host has no metrics, so its alert resolves too early. If it were not healed, it would fire again below.
    wait_for("the healed host", lambda: query("evenkeel_settings_drift") == well)

    run("host1", "sh", "-c", f"echo 1 > {DEMUX}")
    serves["host1"].again()
    next_alerts(("EvenkeelSettingsDrift", HOSTS["host1"], "firing"))
    run("host3", "sh", "-c", f"echo 1 > {DEMUX}")
    serves["host3"].again()
    next_alerts(("EvenkeelSettingsDrift", HOSTS["host3"], "firing"), ("EvenkeelFleetDrift", None, "firing"))
    say("all is as expected")


if __name__ == "__main__":
    main()
