"""rolegate by Helm: the chart of an application that includes ours, `deploy/helm/example`, as a sidecar and inside Envoy."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cluster import Failed, Namespace, asked, expect

DEPLOY = Path(__file__).resolve().parents[1]
# What `make tools` installs.
INSTALLED = DEPLOY.parent / ".tools"
# How long one call of Helm may take.
LIMIT = 60


def checks(report, namespace):
    helm = program()
    if not helm:
        print("skipped: the chart. `make tools` installs Helm, or HELM names it")
        return
    # A node of two cores has no room for all at once.
    namespace.kubectl("scale", "deployment/people", "--replicas=0")
    for mode in ("sidecar", "module"):
        with Namespace(keep=namespace.keep) as own:
            report.check(f"the chart `example` as `{mode}` is ready within 60 s, under `restricted`", ready, own, helm, mode)
            report.check("who may do what is as its policy says", policy_holds, own)


def program():
    """Helm: the one that HELM names, or that `make tools` has installed; `None` without both."""
    if os.environ.get("HELM"):
        return os.environ["HELM"]
    return next(iter(sorted(INSTALLED.glob("helm-*/bin/helm"))), None)


def ready(own, helm, mode):
    own.apply(rendered(helm, own.name, mode))
    own.rolled_out("deployment/people", 60)


def rendered(helm, namespace, mode):
    """The manifests. Helm writes into the chart's folder, so it gets a copy."""
    with tempfile.TemporaryDirectory() as folder:
        charts = Path(folder) / "helm"
        shutil.copytree(DEPLOY / "helm", charts)
        run(helm, charts, "dependency", "build", "example")
        return run(helm, charts, "template", "people", "example", "--namespace", namespace, "--set", f"rolegate.mode={mode}")


def run(helm, folder, *arguments):
    done = subprocess.run([helm, *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise Failed(f"`helm {' '.join(arguments)}`: {done.stderr.strip()}")
    return done.stdout


def policy_holds(own):
    cases = [("alice:wonderland", "GET", 200), ("alice:wonderland", "POST", 403), ("alice:builder", "GET", 401), (None, "GET", 401)]
    # The chart has no Service: one of its pods is asked.
    with own.forwarded("deployment/people", 10000) as address:
        for basic, method, wanted in cases:
            came, body = asked(address, method, "/people", basic)
            user = (basic or "nobody").partition(":")[0]
            expect(came == wanted, f"{user} {method} /people: expected {wanted}, came {came}: {body.strip()}")
    return f"{len(cases)} requests"
