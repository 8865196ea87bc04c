//! Basic (RFC 7617), and the formats of stored hashes as a policy sees them.

use std::time::Duration;

use identity::{CredentialsError, Limits, LocalCache, NotAuthenticated};

use crate::settings::*;

fn people() -> Auth {
    compile(&basic(&[("alice", BCRYPT), ("zoë", BCRYPT)]))
}

#[test]
fn the_right_password_authenticates_its_user() {
    let auth = people();
    let subject = authenticate(&auth, &header("alice:wonderland")).unwrap();
    assert_eq!((&*subject.user, subject.groups.len(), subject.roles.len()), ("alice", 1, 0));
    assert!(subject.claims.is_null());
}

/// RFC 9110, 11.1: scheme names are case-insensitive; 11.4: one space or more.
#[test]
fn the_scheme_is_case_insensitive() {
    let auth = people();
    for scheme in ["basic ", "BASIC ", "bAsIc    "] {
        let value = header("alice:wonderland").replace("Basic ", scheme);
        assert!(authenticate(&auth, &value).is_ok(), "{value}");
    }
}

#[test]
fn a_request_without_the_header_is_anonymous() {
    let mut cache = LocalCache::default();
    assert!(matches!(people().authenticate(None, None, now(), &mut cache, attach), Ok(None)));
}

/// The credentials of an unsupported scheme are invalid; the caller is not anonymous.
#[test]
fn an_unsupported_scheme_is_invalid() {
    for value in [
        "",
        " ",
        "Negotiate abc",
        "Digest username=\"alice\"",
        "Bearer a.b.c",
        "alice:wonderland",
        "Basicx YTpi",
    ] {
        assert_eq!(
            authenticate(&people(), value).unwrap_err(),
            CredentialsError::UnsupportedScheme,
            "{value}"
        );
    }
}

/// The error does not show whether the user exists.
#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_error() {
    let auth = people();
    for credentials in [
        "alice:Wonderland",
        "alice:",
        "alice:wonderland ",
        "mallory:wonderland",
        "Alice:wonderland",
    ] {
        assert_eq!(
            authenticate(&auth, &header(credentials)).unwrap_err(),
            CredentialsError::BadPassword,
            "{credentials}"
        );
    }
}

/// The password of an unknown user is hashed too, with the parameters of a hash of the policy.
#[test]
fn an_unknown_user_costs_a_hash() {
    let auth = people();
    assert!(is_pending(&auth, &header("alice:x")));
    assert!(is_pending(&auth, &header("mallory:x")));
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// It takes about as long. Half of the processor time is enough to tell a hash from none, however
/// busy the machine is.
#[test]
fn the_hash_of_an_unknown_user_is_computed() {
    let rounds = std::num::NonZeroU32::new(500_000).unwrap();
    let hash =
        identity::hash_password("x", identity::HashAlgorithm::Pbkdf2Sha256 { rounds }).unwrap();
    let auth = compile(&basic(&[("alice", &hash)]));
    let shortest = |name: &str| {
        let credentials = header(format!("{name}:y"));
        let verified = (0..3).map(|_| {
            let pending = try_authenticate(&auth, credentials.as_bytes(), None, now());
            let Err(NotAuthenticated::Pending(verification)) = pending else { panic!("{name}") };
            let start = processor_time();
            drop(verification.run());
            processor_time() - start
        });
        verified.min().unwrap()
    };
    assert!(shortest("mallory") * 2 > shortest("alice"));
}

/// Only the hash parameters of a decoy are used: its password does not authenticate an unknown
/// user.
#[test]
fn an_unknown_user_cannot_use_the_password_of_its_decoy() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    for name in ["a", "mallory", "root", "bob", "alicf", "ALICE"] {
        assert_eq!(
            authenticate(&auth, &header(format!("{name}:wonderland"))).unwrap_err(),
            CredentialsError::BadPassword,
            "{name}"
        );
    }
}

/// RFC 7617, 2: the password may have colons, the user cannot.
#[test]
fn credentials_are_split_at_the_first_colon() {
    let hash = identity::hash_password("won:der:land", identity::HashAlgorithm::Bcrypt { cost: 4 })
        .unwrap();
    let auth = compile(&basic(&[("alice", &hash), ("alice:won", &hash)]));
    assert_eq!(&*authenticate(&auth, &header("alice:won:der:land")).unwrap().user, "alice");
    assert!(authenticate(&auth, &header("alice:won:won:der:land")).is_err());
}

/// RFC 7617, 2 and 2.1: UTF-8, no control characters, and a user that is not empty.
#[test]
fn malformed_credentials_are_invalid() {
    let auth = people();
    let malformed: [&[u8]; 14] = [
        b"",
        b":",
        b":wonderland",
        b"alice",
        b"alice:wonder\nland",
        b"alice\0:wonderland",
        b"alice:wonderland\0",
        b"al\tice:wonderland",
        b"alice\x7f:x",
        b"alice:\x7f",
        b"ali\xffce:wonderland",
        b"alice:\xc3",
        b"alice:\xc0\x80",
        "alice:\u{85}".as_bytes(),
    ];
    for credentials in malformed {
        assert_eq!(
            authenticate(&auth, &header(credentials)).unwrap_err(),
            CredentialsError::MalformedCredentials,
            "{credentials:?}"
        );
    }
}

/// RFC 4648, 3.5 and 4. If one value had two encodings, equal credentials could have two cache
/// entries.
#[test]
fn only_canonical_base64_is_accepted() {
    let auth = people();
    let good = "YWxpY2U6d29uZGVybGFuZA==";
    assert!(authenticate(&auth, &format!("Basic {good}")).is_ok());
    let texts = [
        "",
        " ",
        "YWxpY2U6d29uZGVybGFuZA",
        "YWxpY2U6d29uZGVybGFuZA=",
        "YWxpY2U6d29uZGVybGFuZB==",
        "YWxpY2U6d29uZGVybGFuZA== ",
        "YWxpY2U6d29uZGVybGFuZA==,",
        "YWxpY2U6d29uZGVybGFuZA===",
        "YWxpY2U6d29u\tZGVybGFuZA==",
        "YWxpY2U6d29uZGVybGFuZA==, Basic YWxpY2U6d29uZGVybGFuZA==",
        "YWxpY2U6_29uZGVybGFuZA==",
        "YWxpY2U6d29u ZGVybGFuZA==",
        "alice:wonderland",
    ];
    for text in texts {
        assert_eq!(
            authenticate(&auth, &format!("Basic {text}")).unwrap_err(),
            CredentialsError::MalformedCredentials,
            "{text:?}"
        );
    }
}

#[test]
fn names_and_passwords_are_utf8() {
    let hash =
        identity::hash_password("pässwörd", identity::HashAlgorithm::Bcrypt { cost: 4 }).unwrap();
    let auth = compile(&basic(&[("zoë", &hash)]));
    assert_eq!(&*authenticate(&auth, &header("zoë:pässwörd")).unwrap().user, "zoë");
    assert!(
        authenticate(&auth, &header("zoe\u{308}:pässwörd")).is_err(),
        "names are compared byte by byte"
    );
}

/// CVE-2025-22228 and similar: bcrypt uses only the first 72 bytes.
#[test]
fn a_password_of_more_than_72_bytes_is_invalid_with_bcrypt() {
    let hash = "$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i";
    let auth = compile(&basic(&[("alice", hash)]));
    assert!(authenticate(&auth, &header(format!("alice:{}", "x".repeat(72)))).is_ok());
    let long = header(format!("alice:{}", "x".repeat(73)));
    assert!(is_pending(&auth, &long), "it costs as much as any other password");
    assert_eq!(authenticate(&auth, &long).unwrap_err(), CredentialsError::BadPassword);
}

#[test]
fn overlong_credentials_are_invalid_and_not_hashed() {
    let auth = people();
    assert!(is_pending(&auth, &header(format!("{}:x", "a".repeat(1_500)))));
    for length in [1_531, 60_000] {
        let value = header(format!("alice:{}", "x".repeat(length)));
        assert_eq!(
            authenticate(&auth, &value).unwrap_err(),
            CredentialsError::MalformedCredentials
        );
    }
}

/// Passwords over 256 bytes are invalid and not hashed, even for a user that does not exist.
#[test]
fn a_password_of_more_than_256_bytes_is_invalid_and_not_hashed() {
    let rounds = std::num::NonZeroU32::new(1_000).unwrap();
    let algorithms = [
        identity::HashAlgorithm::Argon2id { memory: 64, passes: 1, lanes: 1 },
        identity::HashAlgorithm::Pbkdf2Sha256 { rounds },
        identity::HashAlgorithm::Pbkdf2Sha512 { rounds },
        identity::HashAlgorithm::Sha512Crypt { rounds: 1_000 },
    ];
    let (longest, too_long) = ("x".repeat(256), "x".repeat(257));
    let mut hashes =
        algorithms.map(|algorithm| identity::hash_password(&longest, algorithm).unwrap()).to_vec();
    hashes.extend([BCRYPT.to_owned(), "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=".to_owned()]);
    for hash in hashes {
        let auth = compile(&basic(&[("alice", &hash)]));
        let takes_256_bytes = !hash.starts_with("$2b$") && !hash.starts_with("{SHA}");
        for user in ["alice", "mallory"] {
            let value = header(format!("{user}:{longest}"));
            assert!(is_pending(&auth, &value), "{user} {hash}");
            assert_eq!(
                authenticate(&auth, &value).is_ok(),
                user == "alice" && takes_256_bytes,
                "{user} {hash}"
            );
            let value = header(format!("{user}:{too_long}"));
            let authenticated = try_authenticate(&auth, value.as_bytes(), None, now());
            assert!(
                matches!(
                    authenticated,
                    Err(NotAuthenticated::Invalid(CredentialsError::BadPassword))
                ),
                "{user} {hash}"
            );
        }
    }
}

/// What checks passwords in front of rolegate may allow longer ones, and none is hashed here.
#[test]
fn without_verification_a_password_may_have_any_length() {
    let mut settings = basic(&[]);
    settings.basic.as_mut().unwrap().verify = false;
    assert!(
        authenticate(&compile(&settings), &header(format!("alice:{}", "x".repeat(1_000)))).is_ok()
    );
}

/// The first request costs a hash, the next ones do not.
#[test]
fn a_verified_password_is_cached_and_a_wrong_one_is_not() {
    let auth = people();
    let (right, wrong) = (header("alice:wonderland"), header("alice:x"));
    assert!(is_pending(&auth, &right));
    let first = authenticate_at(&auth, right.as_bytes(), now()).unwrap();
    let second = authenticate_at(&auth, right.as_bytes(), now()).unwrap();
    assert_eq!(first.entry, second.entry, "it is the same cache entry");
    assert!(authenticate(&auth, &wrong).is_err());
    assert!(is_pending(&auth, &wrong), "it is hashed again");
    assert!(
        is_pending(&auth, &header("alice:wonderlan")),
        "another password is another credential"
    );
}

/// Whether a header must be verified, this many seconds after [`NOW`].
fn is_pending_after(auth: &Auth, header: &str, seconds: u64) -> bool {
    is_pending_at(auth, header, now() + Duration::from_secs(seconds))
}

/// How long credentials count as verified, in seconds.
fn lifetime() -> u64 {
    Limits::default().basic_ttl.as_secs()
}

#[test]
fn verified_credentials_expire_after_their_lifetime() {
    let value = header("alice:wonderland");
    for (seconds, expired) in
        [(0, false), (lifetime() - 1, false), (lifetime(), true), (lifetime() + 1, true)]
    {
        let auth = people();
        assert!(authenticate(&auth, &value).is_ok());
        assert_eq!(is_pending_after(&auth, &value, seconds), expired, "after {seconds} s");
    }
}

/// Callers whose credentials were verified before are renewed on use. Without that, a flood of
/// wrong passwords locks out a caller who keeps calling.
#[test]
fn credentials_in_use_are_not_hashed_again() {
    let auth = people();
    let value = header("alice:wonderland");
    assert!(authenticate(&auth, &value).is_ok());
    for seconds in (0..20 * lifetime()).step_by(200) {
        assert!(!is_pending_after(&auth, &value, seconds), "after {seconds} s");
    }
    let last = 20 * lifetime() - 200;
    assert!(is_pending_after(&auth, &value, last + lifetime()), "without requests they expire");
}

#[test]
fn a_clock_that_was_fast_does_not_extend_the_validity_of_credentials() {
    let auth = people();
    let value = header("alice:wonderland");
    assert!(authenticate(&auth, &value).is_ok());
    assert!(!is_pending_after(&auth, &value, lifetime() - 1), "renewed by a fast clock");
    assert!(
        is_pending_after(&auth, &value, 10),
        "when the clock is right again, it must be verified again"
    );
}

/// A token has its own expiry, which use does not extend.
#[test]
fn a_token_is_not_renewed_by_use() {
    let auth =
        compile(&tokens_of(issuer(file(&crate::signer::set(&[crate::signer::jwk("ES256")])))));
    let claims = crate::signer::claims_with("exp", Some((NOW + 100).into()));
    let token = crate::signer::bearer(&crate::signer::signed(
        "ES256",
        &crate::signer::header("ES256"),
        &claims,
    ));
    let at = |seconds| {
        authenticate_at(&auth, token.as_bytes(), now() + Duration::from_secs(seconds)).map(drop)
    };
    let skew = 60;
    assert_eq!([at(0), at(99), at(100 + skew - 1)], [Ok(()); 3]);
    assert_eq!(at(100 + skew), Err(CredentialsError::Expired));
}

/// Such verifications come first in the queue.
#[test]
fn a_verification_reports_whether_its_credentials_were_verified_before() {
    let auth = people();
    let verified_before = |credentials: &str, seconds| {
        let now = now() + Duration::from_secs(seconds);
        match try_authenticate(&auth, header(credentials).as_bytes(), None, now) {
            Err(NotAuthenticated::Pending(check)) => check.verified_before(),
            other => panic!("{other:?}"),
        }
    };
    assert!(!verified_before("alice:wonderland", 0), "never verified");
    assert!(authenticate(&auth, &header("alice:wonderland")).is_ok());
    assert!(verified_before("alice:wonderland", lifetime()));
    assert!(verified_before("alice:wonderland", 100 * lifetime()));
    for other in ["alice:Wonderland", "zoë:wonderland", "mallory:wonderland"] {
        assert!(authenticate(&auth, &header(other)).is_ok() == (other == "zoë:wonderland"));
    }
    assert!(!verified_before("alice:Wonderland", lifetime()), "a wrong password is never cached");
    assert!(!verified_before("mallory:wonderland", lifetime()), "an unknown user is never cached");
}

#[test]
fn the_number_of_cached_credentials_is_bounded() {
    let users: Vec<String> = (0..20).map(|number| format!("user{number}")).collect();
    let users: Vec<(&str, &str)> = users.iter().map(|name| (name.as_str(), BCRYPT)).collect();
    let limits = Limits { basic_credentials: 5, ..Limits::default() };
    let auth = Auth::compile(&basic(&users), &identity::FetchedKeys::new(), limits).unwrap().0;
    let headers: Vec<String> =
        users.iter().map(|(name, _)| header(format!("{name}:wonderland"))).collect();
    assert!(headers.iter().all(|value| authenticate(&auth, value).is_ok()));
    assert_eq!(headers.iter().filter(|value| !is_pending(&auth, value)).count(), 5);
}

/// `policies/README.md`: `verify: false`, which RFC 7617 does not have.
#[test]
fn without_verification_every_well_formed_header_authenticates_its_user() {
    let mut settings = basic(&[("alice", BCRYPT)]);
    settings.basic.as_mut().unwrap().verify = false;
    let auth = compile(&settings);
    let (alice, bob) = (
        authenticate(&auth, &header("alice:x")).unwrap(),
        authenticate(&auth, &header("bob:")).unwrap(),
    );
    assert_eq!((&*alice.user, alice.groups.len()), ("alice", 1));
    assert_eq!((&*bob.user, bob.groups.len()), ("bob", 0));
    for malformed in ["alice", ":x", "a\nb:x"] {
        assert_eq!(
            authenticate(&auth, &header(malformed)).unwrap_err(),
            CredentialsError::MalformedCredentials
        );
    }
}

#[test]
fn prefixes_are_put_before_names() {
    let mut settings = basic(&[("alice", BCRYPT)]);
    let basic = settings.basic.as_mut().unwrap();
    basic.user_prefix = "basic:".into();
    basic.group_prefix = "b/".into();
    let subject = authenticate(&compile(&settings), &header("alice:wonderland")).unwrap();
    assert_eq!((&*subject.user, &*subject.groups[0]), ("basic:alice", "b/staff"));
}

#[test]
fn a_policy_without_users_rejects_every_password() {
    assert_eq!(
        authenticate(&compile(&basic(&[])), &header("alice:wonderland")).unwrap_err(),
        CredentialsError::BadPassword
    );
}

#[test]
fn each_unusable_hash_is_an_error_at_its_user() {
    let problems = errors(&basic(&[
        ("alice", "wonderland"),
        ("bob", "$apr1$a$b"),
        ("carol", BCRYPT),
        ("dave", "$2b$31$x"),
    ]));
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[0].starts_with("the password of `alice` is a password that is not hashed"));
    assert!(
        !problems.iter().any(|problem| problem.to_string().contains("wonderland")),
        "no error shows a secret"
    );
    assert!(
        problems[0].help.as_deref().is_some_and(|help| help.contains("rolegate hash-password"))
    );
}

#[test]
fn slow_hashes_are_accepted_with_a_warning() {
    let digest = "$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for (slow, fast) in [
        ("$argon2id$v=19$m=1048576,t=2,p=1", "$argon2id$v=19$m=65536,t=3,p=1"),
        ("$pbkdf2-sha256$i=5000000,l=32", "$pbkdf2-sha256$i=600000,l=32"),
    ] {
        let of = |costs: &str| warnings(&basic(&[("alice", &format!("{costs}{digest}"))]));
        assert!(of(fast).is_empty(), "{fast}");
        let slow = of(slow);
        assert_eq!((slow.len(), slow[0].kind()), (1, Some(document::Warning::SlowHash)));
        assert!(slow[0].message.ends_with("a check takes about a second or longer"), "{}", slow[0]);
    }
}

#[test]
fn weak_hashes_are_accepted_with_a_warning() {
    let settings = basic(&[("alice", BCRYPT)]);
    let warnings = warnings(&settings);
    assert_eq!(
        warnings[0].message,
        "the password of `alice` is hashed with bcrypt with a cost below 10"
    );
    assert_eq!(warnings.len(), 1);
}

#[test]
fn weak_hashes_of_many_users_are_one_warning() {
    let names: Vec<String> = (0..300).map(|number| format!("user{number}")).collect();
    let users: Vec<_> = names.iter().map(|name| (name.as_str(), BCRYPT)).collect();
    let warnings = warnings(&basic(&users));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].message, "300 passwords are hashed with bcrypt with a cost below 10");
    let notes: Vec<&str> = warnings[0].related.iter().map(|(_, note)| note.as_str()).collect();
    assert_eq!((notes.len(), notes[7]), (8, "`user7`, and 292 more"));
}

/// `SECURITY.md`, S18.
#[test]
fn hashes_of_different_costs_are_accepted_with_a_warning() {
    let digest = "$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let argon2id = |costs: &str| format!("$argon2id$v=19${costs}{digest}");
    let pbkdf2 = |costs: &str| format!("$pbkdf2-sha256$i={costs}{digest}");
    let usual = argon2id("m=19456,t=2,p=1");
    let other_salt = usual.replace("$AAAA", "$BBBB");
    let mixed = |hashes: &[&str]| {
        let names = ["alice", "bob", "carol", "dave"];
        let users: Vec<_> = names.into_iter().zip(hashes.iter().copied()).collect();
        let mut warnings = warnings(&basic(&users));
        warnings.retain(|warning| warning.kind() == Some(document::Warning::MixedHashes));
        assert!(warnings.len() <= 1, "{warnings:?}");
        warnings.pop().map(|warning| warning.message)
    };
    for equal in [
        &[][..],
        &[&*usual],
        &[&*usual, &other_salt, &usual, &other_salt],
        &[BCRYPT, &BCRYPT.replace("abc", "cba"), &BCRYPT.replace("2b", "2y")],
        &["{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="],
    ] {
        assert_eq!(mixed(equal), None, "{equal:?}");
    }
    for other in [
        "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=",
        BCRYPT,
        &argon2id("m=19457,t=2,p=1"),
        &argon2id("m=19456,t=3,p=1"),
        &argon2id("m=19456,t=2,p=2"),
    ] {
        let message = mixed(&[&usual, &other_salt, other, &usual]).unwrap();
        let expected =
            "the password of `carol` is hashed with other parameters than that of `alice`, ";
        assert!(message.starts_with(expected), "{other}: {message}");
    }
    for (one, other) in [
        (BCRYPT, &*BCRYPT.replace("$04", "$05")),
        (&pbkdf2("600000"), &pbkdf2("600001")),
        (&pbkdf2("600000"), &pbkdf2("600000").replace("sha256", "sha512")),
    ] {
        assert!(mixed(&[one, other, one]).unwrap().starts_with("the password of `bob`"), "{other}");
    }
    let message = mixed(&[BCRYPT, &usual, &usual, BCRYPT]).unwrap();
    assert!(
        message.starts_with(
            "the password of `bob` is hashed with other parameters than that of `alice`"
        )
    );
    assert!(message.ends_with("(and 1 more like this)"), "{message}");
}

/// Then no hash is computed.
#[test]
fn hashes_of_different_costs_do_not_matter_where_passwords_are_not_checked() {
    let mut settings = basic(&[("alice", BCRYPT), ("bob", "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=")]);
    settings.basic.as_mut().unwrap().verify = false;
    assert!(
        !warnings(&settings).iter().any(|one| one.kind() == Some(document::Warning::MixedHashes))
    );
}

/// `policies/README.md`: `{SHA}` is accepted; the loader warns.
#[test]
fn unsalted_hashes_are_accepted() {
    let settings = basic(&[("alice", "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=")]);
    assert!(authenticate(&compile(&settings), &header("alice:wonderland")).is_ok());
}

/// `SECURITY.md`, S14: no password in any text.
#[test]
fn debug_output_shows_no_password() {
    let auth = people();
    let Err(NotAuthenticated::Pending(check)) =
        try_authenticate(&auth, header("alice:hunter2").as_bytes(), None, now())
    else {
        panic!("not pending")
    };
    let shown = [format!("{auth:?}"), format!("{check:?}"), format!("{:?}", check.run())].concat();
    assert!(!shown.contains("hunter2") && !shown.contains("$2b$"), "{shown}");
}

/// So that many requests with the same credentials cost one hash.
#[test]
fn equal_verifications_have_equal_keys() {
    let auth = people();
    let key = |credentials: &str| match try_authenticate(
        &auth,
        header(credentials).as_bytes(),
        None,
        now(),
    ) {
        Err(NotAuthenticated::Pending(check)) => check.job_key(),
        other => panic!("{other:?}"),
    };
    assert_eq!(key("alice:x"), key("alice:x"));
    let different =
        [key("alice:x"), key("alice:y"), key("zoë:x"), key("mallory:x"), key("alice:x:")];
    assert_eq!(std::collections::HashSet::from(different).len(), 5);
}
