"""rolegate is killed inside its pod: no answer is no permission."""

import os
import subprocess
import time
from pathlib import Path

from cluster import Failed, expect, until
from load import Load
from quick_start import PEOPLE, pod_address

RATE = 100


def checks(report, namespace):
    report.check("a killed rolegate: 503 until it is back, never an allow, back within 2 s", killed, namespace)


def killed(namespace):
    (pod,) = namespace.pods(PEOPLE)
    # The pod itself: its Service would have no pod to turn to meanwhile.
    target = pod_address(pod)
    allowed = Load(namespace, target, "--basic", "bob:builder", rate=RATE, seconds=12)
    denied = Load(namespace, target, "--method", "DELETE", "--basic", "bob:builder", rate=RATE, seconds=10)
    before = rolegate(pod)
    time.sleep(1)
    kill(before["containerID"])
    until("rolegate is back", 15, lambda: rolegate(again(namespace, pod))["restartCount"] > before["restartCount"])
    allowed, denied = allowed.result().only("200", "503"), denied.result().only("403", "503")
    missing = max(it.codes.get("503", 0) for it in (allowed, denied)) / RATE
    expect(missing > 0, "no request met the time without rolegate")
    expect(missing <= 2, f"rolegate was missed for {missing:.1f} s")
    namespace.rolled_out("deployment/people", 30)
    return f"{missing:.2f} s of 503; {allowed}; {denied}"


def rolegate(pod):
    return next(it for it in pod["status"]["initContainerStatuses"] if it["name"] == "rolegate")


def again(namespace, pod):
    return namespace.object("pod", pod["metadata"]["name"])


def kill(container):
    """SIGKILL, from the node: inside a container nobody can send it to the first process."""
    number = container.rpartition("/")[2]
    shell = os.environ.get("NODE_SHELL")
    if shell:
        script = f"sudo sh -c 'kill -9 $(grep -l {number} /proc/[0-9]*/cgroup | cut -d/ -f3)'"
        done = subprocess.run([*shell.split(), script], capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise Failed(f"NODE_SHELL: {done.stderr.strip()}")
        return
    processes = [it for it in Path("/proc").glob("[0-9]*") if is_in(it, number)]
    if not processes:
        raise Failed("rolegate's process is not on this machine: set NODE_SHELL, see run.py")
    try:
        for process in processes:
            os.kill(int(process.name), 9)
    except PermissionError:
        raise Failed("killing rolegate takes root on this machine: set NODE_SHELL, see run.py") from None


def is_in(process, container):
    try:
        return container in (process / "cgroup").read_text()
    except OSError:
        return False
