#!/usr/bin/env python3
"""Tests the images of `make image` without a daemon: what they say of themselves, and that they run.

    test.py FOLDER [--limit BYTES]    with rolegate.tar, rolegate-load.tar and rolegate-module.tar in it; no image may be larger than BYTES

As root each program runs as in a container: it sees nothing but its image, as the image's user, in a file system that
it cannot write to. Without root the program is run where its layer was unpacked.
"""

import argparse
import contextlib
import http.client
import io
import json
import os
import signal
import stat
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pack

WAIT = 20
LIBRARY = "librolegate.so"
POLICY = Path(__file__).resolve().parents[2] / "policies/people"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--limit", type=int, metavar="BYTES", help="maximum size of an image")
    arguments = arguments.parse_args()
    for name, check in (("rolegate", rolegate), ("rolegate-load", load), ("rolegate-module", module)):
        image = Image(arguments.folder / f"{name}.tar")
        says_the_truth(image, name)
        if arguments.limit:
            assert image.size <= arguments.limit, f"{image.archive} has {image.size} bytes: more than {arguments.limit}"
        is_the_same_again(image, name)
        with image.unpacked() as root:
            check(root)
        print(f"image {name}: {image.size / 1e6:.1f} MB, as {image.config['User']}, works")


class Image:
    """An archive, read as `docker load` and containerd read it."""

    def __init__(self, archive):
        self.archive = archive
        self.size = archive.stat().st_size
        with tarfile.open(archive) as tar:
            self.files = {it.name: tar.extractfile(it).read() for it in tar if it.isfile()}
        (self.docker,) = json.loads(self.files["manifest.json"])
        (self.described,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.described))
        self.whole_config = json.loads(self.blob(self.manifest["config"]))
        self.config = self.whole_config["config"]
        (self.layer,) = [self.blob(it) for it in self.manifest["layers"]]

    def blob(self, described):
        content = self.files["blobs/" + described["digest"].replace(":", "/")]
        assert described["digest"] == f"sha256:{pack.digest(content)}" and described["size"] == len(content)
        return content

    @contextlib.contextmanager
    def unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            os.chmod(root, 0o755)
            with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
                for entry in tar:
                    tar.extract(entry, root, numeric_owner=True)
            yield Root(root, self.config)


class Root:
    """An unpacked image: where its program can be run."""

    def __init__(self, folder, config):
        self.folder = folder
        self.config = config
        self.alone = os.geteuid() == 0 and self.has_devices()

    def has_devices(self):
        """Makes what every container is given. Not every file system has devices."""
        folder = self.folder / "dev"
        folder.mkdir()
        try:
            for name, number in (("random", 8), ("urandom", 9)):
                os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, number))
            return bool((folder / "urandom").open("rb", buffering=0).read(1))
        except OSError:
            return False

    def path(self, inside):
        """How the program names a file in its image."""
        return inside if self.alone else str(self.folder / inside.lstrip("/"))

    @contextlib.contextmanager
    def running(self, *arguments, **environment):
        """The program, until it is no longer needed."""
        log = open(self.folder.with_suffix(".log"), "w+")
        program = self.path(self.config["Entrypoint"][0])
        process = subprocess.Popen(
            [program, *arguments], stdout=log, stderr=subprocess.STDOUT, env=environment, preexec_fn=self.enter
        )
        try:
            yield Running(process, log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            log.close()
            os.unlink(log.name)

    def enter(self):
        if self.alone:
            os.chroot(self.folder)
            os.chdir("/")
            user, group = map(int, self.config["User"].split(":"))
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)


class Running:
    def __init__(self, process, log):
        self.process = process
        self.log = log

    def printed(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def line(self, wanted):
        """The first line with this in it, once it is printed."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            found = [it for it in self.printed().splitlines(True) if wanted in it and it.endswith("\n")]
            if found:
                return found[0]
            assert self.process.poll() is None, f"it ended: {self.printed()}"
            time.sleep(0.02)
        raise AssertionError(f"no `{wanted}` within {WAIT} s: {self.printed()}")

    def terminated(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)


def says_the_truth(image, name):
    tagged = image.docker["RepoTags"]
    assert tagged == [f"{name}:0.1.0"], tagged
    assert image.described["annotations"]["io.containerd.image.name"] == f"docker.io/library/{tagged[0]}"
    assert image.docker["Layers"] == [pack.blob(image.layer)], "the two manifests differ"
    assert image.docker["Config"] == pack.blob(image.blob(image.manifest["config"])), "the two manifests differ"
    assert image.whole_config["rootfs"]["diff_ids"] == [f"sha256:{pack.digest(image.layer)}"]
    assert image.config["User"] == "65532:65532" and image.config["Entrypoint"] == [f"/{name}"], image.config
    with tarfile.open(fileobj=io.BytesIO(image.layer)) as layer:
        modes = {it.name: (it.mode, it.uid) for it in layer}
    if name == "rolegate-module":
        beside = {LIBRARY: (0o555, 0)}
    else:
        beside = {"run": (0o755, 0), "run/rolegate": (0o755, 65532)}
    assert modes == {name: (0o555, 0), **beside}, modes


def is_the_same_again(image, name):
    with tempfile.TemporaryDirectory() as folder:
        program, again = Path(folder) / name, Path(folder) / "again.tar"
        library = Path(folder) / LIBRARY if name == "rolegate-module" else None
        with tarfile.open(fileobj=io.BytesIO(image.layer)) as layer:
            program.write_bytes(layer.extractfile(name).read())
            if library:
                library.write_bytes(layer.extractfile(LIBRARY).read())
        with contextlib.redirect_stdout(io.StringIO()):
            pack.pack(program, image.docker["RepoTags"][0], again, image.config.get("Cmd", []), library)
        assert again.read_bytes() == image.archive.read_bytes(), "packed again it is another archive"


def rolegate(root):
    policy = root.folder / "etc/rolegate"
    policy.mkdir(parents=True)
    for file in POLICY.glob("*.yaml"):
        (policy / file.name).write_bytes(file.read_bytes())
    socket = root.path("/run/rolegate/rolegate.sock")
    arguments = ["serve", "--policy", root.path("/etc/rolegate"), "--listen", f"unix:{socket}"]
    with root.running(*arguments, "--admin", "127.0.0.1:0", "--drain-delay", "0") as running:
        admin = json.loads(running.line("admin pages"))["address"]
        running.line("listening")
        assert asked(admin, "/readyz") == (200, "ready\n")
        assert "rolegate_ready 1" in asked(admin, "/metrics")[1]
        assert running.terminated() == 0, running.printed()
    with root.running("test", root.path("/etc/rolegate")) as running:
        assert running.process.wait(WAIT) == 0, running.printed()
    fetches_keys(root)
    if root.alone:
        cannot_write(root)


def fetches_keys(root):
    """By `https:`, without a file of roots in the image; and with one that is named, by that alone. The address is one
    that nobody listens at: what matters here is what comes before."""
    file = root.folder / "etc/rolegate/keys.yaml"
    file.write_text(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n"
        "      keys: { url: \"https://127.0.0.1:9/keys\" }\nroles:\n  authenticated: { allow: [\"GET /\"] }\n"
    )
    for environment, roots in (({}, True), ({"SSL_CERT_FILE": "/nowhere"}, False)):
        arguments = ["serve", "--policy", root.path("/etc/rolegate/keys.yaml"), "--listen", "127.0.0.1:0"]
        with root.running(*arguments, "--admin", "off", "--keys-wait", "200ms", **environment) as running:
            line = running.line("https://127.0.0.1:9/keys")
            assert ("cannot load root certificates" in line) != roots, line


def cannot_write(root):
    """Only the folder for sockets is the user's."""
    with root.running("serve", "--policy", "/etc/rolegate", "--listen", "unix:/rolegate.sock") as running:
        assert running.process.wait(WAIT) == 5 and "permission denied" in running.printed().lower()


def load(root):
    with root.running("app", "127.0.0.1:0") as running:
        address = running.line("listening on ").split()[-1]
        assert asked(address, "/people")[0] == 200
        assert running.terminated() == 0, running.printed()


def module(root):
    """It copies the library, also over an older one, and says why where it cannot."""
    volume = root.folder / "modules"
    volume.mkdir()
    os.chown(volume, *(map(int, root.config["User"].split(":")) if root.alone else (-1, -1)))
    for _ in range(2):
        with root.running(*([] if root.alone else [str(volume)])) as running:
            assert running.process.wait(WAIT) == 0, running.printed()
        assert [it.name for it in volume.iterdir()] == [LIBRARY]
        assert (volume / LIBRARY).read_bytes() == (root.folder / LIBRARY).read_bytes()
    with root.running(root.path("/nowhere")) as running:
        assert running.process.wait(WAIT) == 1 and "/nowhere" in running.printed(), running.printed()


def asked(address, path):
    connection = http.client.HTTPConnection(address, timeout=WAIT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


if __name__ == "__main__":
    main()
