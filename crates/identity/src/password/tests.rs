//! Checks each format with hashes that other programs wrote: crypt(3) of libxcrypt, Python's
//! hashlib, the argon2 reference implementation.

use super::*;

/// Hashes of the password `wonderland`; the argon2id hash is of `password`.
const WRITTEN_BY_OTHERS: [&str; 11] = [
    "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
    "$2y$05$abcdefghijklmnopqrstuuA0vov2GDneHB3.8.cv9UF9g.RdvScIW",
    "$2a$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
    "$5$saltstring$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
    "$5$rounds=1000$saltstringsalts$8ggSFaw9hdNsM6Rh5ZESEQhVIZJ9rsZOq81yjEwgeO.",
    "$6$saltstring$Q78qN3hztgTquoWC9NtuDHj45jbqRGGbA4LEwaFxw3MHtUvbisWpNl2GcJxgV8s4WnkDTKEyViX3xD6jBJP0B0",
    "$6$rounds=10000$saltstringsaltst$LIxjZwrrofoay51zONjhZgsJ.Ws1GZsKT0tlMgh..ITEixyRRR3.q7UFQyXapK5zqmfbJayOmhUr2vDcyqYct0",
    "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=",
    "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec",
    "$pbkdf2-sha512$1000$....c2FsdDEyMzQ1Ng$CCrYBWkINE1nXTAtF9LJb9KGFTuz6jluATBgaEfhtcjCesMddzKsBprEf2ad9YIMml50zcc3c08qwbC5TxMjlQ",
];

fn stored(text: &str) -> StoredHash {
    StoredHash::parse(text).map_err(|error| format!("{text}: {}", error.message)).unwrap().0
}

fn error(text: &str) -> HashError {
    StoredHash::parse(text).err().ok_or(text).unwrap()
}

#[test]
fn hashes_written_by_other_programs_match_their_passwords() {
    for text in WRITTEN_BY_OTHERS {
        let password: &[u8] = if text.contains("argon2") { b"password" } else { b"wonderland" };
        let stored = stored(text);
        assert!(stored.matches(password), "{text}");
        for wrong in [&b"Wonderland"[..], b"wonderlan", b"wonderland ", b""] {
            assert!(!stored.matches(wrong), "{text}");
        }
    }
}

/// As OpenSearch's security plugin writes them. The first was written by password4j, the others by
/// Python's hashlib.
const WRITTEN_FOR_OPENSEARCH: [(&str, &[u8]); 4] = [
    (
        "$3$1331439861760256$+Rqke26gKhtP60UkVR2a3SfszrOkVrMiJ6LZUWvl2vI5OpW815zKiod8Sdz3aOcuajo6c1iKEXcWjk61emmgTw==$CiH0mwqibUZD5R5HqFNpaYCkWjiYcTQe0sjG+4ZYw/A=",
        b"test",
    ),
    (
        "$3$4294967296256$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==$hyQwutmUFgxAqpDlm4PwW4PFGW1oR4dzxKEMAcMuwzU=",
        b"wonderland",
    ),
    (
        "$5$4294967296512$ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo+QkZKTlJWWl5iZmpucnZ6foKGiow==$aHZa9e0G37/CkgKDtxNq29MdwufDPj7RbJ6KBczFYOOt+LAS7Qbr52qtX1olk0GIUGfFJBZAJp064PD/2AL4Rg==",
        b"wonderland",
    ),
    (
        "$argon2id$v=19$m=15360,t=2,p=1$r35m/UGz8lq4ICjcNkb2GUcfYub07450QRTTapYwiJCQDOI9Maa0dlym/iL0AceTNNXgaxLUyGB5EfJoqr+Wng$WVnHZU8uwvufgWPlVh5T+MnTtX5Ry0hhCD0ej90L0Kk",
        b"test",
    ),
];

#[test]
fn hashes_written_for_opensearch_match_their_passwords() {
    for (text, password) in WRITTEN_FOR_OPENSEARCH {
        let stored = stored(text);
        assert!(stored.matches(password), "{text}");
        assert!(!stored.matches(b"Test") && !stored.matches(b""), "{text}");
    }
}

#[test]
fn other_forms_of_opensearch_are_named() {
    for (text, message) in [
        ("$1$4294967296128$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "with SHA-1, SHA-224 or SHA-384"),
        ("$2$4294967296128$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "with SHA-1, SHA-224 or SHA-384"),
        ("$4$4294967296128$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "with SHA-1, SHA-224 or SHA-384"),
        ("$3$4294967296064$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "not as long as its `l` says"),
        ("$3$4294967296129$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "not as long as it says"),
        ("$3$128$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "that is not"),
        (
            "$3$18446744069414584448$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA",
            "more than 10,000,000 rounds",
        ),
        ("$1$salt$digest", "an MD5 hash"),
        ("$3$x$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA", "unknown format"),
    ] {
        assert!(error(text).message.contains(message), "{text}: {}", error(text).message);
    }
}

#[test]
fn passwords_are_compared_as_bytes() {
    assert!(stored("$6$saltstring$6PSVl254uv0cWCoUS0qzSX5NenRA/YFCwPzGA9ONu.MmmxqXTWHerEzD8WyuBl3ukfIZZU9uxLD6Bn6p7S3rG.").matches("pässwörd".as_bytes()));
    assert!(
        stored("$2b$04$abcdefghijklmnopqrstuuyx2n0Zzopyr9QuYTMCfOJJOj526QVoC")
            .matches("pässwörd".as_bytes())
    );
    let long = stored(
        "$6$saltstring$t389DMhSoo4E0ZoBwi6pljSVVV2g3aqHWf0TDNhYgN8bq.ZZvSs36oL5OhBAJhEa0qstQyuXVFSHD/d.cFQMw0",
    );
    assert!(long.matches(&[b'x'; 200]));
    assert!(!long.matches(&[b'x'; 199]));
}

/// `SECURITY.md`, S18: more than 72 bytes are invalid, not truncated.
#[test]
fn a_password_of_more_than_72_bytes_never_matches_a_bcrypt_hash() {
    let stored = stored("$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i");
    assert!(stored.matches(&[b'x'; 72]));
    assert!(!stored.matches(&[b'x'; 73]));
    assert!(!stored.matches(&[b'x'; 71]));
}

#[test]
fn a_changed_hash_does_not_match() {
    for text in WRITTEN_BY_OTHERS {
        let middle = text.len() - 8;
        let changed: String = text
            .char_indices()
            .map(|(place, c)| if place == middle { if c == 'x' { 'y' } else { 'x' } } else { c })
            .collect();
        let password: &[u8] = if text.contains("argon2") { b"password" } else { b"wonderland" };
        assert!(
            StoredHash::parse(&changed).map_or(true, |(stored, _)| !stored.matches(password)),
            "{changed}"
        );
    }
}

#[test]
fn weak_hashes_are_reported() {
    let weak = |text: &str| {
        StoredHash::parse(text).unwrap().1.map(|weakness| match weakness {
            Weakness::Weak(how) | Weakness::Slow(how) => how,
        })
    };
    assert_eq!(
        weak(
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
        ),
        None
    );
    assert!(
        weak(
            "$argon2id$v=19$m=1024,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
        )
        .is_some()
    );
    assert!(weak("$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu").is_some());
    assert_eq!(weak("$2b$12$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu"), None);
    assert!(
        weak("$5$rounds=1000$saltstringsalts$8ggSFaw9hdNsM6Rh5ZESEQhVIZJ9rsZOq81yjEwgeO.")
            .is_some()
    );
    assert!(
        weak("$pbkdf2-sha256$i=1000$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec")
            .is_some()
    );
}

#[test]
fn hashes_that_cost_too_much_are_rejected() {
    let costly = [
        "$argon2id$v=19$m=1048577,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=1048576,t=5,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=4294967295,t=4294967295,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=1,p=65$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$2b$17$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
        "$2b$31$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
        "$6$rounds=999999999$saltstring$Q78qN3hztgTquoWC9NtuDHj45jbqRGGbA4LEwaFxw3MHtUvbisWpNl2GcJxgV8s4WnkDTKEyViX3xD6jBJP0B0",
        "$pbkdf2-sha256$i=10000001$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec",
    ];
    for text in costly {
        assert_eq!(error(text).help, "make a new one with less cost", "{text}");
    }
}

#[test]
fn errors_of_unsupported_hashes_have_help() {
    let plain = ["wonderland", "", "$", "{PLAIN}wonderland", "rl.3StKT.4T8M", "$wonderland"];
    for text in plain {
        assert_eq!(error(text).message, "a password that is not hashed", "{text}");
    }
    for text in ["{SSHA}MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0", "{SSHA512}x", "{MD5}x", "{crypt}x"] {
        assert!(error(text).message.starts_with("a hash as LDAP servers store it"), "{text}");
    }
    for text in [
        "$apr1$salt$hash",
        "$1$a$b",
        "$2x$04$a",
        "$argon2i$v=19$",
        "$y$j9T$",
        "$pbkdf2$1$a$b",
        "$what$x",
    ] {
        assert_eq!(
            error(text).help,
            "make a new one with `rolegate hash-password`, or in a file with `rolegate passwd`",
            "{text}"
        );
    }
}

#[test]
fn damaged_hashes_are_rejected() {
    let damaged = [
        "{SHA}",
        "{SHA}tiY7sUhYKUwI5L3866kDY+ENcr==",
        "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ",
        "$2b$",
        "$2b$4$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
        "$2b$03$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
        "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlT",
        "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlT=",
        "$2b$04$äbcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
        "$5$saltstring",
        "$5$$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
        "$5$saltstring$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ",
        "$5$saltstring$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQz",
        "$5$rounds=999$s$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
        "$5$rounds=05000$s$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
        "$5$round=5000$s$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
        "$5$saltstringsaltstring$P8WxiZdsQgEV/WrUJLFhcY321KVz2YovpJcf0/DrUQ2",
        "$argon2id$v=16$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=1,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$t=2,m=65536,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=1,keyid=x$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=1$c29t$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXP",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ=$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$pbkdf2-sha256$i=0$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec",
        "$pbkdf2-sha256$i=1000,l=31$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec",
        "$pbkdf2-sha256$i=x$c2FsdHNhbHQxMjM0NTY3OA$f6WMHjU01CRj+x2NtWd3cd9vHmPG5CWlqnJDqf+n+Ec",
        "$pbkdf2-sha256$1000$c2FsdHNhbHQxMjM0NTY3OA",
    ];
    for text in damaged {
        assert_eq!(
            error(text).help,
            "make a new one with `rolegate hash-password`, or in a file with `rolegate passwd`",
            "{text}"
        );
    }
}

#[test]
fn a_new_hash_of_each_kind_matches_its_password() {
    let rounds = std::num::NonZeroU32::new(1_000).unwrap();
    let algorithms = [
        HashAlgorithm::Argon2id { memory: 64, passes: 1, lanes: 2 },
        HashAlgorithm::Bcrypt { cost: 4 },
        HashAlgorithm::Pbkdf2Sha256 { rounds },
        HashAlgorithm::Pbkdf2Sha512 { rounds },
        HashAlgorithm::Sha256Crypt { rounds: 1_000 },
        HashAlgorithm::Sha512Crypt { rounds: 1_000 },
    ];
    for algorithm in algorithms {
        let text = hash_password("wonderland", algorithm).unwrap();
        assert!(stored(&text).matches(b"wonderland"), "{text}");
        assert!(!stored(&text).matches(b"wonderlanD"), "{text}");
        assert_ne!(text, hash_password("wonderland", algorithm).unwrap(), "the salt is random");
    }
}

#[test]
fn the_default_recipe_is_not_weak() {
    let text = hash_password("wonderland", HashAlgorithm::default()).unwrap();
    assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
    assert_eq!(StoredHash::parse(&text).unwrap().1, None);
}

#[test]
fn an_unusable_password_is_not_hashed() {
    for password in ["", "a\nb", "a\u{0}", "a\u{85}", &"x".repeat(257), &"ß".repeat(129)] {
        assert_eq!(
            hash_password(password, HashAlgorithm::default()),
            Err(HashPasswordError::Unusable)
        );
    }
    let cheap = HashAlgorithm::Argon2id { memory: 64, passes: 1, lanes: 1 };
    assert!(hash_password(&"ß".repeat(128), cheap).is_ok());
    let long = "x".repeat(73);
    assert_eq!(
        hash_password(&long, HashAlgorithm::Bcrypt { cost: 4 }),
        Err(HashPasswordError::TooLongForBcrypt)
    );
}

#[test]
fn an_algorithm_that_a_policy_would_reject_is_rejected() {
    let rounds = std::num::NonZeroU32::MAX;
    let algorithms = [
        HashAlgorithm::Argon2id { memory: 1 << 21, passes: 1, lanes: 1 },
        HashAlgorithm::Argon2id { memory: 1, passes: 1, lanes: 1 },
        HashAlgorithm::Argon2id { memory: 64, passes: 0, lanes: 1 },
        HashAlgorithm::Bcrypt { cost: 3 },
        HashAlgorithm::Bcrypt { cost: 17 },
        HashAlgorithm::Pbkdf2Sha256 { rounds },
        HashAlgorithm::Sha512Crypt { rounds: 999 },
        HashAlgorithm::Sha512Crypt { rounds: u32::MAX },
    ];
    for algorithm in algorithms {
        assert_eq!(
            hash_password("wonderland", algorithm),
            Err(HashPasswordError::Parameters),
            "{algorithm:?}"
        );
    }
}
