"""Runs the Python verifier on the test vectors, on every truncation and on every flipped bit of a header."""

import json
from pathlib import Path

from identity_header import Invalid, Verifier

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def verify(vector, header):
    verifier = Verifier(vector["audience"], [bytes.fromhex(vector["key"])])
    try:
        identity = verifier.verify(header, vector["now"])
    except Invalid as invalid:
        return invalid.kind
    identity["claims"] = [list(pair) for pair in identity["claims"].items()]
    return identity


def main():
    for vector in VECTORS:
        found = verify(vector, vector["header"])
        expected = vector.get("identity") or vector["error"]
        assert found == expected, (vector["name"], found)
    vector = VECTORS[1]
    header = vector["header"]
    changed = [header[:end] for end in range(len(header))]
    for at, character in enumerate(header):
        changed += [header[:at] + chr(ord(character) ^ 1 << bit) + header[at + 1 :] for bit in range(8)]
    for one in changed:
        assert isinstance(verify(vector, one), str), one
    print(f"{len(VECTORS)} vectors and {len(changed)} damaged headers: as they should be")


main()
