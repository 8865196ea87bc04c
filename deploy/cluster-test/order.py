"""Who comes and who goes first, and that nobody notices."""

import time

from cluster import expect, until
from load import Load
from quick_start import PEOPLE, address_of, pod_address


def checks(report, namespace):
    report.check("two replicas are ready", scaled, namespace, 2)
    report.check("a pod that is told to go answers as before while it drains", answers_while_draining, namespace)
    report.check("a deleted pod costs no request", deleted, namespace)
    report.check("a rolling update of both costs no request", updated, namespace)
    report.check("one replica is ready", scaled, namespace, 1)


def scaled(namespace, number):
    namespace.kubectl("scale", "deployment/people", f"--replicas={number}")
    namespace.rolled_out("deployment/people", 60)
    until("the others have gone", 60, lambda: len(namespace.object("pods", "--selector", PEOPLE)["items"]) == number)


def answers_while_draining(namespace):
    """Asks one pod itself, past the Service, which would turn to another."""
    pod = namespace.pods(PEOPLE)[0]
    target = pod_address(pod)
    allowed = Load(namespace, target, "--basic", "bob:builder", rate=100, seconds=7)
    denied = Load(namespace, target, "--method", "DELETE", "--basic", "bob:builder", rate=100, seconds=6)
    namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    shown = f"{allowed.result().only('200')}; {denied.result().only('403')}"
    namespace.rolled_out("deployment/people", 60)
    return shown


def deleted(namespace):
    load = Load(namespace, address_of(namespace), "--basic", "bob:builder", rate=200, seconds=25)
    time.sleep(2)
    namespace.kubectl("delete", "pod", namespace.pods(PEOPLE)[0]["metadata"]["name"], "--wait=true", wait=60)
    return str(load.result().only("200"))


def updated(namespace):
    load = Load(namespace, address_of(namespace), "--basic", "bob:builder", rate=200, seconds=40)
    time.sleep(2)
    start = time.monotonic()
    namespace.kubectl("rollout", "restart", "deployment/people")
    namespace.rolled_out("deployment/people", 60)
    until("the old ones have gone", 60, lambda: len(namespace.object("pods", "--selector", PEOPLE)["items"]) == 2)
    took = time.monotonic() - start
    expect(took < 37, f"the update took {took:.0f} s, longer than the load")
    return f"{load.result().only('200')}, rolled out in {took:.0f} s"
