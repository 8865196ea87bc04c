//! The commands that build, sign and show bundles.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use serde_json::Value;

use crate::bundles::Publisher;
use crate::process::{PolicyFolder, open_to_all, run};

/// The revision and the files of a bundle.
fn inspected(bundle: &str) -> Value {
    let (code, out, errors) = run(&["bundle", "inspect", "--output", "json", bundle]);
    assert_eq!(code, 0, "{out}{errors}");
    serde_json::from_str(&out).unwrap()
}

/// Only root can give a file to others, so as another user this tests nothing.
#[test]
fn a_bundle_that_is_replaced_keeps_its_owner_and_group() {
    let (publisher, policy) = (Publisher::new(), PolicyFolder::new(&open_to_all("/a")));
    let bundle = publisher.arg("bundle.tar.gz");
    let build = || run(&["bundle", "build", &policy.arg(), "-o", &bundle]);
    assert_eq!(build().0, 0);
    if chown(&bundle, Some(65_533), Some(65_534)).is_err() {
        return;
    }
    std::fs::set_permissions(&bundle, Permissions::from_mode(0o640)).unwrap();
    let (code, out, errors) = build();
    assert!(code == 0 && errors.is_empty(), "{out}{errors}");
    let file = std::fs::metadata(&bundle).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (65_533, 65_534, 0o640));
}

#[test]
fn two_bundles_of_one_second_have_other_revisions() {
    let (publisher, policy) = (Publisher::new(), PolicyFolder::new(&open_to_all("/a")));
    let bundles = ["one", "two", "three"].map(|name| publisher.arg(name));
    let mut revisions = Vec::new();
    for (number, bundle) in bundles.iter().enumerate() {
        policy.write("policy.yaml", &open_to_all(&format!("/{number}")));
        let (code, _, errors) = run(&["bundle", "build", &policy.arg(), "-o", bundle]);
        assert_eq!(code, 0, "{errors}");
        revisions.push(inspected(bundle)["revision"].as_u64().unwrap());
    }
    assert!(revisions.is_sorted_by(|one, next| one < next), "{revisions:?}");
    // Greater than the seconds that bundles had before.
    assert!(revisions[0] > 1_000_000_000_000, "{revisions:?}");
}

#[test]
fn a_newer_bundle_is_not_replaced_without_force() {
    let (publisher, policy) = (Publisher::new(), PolicyFolder::new(&open_to_all("/a")));
    let (bundle, folder) = (publisher.arg("bundle.tar.gz"), policy.arg());
    let build = |revision: &str, more: &[&str]| {
        run(&[&["bundle", "build", &folder, "-o", &bundle, "--revision", revision], more].concat())
    };
    assert_eq!(build("11", &[]).0, 0);
    let (code, _, errors) = run(&["bundle", "sign", "--key", &publisher.arg("key"), &bundle]);
    assert_eq!(code, 0, "{errors}");
    let (code, _, errors) = build("3", &[]);
    assert_eq!(code, 5, "{errors}");
    assert!(
        errors.contains("the bundle there is newer, of revision 11: `--force` replaces it"),
        "{errors}"
    );
    assert!(!inspected(&bundle)["signed_by"].is_null());
    // The same again, and then another one of the same revision.
    assert_eq!(build("11", &[]).0, 0);
    policy.write("policy.yaml", &open_to_all("/b"));
    let (code, _, errors) = build("11", &[]);
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains("a different bundle of revision 11 is there"), "{errors}");
    assert_eq!(build("12", &[]).0, 0);
    assert_eq!(build("3", &["--force"]).0, 0);
    assert_eq!(inspected(&bundle)["revision"], 3);
    // Not even by mistake in place of the policy.
    let file = format!("{folder}/policy.yaml");
    let (code, _, errors) = run(&["bundle", "build", &folder, "-o", &file]);
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains("the file exists and is not a bundle"), "{errors}");
}

/// The commands do not know the limit of the servers, but its default.
#[test]
fn a_bundle_too_large_for_servers_is_noticed_before_they_get_it() {
    let (publisher, policy) = (Publisher::new(), PolicyFolder::new(&open_to_all("/a")));
    let cases = std::fs::File::create(policy.path().join("cases.yaml")).unwrap();
    let (bundle, key, public) =
        (publisher.arg("bundle.tar.gz"), publisher.arg("key"), publisher.arg("key.pub"));
    for (size, is_large) in [(60 << 20, false), (64 << 20, true)] {
        cases.set_len(size).unwrap();
        let (code, _, built) = run(&["bundle", "build", &policy.arg(), "-o", &bundle]);
        assert_eq!(code, 0, "{built}");
        let (code, _, errors) = run(&["bundle", "sign", "--key", &key, &bundle]);
        assert_eq!(code, 0, "{errors}");
        let (code, _, verified) = run(&["bundle", "verify", "--public-key", &public, &bundle]);
        assert_eq!(code, 0, "{verified}");
        for errors in [built, verified] {
            assert_eq!(errors.contains("warning: "), is_large, "{errors}");
            assert_eq!(
                errors.contains("only with a larger `bundle-max-size`"),
                is_large,
                "{errors}"
            );
        }
    }
}

#[test]
fn a_key_of_the_other_kind_is_a_wrong_argument() {
    let publisher = Publisher::new();
    publisher.signed("/a", 1);
    let (bundle, key, public) =
        (publisher.arg("bundle.tar.gz"), publisher.arg("key"), publisher.arg("key.pub"));
    for (args, code, error) in [
        (["bundle", "sign", "--key", &public, &bundle], 2, "not an Ed25519 private key"),
        (["bundle", "verify", "--public-key", &key, &bundle], 2, "not an Ed25519 public key"),
        (["bundle", "inspect", "--public-key", &key, &bundle], 2, "not an Ed25519 public key"),
        (["bundle", "sign", "--key", "/nonexistent", &bundle], 5, "no such file"),
        (["bundle", "sign", "--key", &key, &public], 3, "not a valid bundle"),
        (["bundle", "verify", "--public-key", "/nonexistent", &bundle], 5, "no such file"),
    ] {
        let (got, _, errors) = run(&args);
        assert_eq!(got, code, "{args:?}: {errors}");
        assert!(errors.contains(error), "{args:?}: {errors}");
    }
}

#[test]
fn everybody_may_read_a_public_key_and_no_key_is_replaced() {
    let publisher = Publisher::new();
    let mode = |name: &str| publisher.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("key"), 0o600);
    assert_eq!(mode("key.pub") & 0o700, 0o600);
    std::fs::write(publisher.path("probe"), "").unwrap();
    assert_eq!(mode("key.pub") & 0o044, mode("probe") & 0o044);
    for exists in ["key", "key.pub"] {
        let taken = publisher.arg("next");
        std::fs::write(format!("{taken}{}", exists.strip_prefix("key").unwrap()), "in use")
            .unwrap();
        let (code, _, errors) = run(&["bundle", "new-key", &taken]);
        assert_eq!(code, 5, "{errors}");
        assert!(
            errors.contains("it exists, and servers may trust its key: name another file"),
            "{errors}"
        );
        // Neither file was made.
        let names = ["next", "next.pub"].map(|name| publisher.path(name));
        assert_eq!(names.iter().filter(|name| name.exists()).count(), 1);
        names.iter().for_each(|name| drop(std::fs::remove_file(name)));
    }
}

/// It has password hashes, and may have keys.
#[test]
fn nobody_else_may_read_a_bundle_unless_they_may_already() {
    let publisher = Publisher::new();
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let (bundle, key) = (publisher.arg("bundle.tgz"), publisher.arg("key"));
    let mode = || std::fs::metadata(&bundle).unwrap().permissions().mode() & 0o777;
    let build = || {
        let (code, _, errors) = run(&["bundle", "build", &folder.arg(), "-o", &bundle]);
        assert_eq!(code, 0, "{errors}");
    };
    build();
    assert_eq!(mode(), 0o600);
    let set = |mode| std::fs::set_permissions(&bundle, Permissions::from_mode(mode)).unwrap();
    set(0o640);
    build();
    assert_eq!(mode(), 0o640);
    let (code, _, errors) = run(&["bundle", "sign", &bundle, "--key", &key]);
    assert_eq!((code, mode()), (0, 0o640), "{errors}");
    set(0o600);
    let (code, _, errors) = run(&["bundle", "sign", &bundle, "--key", &key]);
    assert_eq!((code, mode()), (0, 0o600), "{errors}");
}

/// People inspect a bundle because a server does not accept it.
#[test]
fn a_bundle_that_is_not_accepted_is_shown_all_the_same() {
    let publisher = Publisher::new();
    publisher.new_key("other");
    publisher.signed("/a", 7);
    let (bundle, other) = (publisher.arg("bundle.tar.gz"), publisher.arg("other.pub"));
    let (code, out, errors) = run(&["bundle", "inspect", "--public-key", &other, &bundle]);
    assert_eq!(code, 1, "{out}{errors}");
    for shown in ["revision  7", ", not accepted\n", "policy.yaml"] {
        assert!(out.contains(shown), "{shown}: {out}");
    }
    assert!(errors.contains("which is not trusted"), "{errors}");
    let args = ["bundle", "inspect", "--output", "json", "--public-key", &other, &bundle];
    let (code, out, _) = run(&args);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &shown["revision"], &shown["verified"]), (1, &7.into(), &false.into()));
    assert!(shown["not_accepted"].as_str().unwrap().contains("which is not trusted"), "{shown}");
    let (code, out, _) =
        run(&["bundle", "inspect", "--public-key", &publisher.arg("key.pub"), &bundle]);
    assert!(code == 0 && out.contains(", verified\n"), "{out}");
}
