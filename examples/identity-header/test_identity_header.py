"""Runs the Python verifier on the test vectors, on every truncation and on every flipped bit of a header."""

import json
from pathlib import Path

from identity_header import Invalid, Key, Verifier


def verify(vector, header):
    verifier = Verifier(vector["audience"], [Key(bytes.fromhex(vector["key"]))])
    try:
        identity = verifier.verify(header, vector["now"])
    except Invalid as invalid:
        return invalid.kind
    identity["claims"] = [list(pair) for pair in identity["claims"].items()]
    return identity


def main():
    vectors = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
    for vector in vectors:
        found = verify(vector, vector["header"])
        expected = vector.get("identity") or vector["error"]
        assert found == expected, (vector["name"], found)
    vector = vectors[1]
    header = vector["header"]
    damaged = [header[:end] for end in range(len(header))]
    for at, character in enumerate(header):
        damaged += [header[:at] + chr(ord(character) ^ 1 << bit) + header[at + 1 :] for bit in range(8)]
    for value in damaged:
        assert isinstance(verify(vector, value), str), value
    try:
        Key(bytes(31))
    except ValueError:
        pass
    else:
        raise AssertionError("a key of 31 bytes is accepted")
    print(f"{len(vectors)} vectors and {len(damaged)} damaged headers: as they should be")


main()
