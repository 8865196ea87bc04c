"""rolegate as a part of somebody's own Deployment: `deploy/kubernetes/examples/sidecar`."""

from pathlib import Path

from cluster import Namespace, asked, expect

EXAMPLE = Path(__file__).resolve().parents[1] / "kubernetes/examples/sidecar"


def checks(report, namespace):
    # A node of two cores has no room for all at once.
    namespace.kubectl("scale", "deployment/people", "--replicas=0")
    with Namespace(keep=namespace.keep) as own:
        report.check("the example `sidecar` is ready within 60 s, under `restricted`", ready, own)
        report.check("who may do what is as its policy says", policy_holds, own)


def ready(own, example=EXAMPLE):
    own.kubectl("apply", "--kustomize", str(example))
    own.rolled_out("deployment/people", 60)


def policy_holds(own):
    cases = [("alice:wonderland", "GET", 200), ("alice:wonderland", "POST", 403), ("bob:builder", "POST", 200), (None, "GET", 401)]
    with own.forwarded("service/people", 80) as address:
        for basic, method, wanted in cases:
            came, _ = asked(address, method, "/people", basic)
            user = (basic or "nobody").partition(":")[0]
            expect(came == wanted, f"{user} {method} /people: expected {wanted}, came {came}")
