"""Load from inside the cluster: `rolegate-load` in a pod of its own."""

import json
import time

from cluster import Failed, expect, until

# What `restricted` asks for.
SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Load:
    """A run of `rolegate-load`, which begins at once and ends after `seconds` by itself."""

    number = 0

    def __init__(self, namespace, target, *arguments, rate, seconds, kind="http"):
        Load.number += 1
        self.namespace, self.rate, self.seconds = namespace, rate, seconds
        self.name = f"load-{Load.number}"
        # A pod that is ready is not yet an endpoint of its Service on every node: until it is, connections are refused.
        waiting = ["--wait", "10s"]
        given = [kind, target, *arguments, *waiting, "--rate", str(rate), "--duration", f"{seconds}s", "--json", "-"]
        namespace.apply(pod(self.name, given))
        try:
            until(f"{self.name} runs", 30, self.has_begun)
        except Failed as failed:
            raise Failed(f"{failed}\n{namespace.state()}") from None
        # The container runs; now the connections are opened.
        time.sleep(0.5)

    def has_begun(self):
        return self.namespace.object("pod", self.name)["status"]["phase"] in ("Running", "Succeeded", "Failed")

    def result(self):
        """What it found out, once it has ended."""
        self.namespace.kubectl(
            "wait", "pod", self.name, "--for=jsonpath={.status.containerStatuses[0].state.terminated}",
            f"--timeout={self.seconds + 30}s", wait=self.seconds + 40,
        )
        log = self.namespace.kubectl("logs", self.name)
        start = log.find("{")
        if start < 0:
            raise Failed(f"{self.name} printed no result: {log.strip()[-400:]}")
        found, _ = json.JSONDecoder().raw_decode(log[start:])
        return Result(found, self)


class Result:
    def __init__(self, found, load):
        self.codes = {code: count for code, count in found["RetCodes"].items() if code != "-1"}
        self.errors = found["OpenLoop"]["Errors"]
        self.count = sum(self.codes.values())
        self.load = load
        self.percentiles = {it["Percentile"]: it["Value"] for it in found["DurationHistogram"]["Percentiles"]}

    def only(self, *codes):
        """Every request was answered, and with no other status than these."""
        expect(set(self.codes) <= set(codes) and not self.errors, f"expected only {'/'.join(codes)}, came {self}")
        wanted = self.load.rate * self.load.seconds
        expect(self.count >= 0.9 * wanted, f"{self.count} answers are too few for {wanted} requests")
        return self

    def __str__(self):
        return ", ".join(f"{count} × {code}" for code, count in {**self.codes, **self.errors}.items())


def pod(name, arguments):
    container = {
        "name": "load",
        "image": "rolegate-load:0.1.0",
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "securityContext": SECURITY,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
