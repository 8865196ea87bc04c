#!/usr/bin/env python3
"""Makes a container image of one static program, with no registry and no daemon.

    pack.py [--with LIBRARY] PROGRAM NAME:TAG ARCHIVE [ARGUMENT...]

The archive is an OCI image layout with the `manifest.json` of `docker save` in it, so that `docker load`,
`minikube image load`, `kind load image-archive`, `ctr images import` and `podman load` all take it. The same program
gives the same bytes. ARGUMENTs are what the program is given where nothing else is said. The LIBRARY, which the program
copies, is put beside it.
"""

import hashlib
import io
import json
import os
import struct
import sys
import tarfile
from pathlib import Path

# The user of distroless images, which many clusters' rules know by this number.
USER = 65532
MACHINES = {62: "amd64", 183: "arm64"}
BEGINNING = "1970-01-01T00:00:00Z"
# Where a Unix socket may be made when nothing is mounted there.
SOCKETS = "run/rolegate"


class Refused(Exception):
    """Why there is no image."""


def main(arguments):
    library = None
    if arguments[:1] == ["--with"] and len(arguments) > 1:
        library, arguments = Path(arguments[1]), arguments[2:]
    if len(arguments) < 3:
        sys.exit(__doc__)
    program, reference, archive, *default = arguments
    try:
        pack(Path(program), reference, Path(archive), default, library)
    except (Refused, OSError) as error:
        sys.exit(f"pack.py: {error}")


def pack(program, reference, archive, default, library=None):
    """Writes the archive, which is whole or not there at all."""
    name, _, tag = reference.rpartition(":")
    if not name or "/" in tag:
        raise Refused(f"`{reference}` has no tag: write one such as `rolegate:0.1.0`")
    content = program.read_bytes()
    architecture = architecture_of(content, program)
    if library is None:
        layer = layer_of({program.name: content}, {"run": 0, SOCKETS: USER})
    else:
        beside = library.read_bytes()
        if machine_of(beside, library) != machine_of(content, program):
            raise Refused(f"{library} is for another machine than {program}")
        layer = layer_of({program.name: content, library.name: beside}, {})
    config = encoded(configuration(program.name, architecture, layer, default))
    manifest = encoded(image_manifest(config, layer))
    blobs = {digest(it): it for it in (layer, config, manifest)}
    index = encoded(image_index(manifest, architecture, reference))
    old = encoded([{"Config": blob(config), "RepoTags": [reference], "Layers": [blob(layer)]}])

    files = {f"blobs/sha256/{it}": blobs[it] for it in sorted(blobs)}
    files |= {"index.json": index, "manifest.json": old, "oci-layout": encoded({"imageLayoutVersion": "1.0.0"})}
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(archive.name + ".part")
    part.write_bytes(tar(files, {"blobs": 0, "blobs/sha256": 0}))
    os.replace(part, archive)
    print(f"{archive}: {reference}, {architecture}, {archive.stat().st_size / 1e6:.1f} MB, sha256:{digest(config)[:12]}")


def machine_of(content, file):
    if content[:6] != b"\x7fELF\x02\x01":
        raise Refused(f"{file} is not for 64-bit Linux")
    return struct.unpack_from("<H", content, 18)[0]


def architecture_of(content, program):
    """What the program runs on. One that needs a loader would not start: there is none in the image."""
    machine = machine_of(content, program)
    if machine not in MACHINES:
        raise Refused(f"{program} is for a machine that is not known here (ELF machine {machine})")
    start, = struct.unpack_from("<Q", content, 32)
    size, number = struct.unpack_from("<HH", content, 54)
    kinds = [struct.unpack_from("<I", content, start + size * it)[0] for it in range(number)]
    interpreter = 3
    if interpreter in kinds:
        raise Refused(f"{program} is not static: build it with RUSTFLAGS='-C target-feature=+crt-static'")
    return MACHINES[machine]


def layer_of(files, folders):
    """The whole file system: files that nobody may change."""
    return tar(files, folders, mode=0o555)


def configuration(name, architecture, layer, default):
    config = {
        "User": f"{USER}:{USER}",
        "Entrypoint": [f"/{name}"],
        "WorkingDir": "/",
        "Labels": {"org.opencontainers.image.title": name},
    }
    if default:
        config["Cmd"] = default
    return {
        "created": BEGINNING,
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(layer)}"]},
        "history": [{"created": BEGINNING, "created_by": "deploy/image/pack.py"}],
    }


def image_manifest(config, layer):
    return {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar", layer)],
    }


def image_index(manifest, architecture, reference):
    """Names the image as containerd and others look for it."""
    entry = described("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    entry["annotations"] = {
        "io.containerd.image.name": full_name(reference),
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}


def full_name(reference):
    """`rolegate:0.1.0` is short for this."""
    host, slash, _ = reference.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return reference
    return "docker.io/" + (reference if slash else f"library/{reference}")


def described(media_type, content):
    return {"mediaType": media_type, "digest": f"sha256:{digest(content)}", "size": len(content)}


def tar(files, folders, mode=0o444):
    """An archive in which nothing depends on when, where and by whom it was made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(folders):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, folders[name], folders[name]
            archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def blob(content):
    return f"blobs/sha256/{digest(content)}"


def digest(content):
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
