"""The load harness in the cluster, and what rolegate takes at a steady load."""

import re
import time
from pathlib import Path

from cluster import Failed, expect
from load import Load
from quick_start import PEOPLE, figure, pod_address

MANIFEST = Path(__file__).resolve().parents[1] / "minikube/load.yaml"
RUNS = ("app", "app-envoy", "app-envoy-authz")


def checks(report, namespace):
    report.check("rolegate at rest and at 1,000 requests per second", at_load, namespace)
    report.check("load.yaml is applied as it ships, and its Job ends well", job, namespace)
    for run in RUNS:
        report.check(f"the percentiles of {run} are in its log", percentiles, namespace, run)


def at_load(namespace):
    (pod,) = namespace.pods(PEOPLE)
    with namespace.forwarded(f"pod/{pod['metadata']['name']}", 9192) as admin:
        rest = figure(admin, "process_resident_memory_bytes")
        load = Load(namespace, pod_address(pod), "--basic", "bob:builder", rate=1000, seconds=10)
        time.sleep(2)
        first = figure(admin, "process_cpu_seconds_total"), time.monotonic()
        time.sleep(5)
        last = figure(admin, "process_cpu_seconds_total"), time.monotonic()
        busy = figure(admin, "process_resident_memory_bytes")
        load.result().only("200")
    cores = (last[0] - first[0]) / (last[1] - first[1])
    return f"{rest / 2**20:.1f} MiB at rest, {busy / 2**20:.1f} MiB and {cores:.3f} cores at 1,000/s"


def job(namespace):
    namespace.apply(MANIFEST.read_text())
    try:
        namespace.kubectl("wait", "job/people-load", "--for=condition=complete", "--timeout=120s", wait=130)
    except Failed as failed:
        raise Failed(f"{failed}\n{namespace.state()}") from None


def percentiles(namespace, run):
    log = namespace.kubectl("logs", "job/people-load", "--container", run)
    found = dict(re.findall(r"^ *p(\d+(?:\.\d+)?)(?: \(median\))? +([\d.,]+ \S+)", log, re.M))
    expect({"50", "90", "99", "99.9"} <= set(found), f"no percentiles in the log:\n{log}")
    for name in ("errors", "unexpected answers"):
        count = re.search(rf"^ *{name} +(\d+)", log, re.M)
        expect(count and count.group(1) == "0", f"{name} in the log:\n{log}")
    return ", ".join(f"p{it} {found[it]}" for it in ("50", "90", "99", "99.9"))
