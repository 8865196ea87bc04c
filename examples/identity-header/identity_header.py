"""Verifies the identity header of rolegate in its compact form. Needs Python 3.9 and nothing else.

    verifier = Verifier("shop", [Key(open("identity.key", "rb").read())])
    identity = verifier.verify(request.headers["x-identity"], time.time())
    identity["user"], identity["roles"]

`verify` raises `Invalid` if the header is not valid: answer with 401, and do not tell the client why.
The format is described in crates/identity-header/src/format.rs.
"""

import base64
import binascii
import hashlib
import hmac
import struct

MAX_LEN = 4096
MAC_LEN = 16
FIXED = struct.Struct(">B4sQBBB")


class Invalid(Exception):
    """The header is not valid. `kind` says why, for a log."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind


class Key:
    """A secret that rolegate has, too."""

    def __init__(self, secret):
        if len(secret) < 32:
            raise ValueError("a key has at least 32 bytes")
        self.id = hashlib.sha256(secret).digest()[:4]
        self.secret = secret

    def mac(self, message):
        return hmac.digest(self.secret, message, "sha256")[:MAC_LEN]


class Verifier:
    """Verifies headers for one audience that were made with one of the keys: during a rotation there are two."""

    def __init__(self, audience, keys):
        self.audience = audience
        self.keys = {key.id: key for key in keys}

    def verify(self, header, now):
        """The identity in the value of a header at the time `now`, in seconds since 1970."""
        message, mac = split(header)
        version, key_id, expires, roles, groups, claims = FIXED.unpack_from(message)
        if version != 1:
            raise Invalid("malformed")
        if key_id not in self.keys:
            raise Invalid("unknown_key")
        if not hmac.compare_digest(self.keys[key_id].mac(message), mac):
            raise Invalid("wrong_mac")
        strings = texts(message[FIXED.size :], 3 + roles + groups + 2 * claims)
        audience, revision, user, rest = *strings[:3], strings[3:]
        if audience != self.audience:
            raise Invalid("wrong_audience")
        if expires <= now:
            raise Invalid("expired")
        pairs = rest[roles + groups :]
        return {
            "audience": audience,
            "revision": revision,
            "user": user,
            "roles": rest[:roles],
            "groups": rest[roles : roles + groups],
            "claims": dict(zip(pairs[::2], pairs[1::2])),
            "expires": expires,
        }


def split(header):
    """The message and its MAC. The header must be the one base64url form of its bytes, without padding."""
    if len(header) > (MAX_LEN * 8 + 5) // 6:
        raise Invalid("too_long")
    try:
        data = base64.b64decode(header + "=" * (-len(header) % 4), altchars="-_", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("encoding") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != header:
        raise Invalid("encoding")
    if len(data) < FIXED.size + MAC_LEN:
        raise Invalid("malformed")
    return data[:-MAC_LEN], data[-MAC_LEN:]


def texts(data, count):
    """The strings: all their lengths are before all of them."""
    try:
        lengths = struct.unpack_from(f">{count}H", data)
        found, at = [], 2 * count
        for length in lengths:
            found.append(data[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError):
        raise Invalid("malformed") from None
    if at != len(data):
        raise Invalid("malformed")
    return found
