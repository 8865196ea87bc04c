"""rolegate inside Envoy: `deploy/minikube/quick-start-module.yaml` and `deploy/kubernetes/examples/module`."""

import order
import quick_start
import reload
import sidecar
from cluster import Namespace, asked, expect, until
from quick_start import PEOPLE, figure

MANIFEST = quick_start.DEPLOY / "minikube/quick-start-module.yaml"
EXAMPLE = quick_start.DEPLOY / "kubernetes/examples/module"
UNCHANGED = 'rolegate_policy_reloads_total{result="unchanged"}'


def checks(report, namespace):
    # A node of two cores has no room for all at once.
    namespace.kubectl("scale", "deployment/people", "--replicas=0")
    with Namespace(keep=namespace.keep) as own:
        report.check("quick-start-module.yaml is applied as it ships, under `restricted`", applied, own)
        report.check("all of it is ready within 30 s", quick_start.ready, own)
        report.check("the library was there before Envoy", in_order, own)
        report.check("who may do what is as the policy says", quick_start.policy_holds, own)
        report.check("only health and figures can be asked from outside, of Envoy and of rolegate", few_doors, own)
        report.check("a reload is requested in the pod", requested, own)
        reload.checks(report, own, MANIFEST, "envoy")
        report.check("two replicas are ready", order.scaled, own, 2)
        report.check("a rolling update of both costs no request", order.updated, own)
        own.kubectl("scale", "deployment/people", "--replicas=0")
    with Namespace(keep=namespace.keep) as own:
        report.check("the example `module` is ready within 60 s, under `restricted`", sidecar.ready, own, EXAMPLE)
        report.check("who may do what is as its policy says", sidecar.policy_holds, own)


def applied(own):
    own.apply(MANIFEST.read_text())


def in_order(own):
    (pod,) = own.pods(PEOPLE)
    module, envoy = pod["status"]["initContainerStatuses"]
    copied, started = module["state"]["terminated"]["finishedAt"], envoy["state"]["running"]["startedAt"]
    expect(module["name"] == "rolegate-module" and copied <= started, f"copied at {copied}, and Envoy started at {started}")
    with own.forwarded("deployment/people", 9192) as admin:
        memory = figure(admin, "process_resident_memory_bytes")
    return f"Envoy with it has {memory / 2**20:.1f} MiB resident"


def few_doors(own):
    with own.forwarded("deployment/people", 9902) as address:
        for method, path, wanted in [
            ("GET", "/ready", 200), ("GET", "/readyz", 200), ("GET", "/metrics", 200), ("GET", "/stats/prometheus", 200),
            ("POST", "/metrics", 405), ("POST", "/reload", 404), ("GET", "/histograms", 404), ("GET", "/config_dump", 404),
            ("POST", "/quitquitquit", 404), ("POST", "/metrics/../reload", 404), ("GET", "/people", 404),
        ]:
            came, _ = asked(address, method, path)
            expect(came == wanted, f"{method} {path} on the health port: expected {wanted}, came {came}")


def requested(own):
    with own.forwarded("deployment/people", 9192) as admin:
        before = figure(admin, UNCHANGED)
        came, _ = asked(admin, "POST", "/reload")
        expect(came == 202, f"POST /reload: expected 202, came {came}")
        took = until("it is counted", 5, lambda: figure(admin, UNCHANGED) == before + 1)
    return f"{took:.1f} s"
