"""A control plane in the network of hosts.sh, spoken to without a client library; agents in its hosts."""
from __future__ import annotations

import base64
import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import time

import yaml

ADDRESS, PORT = "10.99.0.254", 26443
ADMIN = "admin-token-of-the-lab"
GOALS, STATES = "/apis/evenkeel.dev/v1alpha1/hostgoals", "/apis/evenkeel.dev/v1alpha1/hoststates"
NODES = "/api/v1/nodes"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
NAMESPACE = "evenkeel"
# The bound of each wait is for a hang only.
PATIENCE_S = 60


class Refused(Exception):
    """The API server's no."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


def until(what, is_so, patience_s=PATIENCE_S):
    """Waits for something, and ends the run if it does not come."""
    end = time.monotonic() + patience_s
    last = None
    while time.monotonic() < end:
        try:
            last = is_so()
            if last:
                return last
        except (OSError, http.client.HTTPException, Refused) as error:
            last = error
        time.sleep(0.1)
    sys.exit(f"not so within {patience_s} s: {what}; last seen: {last}")


class Cluster:
    """etcd, the API server and the controllers, and an administrator's connection."""

    def __init__(self, work, tools):
        self.dir, self.tools = work / "cluster", tools
        self.dir.mkdir()
        self.processes = {}
        self.requests_log = self.dir / "audit.log"

    def start(self):
        run = dict(check=True, cwd=self.dir, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "genrsa", "-out", "service.key", "2048"], **run)
        (self.dir / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')
        (self.dir / "audit.yaml").write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
            f'- {{level: Metadata, userGroups: ["system:serviceaccounts:{NAMESPACE}"]}}\n- {{level: None}}\n'
        )
        store = "http://127.0.0.1:23790"
        self.run("etcd", "--data-dir", "etcd", "--unsafe-no-fsync", "--listen-client-urls", store, "--advertise-client-urls", store,
                 "--listen-peer-urls", "http://127.0.0.1:23800", "--log-level", "error")
        self.start_server()
        self.kubeconfig("admin", ADMIN)
        # Nodes are ready because this lab says so: nothing here renews their leases.
        self.run("kube-controller-manager", f"--kubeconfig={self.dir}/admin.conf", "--service-account-private-key-file=service.key",
                 "--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir=controllers", "--controllers=*,-node-lifecycle-controller")

    def start_server(self):
        self.run("kube-apiserver", "--etcd-servers=http://127.0.0.1:23790", f"--secure-port={PORT}", f"--bind-address={ADDRESS}",
                 f"--advertise-address={ADDRESS}", "--cert-dir=certs", "--service-cluster-ip-range=10.0.0.0/24",
                 "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=service.key",
                 "--service-account-signing-key-file=service.key", "--authorization-mode=RBAC", "--token-auth-file=tokens.csv",
                 "--allow-privileged=true", "--endpoint-reconciler-type=none", "--audit-policy-file=audit.yaml",
                 f"--audit-log-path={self.requests_log}", "--audit-log-mode=blocking-strict")
        until("the API server is ready", lambda: self.ask("GET", "/readyz", raw=True) == "ok")

    def run(self, name, *arguments):
        log = open(self.dir / f"{name}.log", "a")
        self.processes[name] = subprocess.Popen([f"{self.tools}/{name}", *arguments], cwd=self.dir, stdout=log, stderr=log)

    def stop_server(self):
        self.processes["kube-apiserver"].terminate()
        self.processes["kube-apiserver"].wait()

    def kubeconfig(self, name, token):
        """A file of credentials, in JSON, which is YAML."""
        certificate = (self.dir / "certs/apiserver.crt").read_bytes()
        server = {"server": f"https://{ADDRESS}:{PORT}", "certificate-authority-data": base64.b64encode(certificate).decode()}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "lab",
                  "clusters": [{"name": "lab", "cluster": server}], "users": [{"name": "lab", "user": {"token": token}}],
                  "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}]}
        path = self.dir / f"{name}.conf"
        path.write_text(json.dumps(config))
        return path

    def ask(self, method, path, body=None, kind="application/json", raw=False, token=ADMIN):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(ADDRESS, PORT, timeout=20, context=context)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            try:
                message = json.loads(text).get("message", text)
            except ValueError:
                message = text
            raise Refused(answer.status, message)
        return text if raw else json.loads(text)

    def get(self, path):
        """An object, or None."""
        try:
            return self.ask("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def apply(self, thing, dry_run=False):
        """Server-side apply of any object."""
        suffix = "&dryRun=All" if dry_run else ""
        return self.ask("PATCH", f"{path_of(thing)}?fieldManager=lab&force=true{suffix}", thing, APPLY)

    def delete(self, path):
        """Deletes an object, if there is one."""
        try:
            self.ask("DELETE", path)
        except Refused as refused:
            if refused.status != 404:
                raise

    def node(self, name, labels=None):
        """A node that is ready."""
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}})
        self.ready(name, True)

    def ready(self, name, is_ready):
        status = "True" if is_ready else "False"
        self.ask("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": status}]}},
                 "application/strategic-merge-patch+json")

    def token(self, account, node=None):
        """A token as the kubelet gives it to a pod of this account, on this node."""
        spec = {"expirationSeconds": 3600}
        if node:
            uid = self.ask("GET", f"{NODES}/{node}")["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": uid}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", request)
        return answer["status"]["token"]

    def requests(self):
        """What the accounts of the chart have asked so far: (user's node or account, verb, resource)."""
        rows = []
        for line in self.requests_log.read_text().splitlines():
            entry = json.loads(line)
            reference = entry.get("objectRef", {})
            resource = "/".join(filter(None, [reference.get("resource"), reference.get("subresource")]))
            rows.append((entry["user"], entry["verb"], resource))
        return rows


PLURALS = {"Node": "nodes", "HostGoal": "hostgoals", "HostState": "hoststates", "ServiceAccount": "serviceaccounts", "Namespace": "namespaces", "Pod": "pods",
           "DaemonSet": "daemonsets", "Deployment": "deployments", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
           "ResourceQuota": "resourcequotas", "Role": "roles", "RoleBinding": "rolebindings", "CustomResourceDefinition": "customresourcedefinitions",
           "ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings"}


def path_of(thing):
    version, name = thing["apiVersion"], thing["metadata"]["name"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = thing["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inside}/{PLURALS[thing['kind']]}/{name}"


class Hosts:
    """The hosts of namespaces, each with an agent."""

    def __init__(self, work, cluster):
        self.work, self.cluster = work, cluster
        self.names = ["host1", "host2", "host3"]
        self.agents = {}

    def pid(self, host):
        return (self.work / f"{host}.pid").read_text().strip()

    def argv(self, host, *command):
        return ["nsenter", f"--target={self.pid(host)}", "--mount", "--net", "--uts", "--pid", "--ipc", "--root", "--wd=/", *command]

    def enter(self, host, *command):
        return subprocess.run(self.argv(host, *command), text=True, capture_output=True, check=True).stdout

    def read(self, host, path):
        return pathlib.Path(f"/proc/{self.pid(host)}/root{path}").read_text().strip() if "/proc/" not in path else self.enter(host, "cat", path).strip()

    def write(self, host, path, value):
        self.enter(host, "sh", "-c", f"echo {value} >{path}")

    def start(self, host, account="evenkeel-agent"):
        credentials = self.cluster.kubeconfig(f"{account}-{host}", self.cluster.token(account, host))
        inside = pathlib.Path(f"/proc/{self.pid(host)}/root/srv/agent.conf")
        inside.write_text(credentials.read_text())
        self.spawn(host)

    def spawn(self, host):
        log = open(self.work / f"{host}-agent.log", "a")
        argv = self.argv(host, "/opt/evenkeel/bin/evenkeel", "agent", "--node", host, "--kubeconfig", "/srv/agent.conf", "--verify-every", "2s",
                         "--reboot-command", "/srv/reboot")
        self.agents[host] = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)

    def kill(self, host):
        """Kills an agent, and what it runs, at once."""
        agent = self.agents.pop(host)
        try:
            os.killpg(agent.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        agent.wait()

    def end(self, host):
        agent = self.agents.pop(host)
        os.killpg(agent.pid, signal.SIGTERM)
        agent.wait()


def rendered(tools, chart, reboots=True):
    """The objects of the chart: by Helm, so that what users install is what is tested."""
    argv = [f"{tools}/helm", "template", "evenkeel", str(chart), "--namespace", NAMESPACE, "--include-crds", "--kube-version", "1.37"]
    argv += ["--set", "agent.rebootCommand={/srv/reboot}"] if reboots else []
    text = subprocess.run(argv, check=True, text=True, capture_output=True).stdout
    return [thing for thing in yaml.safe_load_all(text) if thing]
