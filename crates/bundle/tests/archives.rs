//! Bundles as anyone may make them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use bundle::{Bundle, BundleError, KeyPair, PublicKey, build, sign};
use document::Files as _;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use tar::{EntryType, Header};

const MAX: u64 = 1 << 20;

fn files() -> BTreeMap<String, Vec<u8>> {
    let files =
        [("policy.yaml", "version: 1\n"), ("roles/a.yaml", "roles: {}\n"), ("htpasswd", "")];
    files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into()
}

fn unsigned() -> Vec<u8> {
    build("policy.yaml", 7, &files()).unwrap()
}

fn pair() -> (KeyPair, PublicKey) {
    let pair = KeyPair::generate().unwrap();
    let public = pair.public_key().clone();
    (pair, public)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// An archive of these entries; names are written as they are.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o600);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        tar.append(&header, *bytes).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

fn regular<'a>(name: &'a str, bytes: &'a [u8]) -> (&'a str, EntryType, &'a [u8]) {
    (name, EntryType::Regular, bytes)
}

/// The manifest of these files, as a bundle has it.
fn manifest(policy: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let entry = |(name, bytes): &(&str, &[u8])| {
        let hash = digest(&SHA256, bytes)
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        json!({ "name": name, "size": bytes.len(), "sha256": hash })
    };
    let files = files.iter().map(entry).collect::<Vec<_>>();
    json!({ "format": 1, "revision": 7, "policy": policy, "files": files }).to_string().into_bytes()
}

fn malformed_because(bytes: &[u8], reason: &str) {
    match Bundle::open(bytes, &[], MAX) {
        Err(BundleError::Malformed(text)) => assert!(text.contains(reason), "{text}, not {reason}"),
        other => panic!("{other:?}, not {reason}"),
    }
}

#[test]
fn what_was_built_is_read_again() {
    let bundle = Bundle::open(&unsigned(), &[], MAX).unwrap();
    assert_eq!((bundle.manifest.revision, &*bundle.manifest.policy), (7, "policy.yaml"));
    assert_eq!(bundle.signed_by, None);
    assert_eq!(bundle.files.read(Path::new("policy.yaml")).unwrap(), b"version: 1\n");
    assert_eq!(bundle.files.list(Path::new("roles")).unwrap(), ["a.yaml"]);
    assert_eq!(unsigned(), unsigned(), "the same input gives other bytes");
}

#[test]
fn a_signature_is_verified_by_the_key_that_it_names() {
    let ((pair, public), (_, other)) = (pair(), pair());
    let signed = sign(&unsigned(), &pair, MAX).unwrap();
    let open = |keys: &[PublicKey]| Bundle::open(&signed, keys, MAX);
    let bundle = open(&[other.clone(), public.clone()]).unwrap();
    assert_eq!(bundle.signed_by, Some(public.id()));
    assert_eq!(bundle.digest(), Bundle::open(&unsigned(), &[], MAX).unwrap().digest());
    assert_eq!(
        open(std::slice::from_ref(&other)).unwrap_err(),
        BundleError::UnknownKey(public.id())
    );
    assert_eq!(open(&[]).unwrap().signed_by, Some(public.id()));
    assert_eq!(Bundle::open(&unsigned(), &[public], MAX).unwrap_err(), BundleError::Unsigned);
    assert_eq!(sign(&signed, &pair, MAX).unwrap(), signed, "signing again changes it");
}

/// Each byte of the unpacked archive is changed in turn.
#[test]
fn no_changed_byte_of_a_signed_bundle_changes_what_is_read() {
    let (pair, public) = pair();
    let tar = gunzip(&sign(&unsigned(), &pair, MAX).unwrap());
    let keys = [public];
    let good = Bundle::open(&gzip(&tar), &keys, MAX).unwrap();
    let mut accepted = 0;
    for at in 0..tar.len() {
        let mut tar = tar.clone();
        tar[at] ^= 1;
        if let Ok(bundle) = Bundle::open(&gzip(&tar), &keys, MAX) {
            assert_eq!(bundle.manifest, good.manifest);
            assert_eq!(bundle.files.0, good.files.0);
            accepted += 1;
        }
    }
    // What fills a block after a file counts for nothing.
    assert!(accepted < tar.len() / 2, "{accepted} of {}", tar.len());
}

#[test]
fn a_truncated_bundle_is_not_accepted() {
    let bundle = unsigned();
    for end in 0..bundle.len() {
        let result = Bundle::open(&bundle[..end], &[], MAX);
        assert!(matches!(result, Err(BundleError::Malformed(_))), "{end}: {result:?}");
    }
    malformed_because(&bundle[..bundle.len() - 9], "truncated");
    malformed_because(&[bundle, b"more".to_vec()].concat(), "something follows");
}

#[test]
fn only_plain_files_that_the_manifest_lists_are_accepted() {
    let policy: (&str, &[u8]) = ("policy.yaml", b"version: 1\n");
    let listed = manifest("policy.yaml", &[policy]);

    let first = regular("manifest.json", &listed);
    let (name, bytes) = policy;
    assert!(Bundle::open(&archive(&[first, regular(name, bytes)]), &[], MAX).is_ok());
    for (entries, reason) in [
        (vec![regular(name, bytes), first], "\"manifest.json\" is not where it must be"),
        (vec![first], "\"policy.yaml\" is not where it must be"),
        (vec![first, regular(name, bytes), regular(name, bytes)], "is not in the manifest"),
        (
            vec![first, regular(name, bytes), regular("more", b"")],
            "\"more\" is not in the manifest",
        ),
        (vec![first, regular("../policy.yaml", bytes)], "\"policy.yaml\" is not where it must be"),
        (vec![first, regular("/policy.yaml", bytes)], "\"policy.yaml\" is not where it must be"),
        (vec![first, regular(name, b"version: 2\n")], "is not as the manifest says"),
        (vec![first, regular(name, b"version")], "is not as the manifest says"),
        (vec![first, regular(name, &[b' '; 100])], "is larger than it may be"),
        (vec![first, (name, EntryType::Symlink, b"")], "not a plain file but Symlink"),
        (vec![first, (name, EntryType::Link, b"")], "not a plain file but Link"),
        (vec![first, (name, EntryType::Char, b"")], "not a plain file but Char"),
        (vec![first, (name, EntryType::Fifo, b"")], "not a plain file but Fifo"),
        (vec![first, (name, EntryType::Directory, b"")], "not a plain file but Directory"),
        (vec![first, (name, EntryType::GNULongName, b"x")], "not a plain file but GNULongName"),
        (vec![first, (name, EntryType::XHeader, b"x")], "not a plain file but XHeader"),
        (vec![first, (name, EntryType::GNUSparse, b"x")], "not a plain file but GNUSparse"),
        (vec![regular("manifest.json", b"{}")], "its manifest: missing field"),
    ] {
        malformed_because(&archive(&entries), reason);
    }
    for climbing in ["../policy.yaml", "/policy.yaml", "a/../../policy.yaml"] {
        let listed = manifest(climbing, &[(climbing, bytes)]);
        let bundle = archive(&[regular("manifest.json", &listed), regular(climbing, bytes)]);
        malformed_because(&bundle, "is not a plain path below the bundle");
    }
    let twice = manifest("policy.yaml", &[policy, policy]);
    let bundle =
        archive(&[regular("manifest.json", &twice), regular(name, bytes), regular(name, bytes)]);
    malformed_because(&bundle, "is there twice");
}

/// People read the id of the key in the output of `rolegate bundle inspect`, which must not say
/// more than it does.
#[test]
fn the_id_of_a_key_is_nothing_but_an_id() {
    let (pair, _) = pair();
    let id = pair.public_key().id().to_string();
    let policy: (&str, &[u8]) = ("policy.yaml", b"version: 1\n");
    let listed = manifest("policy.yaml", &[policy]);
    let with = |key: &str| {
        let signature = json!({ "key": key, "ed25519": "" }).to_string();
        let (first, file) = (regular("manifest.json", &listed), regular(policy.0, policy.1));
        archive(&[first, regular("signature.json", signature.as_bytes()), file])
    };
    assert_eq!(Bundle::open(&with(&id), &[], MAX).unwrap().signed_by.unwrap().to_string(), id);
    let forged = "0123456789abcdef, verified\npolicy    policy.yaml: revision fine\u{1b}[8m";
    for key in
        [forged, "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", ""]
    {
        malformed_because(&with(key), "its signature cannot be read");
    }
}

/// What is wrong with a bundle is logged, also if anyone could have made it.
#[test]
fn no_error_repeats_much_of_a_bundle_or_any_control_character() {
    let bad = "\n\u{1b}[8m\u{202e}";
    let long = format!("{bad}{}", "a".repeat(1 << 20));
    let name = bad.repeat(10);
    let listed = |name: &str| manifest("policy.yaml", &[(name, b"")]);
    let entry = json!({ "name": "p", "size": 0, "sha256": "" });
    let field = json!({ "format": 1, "revision": 7, "policy": "p", "files": [entry], &long: 1 })
        .to_string();
    let mut tar = gunzip(&archive(&[regular(&name, b"")]));
    // The size of the first entry is no number, which the error about it names; and so the checksum
    // is another.
    tar[124..136].fill(b'z');
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|byte| u32::from(*byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let first = |bytes: &[u8]| archive(&[regular("manifest.json", bytes)]);
    for (bundle, reason) in [
        (first(field.as_bytes()), "its manifest: unknown field `\\n\\u{1b}[8m\\u{202e}aaa"),
        (first(&listed(&long)), "is longer than 255 bytes"),
        (first(&listed(&name)), "has a backslash or a control character"),
        (first(&manifest(&long, &[("policy.yaml", b"")])), "is not one of the files"),
        (gzip(&tar), "numeric field"),
        (archive(&[(&name, EntryType::Symlink, b"")]), "is not a plain file"),
        (
            archive(&[regular("manifest.json", &listed("policy.yaml")), regular(&name, b"")]),
            "where it must be",
        ),
    ] {
        malformed_because(&bundle, reason);
        let error = Bundle::open(&bundle, &[], MAX).unwrap_err().to_string();
        assert!(
            error.len() < 300 && !error.contains(char::is_control),
            "{}: {error:.400?}",
            error.len()
        );
        assert!(!error.contains('\u{202e}'), "{error:?}");
    }
}

/// Small compressed, large unpacked: at each place where an archive can be large.
#[test]
fn an_archive_bomb_is_not_unpacked() {
    let zeros = vec![0; 64 << 20];

    malformed_because(&archive(&[regular("manifest.json", &zeros)]), "is larger than it may be");
    malformed_because(
        &archive(&[("manifest.json", EntryType::GNULongName, &zeros)]),
        "not a plain file",
    );
    let (name, policy): (&str, &[u8]) = ("policy.yaml", b"version: 1\n");
    let listed = manifest(name, &[(name, policy)]);
    let first = regular("manifest.json", &listed);
    malformed_because(&archive(&[first, regular("more", &zeros)]), "is not where it must be");
    malformed_because(&archive(&[first, regular(name, &zeros)]), "is larger than it may be");
    let tar = gunzip(&archive(&[first, regular(name, policy)]));
    malformed_because(&gzip(&[tar, zeros.clone()].concat()), "larger than its manifest says");
    let listed = manifest(name, &[(name, &zeros)]);
    let bomb = archive(&[regular("manifest.json", &listed), regular(name, &zeros)]);
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    assert_eq!(Bundle::open(&bomb, &[], MAX).unwrap_err(), BundleError::TooLarge(MAX));
    let (_, public) = pair();
    assert_eq!(Bundle::open(&bomb, &[public], MAX).unwrap_err(), BundleError::Unsigned);
}

#[test]
fn names_that_cannot_be_in_a_bundle_are_not_built() {
    for name in ["../x", "/x", "manifest.json", "a//b"] {
        let files = [("policy.yaml", ""), (name, "")]
            .map(|(name, text)| (name.to_owned(), text.into()))
            .into();
        let error = build("policy.yaml", 1, &files).unwrap_err();
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    assert!(build("other.yaml", 1, &files()).is_err());
}
