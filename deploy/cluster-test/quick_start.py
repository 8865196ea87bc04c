"""The quick start as it ships, and the tutorial beside it word for word."""

import json
import re
import shutil
import subprocess
import time
from datetime import datetime
from pathlib import Path

from cluster import Failed, asked, expect

DEPLOY = Path(__file__).resolve().parents[1]
MANIFEST = DEPLOY / "minikube/quick-start.yaml"
TUTORIAL = DEPLOY / "minikube/README.md"
PEOPLE = "app.kubernetes.io/name=people"
PORTS = {"8080": ("service/people", "8080"), "9192": ("deployment/people", "9192")}


def checks(report, namespace):
    report.check("quick-start.yaml is applied as it ships, under `restricted`", applied, namespace)
    report.check("all of it is ready within 30 s", ready, namespace)
    report.check("the containers came up in order: rolegate, envoy, people", in_order, namespace)
    report.check("rolegate before the first request", fresh, namespace)
    report.check("who may do what is as the policy says", policy_holds, namespace)
    report.check("the tutorial's requests give what the tutorial says", tutorial_holds, namespace)
    report.check("nothing but health and figures can be asked from outside of Envoy", few_doors, namespace)


def applied(namespace):
    namespace.apply(MANIFEST.read_text())


def ready(namespace):
    start = time.monotonic()
    namespace.rolled_out("deployment/people", 30)
    return f"{time.monotonic() - start:.1f} s"


def in_order(namespace):
    (pod,) = namespace.pods(PEOPLE)
    sidecars = {it["name"]: it["state"]["running"]["startedAt"] for it in pod["status"]["initContainerStatuses"]}
    (app,) = [it["state"]["running"]["startedAt"] for it in pod["status"]["containerStatuses"]]
    expect(sidecars["rolegate"] <= sidecars["envoy"] <= app, f"they started at {sidecars}, and the application at {app}")
    times = {it["type"]: it["lastTransitionTime"] for it in pod["status"]["conditions"]}
    return f"created {pod['metadata']['creationTimestamp'][11:19]}, ready {times['Ready'][11:19]}"


def fresh(namespace):
    """How long it took from the start of its process until it answered, and what it takes then."""
    lines = namespace.kubectl("logs", "deployment/people", "--container", "rolegate").splitlines()
    (line,) = [it for it in map(json.loads, lines) if it.get("message") == "listening"]
    at = datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
    with namespace.forwarded("deployment/people", 9192) as admin:
        start = figure(admin, "process_start_time_seconds")
        memory = figure(admin, "process_resident_memory_bytes")
    return f"listened after {1000 * (at - start):.0f} ms, {memory / 2**20:.1f} MiB resident"


def policy_holds(namespace):
    cases = [
        ("GET", "/people", "alice:wonderland", 200),
        ("POST", "/people", "alice:wonderland", 403),
        ("GET", "/people", "bob:builder", 200),
        ("POST", "/people", "bob:builder", (200, 201)),
        ("DELETE", "/people", "bob:builder", 403),
        ("GET", "/people", None, 401),
        ("GET", "/people", "alice:builder", 401),
        ("GET", "/people%2F1", "bob:builder", 400),
        ("GET", "/application", "alice:wonderland", 403),
    ]
    with namespace.forwarded("service/people", 8080) as address:
        for method, path, basic, wanted in cases:
            came, body = asked(address, method, path, basic)
            allowed = wanted if isinstance(wanted, tuple) else (wanted,)
            user = (basic or "nobody").partition(":")[0]
            expect(came in allowed, f"{user} {method} {path}: expected {wanted}, came {came}: {body.strip()}")
    return f"{len(cases)} requests"


def tutorial_holds(namespace):
    """Runs each `curl` of the tutorial against what is forwarded, and compares what it prints."""
    if not shutil.which("curl"):
        raise Failed("curl is missing")
    asks = list(requests(TUTORIAL.read_text()))
    expect(len(asks) >= 5, f"only {len(asks)} requests were found in {TUTORIAL.name}")
    for port, (target, inside) in PORTS.items():
        with namespace.forwarded(target, inside) as address:
            for command, printed in asks:
                if f"localhost:{port}" in command:
                    compare(command.replace(f"localhost:{port}", address), printed)
    return f"{len(asks)} requests"


def requests(text):
    """Each `$ curl …` that must hold at the start, with the lines that it prints. Those after a change of the policy
    are marked by a comment in the shell."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            if command.startswith("curl ") and "# " not in command:
                yield command, printed.strip()


def compare(command, printed):
    """`…` in the tutorial stands for anything."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20)
    pattern = re.escape(printed).replace("…", ".*")
    came = done.stdout.replace("\r", "").strip()
    expect(re.fullmatch(pattern, came, re.S), f"`{command}` printed\n{came}\nand not\n{printed}")


def few_doors(namespace):
    with namespace.forwarded("deployment/people", 9902) as address:
        for method, path, wanted in [
            ("GET", "/ready", 200), ("GET", "/stats/prometheus", 200), ("GET", "/application", 200),
            ("GET", "/people", 404), ("POST", "/quitquitquit", 404), ("GET", "/config_dump", 404),
            ("POST", "/ready/../quitquitquit", 404), ("GET", "/", 404),
        ]:
            came, _ = asked(address, method, path)
            expect(came == wanted, f"{method} {path} on the health port: expected {wanted}, came {came}")
    with namespace.forwarded("deployment/people", 9193) as address:
        for method, path, wanted in [
            ("GET", "/metrics", 200), ("POST", "/metrics", 405), ("GET", "/readyz", 404), ("GET", "/histograms", 404),
        ]:
            came, _ = asked(address, method, path)
            expect(came == wanted, f"{method} {path} on rolegate's metrics port: expected {wanted}, came {came}")
    on_loopback(namespace)


def on_loopback(namespace):
    """Of what listens in rolegate's pod at 9192, the admin pages, all is on loopback; and the probes get there."""
    (pod,) = namespace.pods(PEOPLE)
    (rolegate,) = [it for it in pod["spec"]["initContainers"] if it["name"] == "rolegate"]
    expect("--admin=127.0.0.1:9192" in rolegate["args"], f"the admin pages are elsewhere: {rolegate['args']}")
    said = namespace.kubectl("exec", pod["metadata"]["name"], "--container", "rolegate", "--", "/rolegate", "health")
    expect(said.strip() == "ready", f"`rolegate health` says {said.strip()}")


def figure(address, name):
    """One of rolegate's figures, from its admin port."""
    _, page = asked(address, "GET", "/metrics")
    for line in page.splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    raise Failed(f"no `{name}` among rolegate's figures")


def address_of(namespace):
    """The Service, as pods reach it; there may be no DNS."""
    service = namespace.object("service", "people")["spec"]
    return f"http://{service['clusterIP']}:{service['ports'][0]['port']}/people"


def pod_address(pod):
    return f"http://{pod['status']['podIP']}:10000/people"
