#!/usr/bin/env python3
"""Tests what `deploy/` ships on the cluster that `kubectl` reaches. The images must be there:

    make image
    minikube image load target/image/rolegate.tar       (or `kind load image-archive`, or `ctr images import`)
    minikube image load target/image/rolegate-load.tar
    minikube image load target/image/rolegate-module.tar
    make cluster-test

Everything happens in namespaces of its own, which are removed at the end; KEEP=1 leaves them. ONLY=reload runs one group.
The chart is tested where `make tools` has installed Helm, or HELM names it.
To kill rolegate inside its pod its process is looked for on this machine, where the nodes of Minikube and kind are, too:
that takes root, or NODE_SHELL, a command such as `minikube ssh --` to which a shell command can be added.
"""

import os
import sys
import time

import chart
import harness
import kill
import module
import order
import quick_start
import reload
import shared
import sidecar
from cluster import Failed, Namespace

GROUPS = {
    "quick-start": quick_start.checks,
    "reload": reload.checks,
    "order": order.checks,
    "kill": kill.checks,
    "harness": harness.checks,
    "sidecar": sidecar.checks,
    "module": module.checks,
    "chart": chart.checks,
    "shared": shared.checks,
}


class Report:
    """One line a check, and a summary."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.start = time.monotonic()

    def check(self, name, body, *arguments):
        """Runs a check; what it returns is shown behind its name. A failed one does not keep the next from running."""
        start = time.monotonic()
        try:
            shown = body(*arguments)
        except (Failed, OSError, KeyError, ValueError) as failed:
            why = str(failed) if isinstance(failed, Failed) else repr(failed)
            self.failed.append(name)
            self.line("FAIL", start, name, "\n".join("      " + it for it in why.splitlines()), "\n")
            return
        self.passed += 1
        self.line("ok", start, name, shown or "", ": " if shown else "")

    def line(self, word, start, name, shown, between):
        print(f"{word:<4} {time.monotonic() - start:6.1f} s  {name}{between}{shown}", flush=True)

    def summary(self):
        seconds = time.monotonic() - self.start
        print(f"{self.passed} passed, {len(self.failed)} failed, {seconds:.0f} s")
        return 1 if self.failed else 0


def main():
    only = os.environ.get("ONLY")
    if only and only not in GROUPS:
        sys.exit(f"ONLY={only}: there are {', '.join(GROUPS)}")
    report = Report()
    try:
        with Namespace(keep=bool(os.environ.get("KEEP"))) as namespace:
            for name, checks in GROUPS.items():
                # The others ask what the quick start has brought up.
                if name == "quick-start" or only in (None, name):
                    checks(report, namespace)
    except Failed as failed:
        sys.exit(f"cluster-test: {failed}")
    report.check("nothing is left in the cluster", Namespace.all_gone)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
