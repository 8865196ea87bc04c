//! The identity header: test vectors, damaged headers, agreement of writer and reader, allocations.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed set-up is a failed test"
)]

use std::path::Path;
use std::process::Command;

use identity_header::{Claims, Invalid, Key, MAX_HEADER_LEN, TooLarge, Verifier, encode, format};
use proptest::prelude::*;
use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/identity-header");

struct Vector(Value);

fn vectors() -> Vec<Vector> {
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("vectors.json")).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    vectors.into_iter().map(Vector).collect()
}

/// The first four valid headers.
fn some_valid() -> Vec<Vector> {
    vectors().into_iter().filter(|vector| vector.0.get("identity").is_some()).take(4).collect()
}

impl Vector {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap()
    }

    fn header(&self) -> &[u8] {
        self.text("header").as_bytes()
    }

    fn now(&self) -> u64 {
        self.0.get("now").and_then(Value::as_u64).unwrap()
    }

    fn key(&self) -> Key {
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        let secret: Vec<u8> = self.text("key").as_bytes().chunks(2).map(byte).collect();
        Key::new(&secret).unwrap()
    }

    fn verifier(&self) -> Verifier {
        Verifier::new(self.text("audience"), [self.key()])
    }
}

fn name_of(invalid: Invalid) -> &'static str {
    match invalid {
        Invalid::TooLong => "too_long",
        Invalid::Encoding => "encoding",
        Invalid::Malformed => "malformed",
        Invalid::UnknownKey(_) => "unknown_key",
        Invalid::WrongMac => "wrong_mac",
        Invalid::WrongAudience => "wrong_audience",
        Invalid::Expired => "expired",
    }
}

fn verified(verifier: &Verifier, header: &[u8], now: u64) -> Value {
    let mut buffer = Vec::new();
    match verifier.verify(header, now, &mut buffer) {
        Err(invalid) => name_of(invalid).into(),
        Ok(identity) => serde_json::json!({
            "audience": identity.audience,
            "revision": identity.revision,
            "user": identity.user,
            "roles": identity.roles.collect::<Vec<_>>(),
            "groups": identity.groups.collect::<Vec<_>>(),
            "claims": identity.claims.collect::<Vec<_>>(),
            "expires": identity.expires,
        }),
    }
}

#[test]
fn the_test_vectors_hold() {
    for vector in vectors() {
        let found = verified(&vector.verifier(), vector.header(), vector.now());
        let expected = vector.0.get("identity").unwrap_or(&vector.0["error"]);
        assert_eq!(&found, expected, "{}", vector.text("name"));
    }
}

/// The headers of the vectors were made by other programs, from the description of the format.
#[test]
fn the_writer_makes_the_headers_of_the_vectors() {
    for vector in vectors() {
        let Some(identity) = vector.0.get("identity") else { continue };
        let text = |name: &str| identity[name].as_str().unwrap();
        let list = |name: &str| -> Vec<&str> {
            identity[name].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
        };
        let pairs: Vec<(&str, &str)> = identity["claims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
            .collect();
        let claims = Claims {
            audience: text("audience"),
            revision: text("revision"),
            user: text("user"),
            roles: &list("roles"),
            groups: &list("groups"),
            claims: &pairs,
            expires: identity["expires"].as_u64().unwrap(),
        };
        let mut header = String::new();
        encode(&claims, &vector.key(), &mut Vec::new(), &mut header).unwrap();
        assert_eq!(header.as_bytes(), vector.header(), "{}", vector.text("name"));
    }
}

#[test]
fn a_truncated_header_is_refused_at_every_byte() {
    for vector in some_valid() {
        for end in 0..vector.header().len() {
            let found = verified(&vector.verifier(), &vector.header()[..end], vector.now());
            assert!(found.is_string(), "{} at {end}: {found}", vector.text("name"));
        }
    }
}

#[test]
fn a_header_with_any_flipped_bit_is_refused() {
    for vector in some_valid() {
        let (verifier, mut header) = (vector.verifier(), vector.header().to_vec());
        for at in 0..header.len() {
            for bit in 0..8 {
                header[at] ^= 1 << bit;
                let found = verified(&verifier, &header, vector.now());
                assert!(
                    found.is_string(),
                    "{}: bit {bit} of byte {at}: {found}",
                    vector.text("name")
                );
                header[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn during_a_rotation_both_keys_count() {
    let claims = Claims { audience: "shop", user: "ann", expires: 100, ..Claims::default() };
    let (old, new) = (Key::new(&[1; 32]).unwrap(), Key::new(&[2; 32]).unwrap());
    let both = Verifier::new("shop", [new.clone(), old.clone()]);
    for key in [&old, &new] {
        let mut header = String::new();
        encode(&claims, key, &mut Vec::new(), &mut header).unwrap();
        assert_eq!(both.verify(header.as_bytes(), 99, &mut Vec::new()).unwrap().user, "ann");
    }
}

#[test]
fn a_key_has_32_bytes_or_more() {
    for length in [0, 31] {
        let expected = format!("the key has {length} bytes, at least 32 are needed");
        assert_eq!(Key::new(&vec![7; length]).unwrap_err().to_string(), expected);
    }
    assert!(Key::new(&[7; 33]).is_ok());
}

#[test]
fn a_large_identity_is_refused() {
    let key = Key::new(&[7; 32]).unwrap();
    let (long, many) = ("x".repeat(4090), vec!["r"; 256]);
    for claims in
        [Claims { user: &long, ..Claims::default() }, Claims { roles: &many, ..Claims::default() }]
    {
        let mut header = String::from("unchanged");
        assert_eq!(encode(&claims, &key, &mut Vec::new(), &mut header), Err(TooLarge));
        assert_eq!(header, "unchanged");
    }
    let fits = "x".repeat(format::MAX_LEN - format::MAC_LEN - 22);
    let mut header = String::new();
    let claims = Claims { user: &fits, expires: 1, ..Claims::default() };
    encode(&claims, &key, &mut Vec::new(), &mut header).unwrap();
    assert_eq!(header.len(), MAX_HEADER_LEN);
    let verifier = Verifier::new("", [key]);
    assert!(verifier.verify(header.as_bytes(), 0, &mut Vec::new()).is_ok());
}

#[test]
fn a_key_does_not_show_its_secret() {
    let key = Key::new(&[0xab; 32]).unwrap();
    let shown = format!("{key:?} {:?}", Verifier::new("shop", [key.clone()]));
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
}

#[test]
fn verifying_allocates_nothing() {
    for vector in vectors().iter().filter(|vector| vector.text("name").starts_with("five roles")) {
        let verifier = vector.verifier();
        let mut buffer = Vec::with_capacity(format::MAX_LEN);
        let counted = allocation_counter::measure(|| {
            let identity = verifier.verify(vector.header(), vector.now(), &mut buffer).unwrap();
            assert_eq!(identity.roles.last(), Some("writer"));
            assert_eq!(identity.claims.get("tenant"), Some("acme"));
        });
        assert_eq!(counted.count_total, 0);
    }
}

#[test]
fn the_python_verifier_agrees() {
    let output = Command::new("python3")
        .arg("test_identity_header.py")
        .current_dir(EXAMPLES)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        user in ".{0,40}", roles in prop::collection::vec(".{0,9}", 0..9),
        groups in prop::collection::vec(".{0,9}", 0..9),
        claims in prop::collection::vec((".{0,9}", ".{0,9}"), 0..5), expires: u64,
    ) {
        let (roles, groups): (Vec<&str>, Vec<&str>) =
            (roles.iter().map(String::as_str).collect(), groups.iter().map(String::as_str).collect());
        let pairs: Vec<(&str, &str)> = claims.iter().map(|(name, value)| (&**name, &**value)).collect();
        let claims = Claims {
            audience: "shop", revision: "0", user: &user, roles: &roles, groups: &groups, claims: &pairs, expires,
        };
        let mut bytes = Vec::new();
        format::write(&claims, [1, 2, 3, 4], &mut bytes).unwrap();
        let read = format::read(&bytes).unwrap();
        prop_assert_eq!((read.audience, read.revision, read.user), ("shop", "0", &*user));
        prop_assert_eq!(read.roles.collect::<Vec<_>>(), roles);
        prop_assert_eq!(read.groups.collect::<Vec<_>>(), groups);
        prop_assert_eq!(read.claims.collect::<Vec<_>>(), pairs);
        prop_assert_eq!(read.expires, expires);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(identity) = format::read(&bytes) {
            let mut again = Vec::new();
            let (roles, groups): (Vec<&str>, Vec<&str>) = (identity.roles.collect(), identity.groups.collect());
            let pairs: Vec<(&str, &str)> = identity.claims.collect();
            let claims = Claims {
                audience: identity.audience, revision: identity.revision, user: identity.user, roles: &roles,
                groups: &groups, claims: &pairs, expires: identity.expires,
            };
            format::write(&claims, format::key_id(&bytes).unwrap(), &mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
