"""Runs the Python verifier on the test vectors, on every truncation and on every flipped bit of a header."""

import json
from pathlib import Path

from identity_header import Aes256GcmSiv, HmacSha256, Invalid, Verifier

FILES = {HmacSha256: "vectors.json", Aes256GcmSiv: "vectors-aes-256-gcm-siv.json"}


def verify(vector, algorithm, header):
    verifier = Verifier(vector["audience"], [algorithm(bytes.fromhex(vector["key"]))])
    try:
        identity = verifier.verify(header, vector["now"])
    except Invalid as invalid:
        return invalid.kind
    identity["claims"] = [list(pair) for pair in identity["claims"].items()]
    return identity


def check(algorithm, others):
    vectors = json.loads((Path(__file__).parent / FILES[algorithm]).read_text(encoding="utf-8"))
    for vector in vectors:
        found = verify(vector, algorithm, vector["header"])
        expected = vector.get("identity") or vector["error"]
        assert found == expected, (vector["name"], found)
    vector = vectors[1]
    header = vector["header"]
    changed = [header[:end] for end in range(len(header))]
    for at, character in enumerate(header):
        changed += [header[:at] + chr(ord(character) ^ 1 << bit) + header[at + 1 :] for bit in range(8)]
    for one in changed:
        assert isinstance(verify(vector, algorithm, one), str), one
    secret = bytes.fromhex(vector["key"])
    for other in others:
        assert verify(vector, other, header) == "wrong_mac", other
        refused(lambda: Verifier("shop", [algorithm(secret), other(secret)]))
    for length in [31, 33] if algorithm is Aes256GcmSiv else [31]:
        refused(lambda: algorithm(bytes(length)))
    print(f"{algorithm.__name__}: {len(vectors)} vectors and {len(changed)} damaged headers: as they should be")


def refused(made):
    try:
        made()
    except ValueError:
        return
    raise AssertionError("it is accepted")


def main():
    missing = what_is_missing()
    if missing:
        check(HmacSha256, [])
        print(f"Aes256GcmSiv: not tested: {missing}")
        return
    check(HmacSha256, [Aes256GcmSiv])
    check(Aes256GcmSiv, [HmacSha256])


def what_is_missing():
    """Why this Python has no AES-256-GCM-SIV for an empty plaintext, if it has none."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
    except ImportError as error:
        return error
    try:
        Aes256GcmSiv(bytes(32)).mac(b"")
    except (ImportError, UnsupportedAlgorithm, ValueError) as error:
        return error
    return None


main()
