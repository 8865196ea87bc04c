"""rolegate as a shared service: `deploy/kubernetes/overlays/shared`, asked by the Envoy of `examples/shared`."""

import re
import subprocess
import time
from pathlib import Path

from cluster import CALL, Failed, Namespace, expect, until
from load import Load

DEPLOY = Path(__file__).resolve().parents[1]
OVERLAY = DEPLOY / "kubernetes/overlays/shared"
EXAMPLE = DEPLOY / "kubernetes/examples/shared"
ROLEGATE = "app.kubernetes.io/name=rolegate,app.kubernetes.io/component=shared"
PEOPLE = "app.kubernetes.io/name=people"


def checks(report, namespace):
    # A node of two cores has no room for all at once.
    namespace.kubectl("scale", "deployment/people", "--replicas=0")
    report.check("there is room for it", Namespace.all_gone)
    with Namespace(keep=namespace.keep) as own:
        report.check("the overlay `shared` is applied as it ships, under `restricted`", applied, own)
        report.check("two replicas are ready within 60 s", replicas, own)
        report.check("an application with Envoy that asks them is ready", example, own)
        report.check("a deleted replica costs no request, and no answer is wrong", deleted, own)


def applied(own):
    own.kubectl("apply", "--kustomize", str(OVERLAY))


def replicas(own):
    """Without a metrics server the HorizontalPodAutoscaler sees to its smallest number, which is two."""
    return f"{until('two replicas are ready', 60, lambda: len(ready(own)) >= 2, pause=0.5):.1f} s"


def ready(own):
    def is_ready(pod):
        return any(it["type"] == "Ready" and it["status"] == "True" for it in pod["status"].get("conditions", []))

    return [it for it in own.pods(ROLEGATE) if is_ready(it)]


def example(own):
    built = subprocess.run(["kubectl", "kustomize", str(EXAMPLE)], capture_output=True, text=True, timeout=CALL)
    if built.returncode != 0:
        raise Failed(built.stderr.strip())
    name = "rolegate-headless.rolegate.svc.cluster.local."
    expect(name in built.stdout, f"the example does not name {name}")
    if has_dns(own):
        manifest = built.stdout.replace(name, f"rolegate-headless.{own.name}.svc.cluster.local.")
        how = "by DNS"
    else:
        manifest = with_addresses(built.stdout, [it["status"]["podIP"] for it in ready(own)])
        how = "by the addresses of the replicas: this cluster has no DNS"
    own.apply(manifest)
    own.rolled_out("deployment/people", 60)
    return how


def has_dns(own):
    try:
        slices = own.object("endpointslices", "--namespace", "kube-system", "--selector", "kubernetes.io/service-name=kube-dns")
    except Failed:
        return False
    return any(it.get("endpoints") for it in slices["items"])


def with_addresses(manifest, addresses):
    """The example with addresses in the place of the name: one line of its configuration for each."""
    lines = manifest.splitlines(True)
    (at,) = [number for number, line in enumerate(lines) if "rolegate-headless.rolegate.svc" in line]
    name = re.search(r"[\w.-]*rolegate-headless[\w.-]*", lines[at]).group()
    lines[at:at + 1] = [lines[at].replace(name, it) for it in addresses]
    text, count = re.subn(r"^( +)cluster_type:\n(?:\1 .*\n)+", r"\1type: STATIC\n", "".join(lines), flags=re.M)
    expect(count == 1, "the example does not find its replicas by DNS any more")
    return text


def deleted(own):
    service = own.object("service", "people")["spec"]
    target = f"http://{service['clusterIP']}:{service['ports'][0]['port']}/people"
    # Longer than the replica takes to go: it waits for 35 s, and drains for 10 s and more.
    allowed = Load(own, target, "--basic", "bob:builder", rate=200, seconds=75)
    denied = Load(own, target, "--method", "DELETE", "--basic", "bob:builder", rate=100, seconds=72)
    time.sleep(2)
    own.kubectl("delete", "pod", ready(own)[0]["metadata"]["name"], "--wait=true", wait=75)
    return f"{allowed.result().only('200')}; {denied.result().only('403')}"
