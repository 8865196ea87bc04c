"""A namespace of a cluster, as `kubectl` gives it. Every wait has an end."""

import base64
import contextlib
import http.client
import json
import re
import secrets
import select
import subprocess
import threading
import time

# How long one call of `kubectl` may take that does not itself wait.
CALL = 30


class Failed(Exception):
    """A check did not hold, and why."""


class Namespace:
    """A namespace of our own, at the Pod Security level `restricted`. It goes when the `with` ends."""

    leaving = []

    def __init__(self, keep=False):
        self.name = f"rolegate-test-{secrets.token_hex(3)}"
        self.keep = keep

    def __enter__(self):
        level = {f"pod-security.kubernetes.io/{it}": "restricted" for it in ("enforce", "warn")}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": level}})
        return self

    def __exit__(self, *_):
        if self.keep:
            print(f"left as it is: kubectl --namespace {self.name} get all")
            return
        Namespace.leaving.append(self)
        with contextlib.suppress(Failed):
            kubectl("delete", "namespace", self.name, "--wait=false")

    @classmethod
    def all_gone(cls):
        """Waits until nothing is left of those that have been deleted."""
        while cls.leaving:
            gone = cls.leaving.pop()
            kubectl("wait", f"namespace/{gone.name}", "--for=delete", "--timeout=120s", wait=130)

    def kubectl(self, *arguments, given=None, wait=CALL):
        """What a call of `kubectl` prints, in this namespace."""
        return kubectl("--namespace", self.name, *arguments, given=given, wait=wait)

    def apply(self, manifest):
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "--filename", "-", given=text)

    def object(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def pods(self, selector):
        """The pods of a selector that are not about to go, oldest first."""
        pods = self.object("pods", "--selector", selector)["items"]
        there = [it for it in pods if "deletionTimestamp" not in it["metadata"]]
        return sorted(there, key=lambda it: it["metadata"]["creationTimestamp"])

    def rolled_out(self, deployment, seconds):
        """Waits until every pod of a Deployment is the newest one and ready."""
        try:
            self.kubectl("rollout", "status", deployment, f"--timeout={seconds}s", wait=seconds + 5)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.state()}") from None

    def state(self):
        """What a reader wants to know of pods that do not get ready."""
        with contextlib.suppress(Failed):
            pods = self.kubectl("get", "pods", "--output", "wide")
            events = self.kubectl("get", "events", "--sort-by=.lastTimestamp", "--output=custom-columns=WHY:.reason,WHAT:.message")
            return f"{pods}\n" + "\n".join(events.splitlines()[-12:])
        return ""

    @contextlib.contextmanager
    def forwarded(self, target, port):
        """An address on this machine at which a port of a pod or Service can be reached."""
        command = ["kubectl", "--namespace", self.name, "port-forward", target, f":{port}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            # It says where it listens or ends; and it is not to wait for a reader later.
            ready, _, _ = select.select([process.stdout], [], [], CALL)
            line = process.stdout.readline() if ready else ""
            threading.Thread(target=process.stdout.read, daemon=True).start()
            found = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", line)
            if not found:
                raise Failed(f"port-forward to {target}: {line.strip() or 'it ended'}")
            yield found.group(1)
        finally:
            process.terminate()
            process.wait(CALL)

    def prompt(self, selector):
        """Has the kubelet look at the pods at once; by itself it looks for changed ConfigMaps once a minute or so."""
        stamp = f"rolegate.test/looked-at={secrets.token_hex(4)}"
        self.kubectl("annotate", "pods", "--selector", selector, "--overwrite", stamp)


def kubectl(*arguments, given=None, wait=CALL):
    """What a call of `kubectl` prints. What it warns of is an error here."""
    try:
        done = subprocess.run(["kubectl", *arguments], input=given, capture_output=True, text=True, timeout=wait)
    except subprocess.TimeoutExpired:
        raise Failed(f"`kubectl {' '.join(arguments)}` took longer than {wait} s") from None
    if done.returncode != 0 or "Warning:" in done.stderr:
        raise Failed(f"`kubectl {' '.join(arguments)}`: {done.stderr.strip()}")
    return done.stdout


def asked(address, method, path, basic=None, timeout=5):
    """The status and the body of one request."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    headers = {"authorization": "Basic " + base64.b64encode(basic.encode()).decode()} if basic else {}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, f"no answer: {error}"
    finally:
        connection.close()


def until(what, seconds, holds, pause=0.1):
    """Waits until something holds; the seconds that it took."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if holds():
            return time.monotonic() - start
        time.sleep(pause)
    raise Failed(f"{what}: not within {seconds} s")


def expect(holds, why):
    if not holds:
        raise Failed(why)
