"""A policy, and users, that change under a running pod."""

import json
import re
import time

from cluster import asked, expect, until
from load import Load
from quick_start import MANIFEST, PEOPLE, address_of, figure

OK = 'rolegate_policy_reloads_total{result="ok"}'
BROKEN = 'rolegate_policy_reloads_total{result="failed"}'
LIMIT = 15
# The changes take some 10 s where the kubelet is told to look.
SECONDS = 40


def checks(report, namespace, manifest=MANIFEST, container="rolegate"):
    """The manifest is the one that was applied; the container is the one whose log rolegate writes to."""
    load = []

    def begin():
        load.append(Load(namespace, address_of(namespace), "--basic", "bob:builder", rate=200, seconds=SECONDS))
        load.append(time.monotonic() + SECONDS)

    report.check("a load of 200 requests per second begins", begin)
    with namespace.forwarded("service/people", 8080) as people, namespace.forwarded("deployment/people", 9192) as admin:
        report.check("a changed policy takes effect within 15 s", policy, namespace, people, admin)
        report.check("a broken policy is rejected, and the last good one is kept", broken, namespace, people, admin, container)
        report.check("changed users take effect within 15 s", users, namespace, people, admin)
        report.check("what was there before comes back", back, namespace, people, manifest)
    if load:
        report.check("no request was wrong or failed meanwhile", undisturbed, *load)
    report.check("no container was restarted for it", not_restarted, namespace)


def undisturbed(load, end):
    expect(time.monotonic() < end, f"the changes took longer than the load of {SECONDS} s")
    return str(load.result().only("200"))


def policy(namespace, people, admin):
    expect(asked(people, "POST", "/people", "alice:wonderland")[0] == 403, "alice may POST before the change")
    before = figure(admin, OK)
    change(namespace, lambda text: text.replace('allow: ["GET /people"]', 'allow: ["GET|POST /people"]'))
    took = until("alice may POST", LIMIT, lambda: asked(people, "POST", "/people", "alice:wonderland")[0] in (200, 201))
    expect(figure(admin, OK) == before + 1, "it was not loaded once")
    return f"{took:.1f} s"


def broken(namespace, people, admin, container):
    before = figure(admin, BROKEN)
    change(namespace, lambda text: text.replace("allow:", "alow:"))
    took = until("the broken policy is noticed", LIMIT, lambda: figure(admin, BROKEN) > before)
    expect(figure(admin, "rolegate_policy_failing_seconds") >= 0, "it is not said since when")
    expect(asked(admin, "GET", "/readyz")[0] == 200, "it is not ready any more")
    # As before the break: the last good policy, which is the changed one.
    for basic, wanted in (("alice:wonderland", 200), (None, 401)):
        came, _ = asked(people, "GET", "/people", basic)
        expect(came == wanted, f"expected {wanted}, came {came}")
    log = namespace.kubectl("logs", "deployment/people", "--container", container, "--tail", "50")
    expect("alow" in log and "the last good one stays active" in log, "the log does not say what is wrong")
    return f"{took:.1f} s"


def users(namespace, people, admin):
    """alice gets bob's password: the new one counts, and the old one no more."""
    secret = re.search(r"^  htpasswd: \|\n((?:    .*\n)+)", MANIFEST.read_text(), re.M).group(1)
    text = re.sub(r"^    ", "", secret, flags=re.M)
    hashed = re.search(r"^bob:(.*)$", text, re.M).group(1)
    change(namespace, lambda text: text)
    namespace.kubectl("patch", "secret", "people-users", "--patch-file=/dev/stdin", given=patch(
        "stringData", "htpasswd", re.sub(r"^alice:.*$", lambda _: f"alice:{hashed}", text, flags=re.M)))
    namespace.prompt(PEOPLE)
    took = until("alice's new password counts", LIMIT, lambda: asked(people, "GET", "/people", "alice:builder")[0] == 200)
    came, _ = asked(people, "GET", "/people", "alice:wonderland")
    expect(came == 401, f"alice's old password: expected 401, came {came}")
    return f"{took:.1f} s"


def back(namespace, people, manifest):
    namespace.apply(manifest.read_text())
    namespace.prompt(PEOPLE)
    until("alice's first password counts", LIMIT, lambda: asked(people, "GET", "/people", "alice:wonderland")[0] == 200)
    came, _ = asked(people, "POST", "/people", "alice:wonderland")
    expect(came == 403, f"alice POST: expected 403, came {came}")
    # Long enough for a second look of the kubelet, which must change nothing.
    time.sleep(1)


def change(namespace, edit):
    """Writes the shipped policy, edited, into the ConfigMap."""
    text = re.search(r"^  policy\.yaml: \|\n((?:    .*\n|\n)+)", MANIFEST.read_text(), re.M).group(1)
    text = edit(re.sub(r"^    ", "", text, flags=re.M))
    namespace.kubectl("patch", "configmap", "people-policy", "--patch-file=/dev/stdin",
                      given=patch("data", "policy.yaml", text))
    namespace.prompt(PEOPLE)


def patch(field, name, text):
    return json.dumps({field: {name: text}})


def not_restarted(namespace):
    (pod,) = namespace.pods(PEOPLE)
    every = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
    restarted = [it["name"] for it in every if it["restartCount"]]
    expect(not restarted, f"restarted: {', '.join(restarted)}")
