//! A bundle on disk, in place of a policy file.

use std::path::Path;

use crate::bundles::Publisher;
use crate::process::{PolicyFolder, open_to_all, run};

/// A folder with a policy of several files, and its test cases.
fn policy() -> PolicyFolder {
    let policy = PolicyFolder::new(
        "version: 1\ninclude: [roles/*.yaml]\nidentity: { basic: { users_file: htpasswd } }\n",
    );
    std::fs::create_dir(policy.path().join("roles")).unwrap();
    let role = "roles:\n  authenticated: { allow: [GET /a] }\n";
    std::fs::write(policy.path().join("roles/one.yaml"), role).unwrap();
    policy.write("htpasswd", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    policy.write("cases.yaml", "- { name: a, request: { path: /a, user: ann }, expect: 200 }\n");
    policy
}

/// A signed bundle of it, with the key beside it.
fn bundle(publisher: &Publisher, policy: &PolicyFolder) -> String {
    publisher.build(policy, 1);
    let bundle = publisher.arg("bundle.tar.gz");
    let (code, _, errors) = run(&["bundle", "sign", "--key", &publisher.arg("key"), &bundle]);
    assert_eq!(code, 0, "{errors}");
    bundle
}

#[test]
fn a_bundle_works_wherever_a_policy_does() {
    let (publisher, policy) = (Publisher::new(), policy());
    let (folder, bundle, key) =
        (policy.arg(), bundle(&publisher, &policy), publisher.arg("key.pub"));
    let log = publisher.path("log");
    let line = r#"{"decision":"allowed","user":"ann","method":"GET","path":"/a","host":"localhost","rule":"x"}"#;
    std::fs::write(&log, format!("{line}\n")).unwrap();
    let log = log.display().to_string();
    let commands: [&[&str]; 9] = [
        &["check", "POLICY"],
        &["test", "POLICY"],
        &["test", "--policy", "POLICY", "CASES"],
        &["explain", "--policy", "POLICY", "--user", "ann", "GET", "/a"],
        &["who-can", "--policy", "POLICY", "GET", "/a"],
        &["what-can", "--policy", "POLICY", "--user", "ann"],
        &["diff", "POLICY", "POLICY"],
        &["replay", &log, "--policy", "POLICY"],
        &["suggest", &log, "--policy", "POLICY"],
    ];
    let cases = policy.path().join("cases.yaml").display().to_string();
    for command in commands {
        let run_with = |policy: &str, more: &[&str]| {
            let args: Vec<&str> = command
                .iter()
                .map(|arg| match *arg {
                    "POLICY" => policy,
                    "CASES" => &cases,
                    arg => arg,
                })
                .chain(more.iter().copied())
                .collect();
            run(&args)
        };
        // Only the names of files differ.
        let named = |text: String| {
            text.replace(&format!("{bundle}: "), "POLICY: ")
                .replace(&format!("{folder}/policy.yaml: "), "POLICY: ")
                .replace(&format!("{bundle}/"), "")
                .replace(&format!("{folder}/"), "")
        };
        let (code, of_folder, errors) = run_with(&folder, &[]);
        assert_eq!((code, &*errors), (0, ""), "{command:?}: {of_folder}");
        let (code, of_bundle, note) = run_with(&bundle, &[]);
        assert_eq!(code, 0, "{command:?}: {of_bundle}{note}");
        assert_eq!(named(of_bundle.clone()), named(of_folder), "{command:?}");
        assert!(note.contains("revision 1, only its hashes are verified"), "{command:?}: {note}");
        let (code, verified, errors) = run_with(&bundle, &["--public-key", &key]);
        assert_eq!((code, &*errors), (0, ""), "{command:?}: {verified}");
        assert_eq!(verified, of_bundle, "{command:?}");
        // Nothing but the bundle is signed, and a folder may be compared with one.
        let (code, _, errors) = run_with(&format!("{folder}/policy.yaml"), &["--public-key", &key]);
        let reads_a_folder = command[1] == "POLICY" && command[0] == "test";
        if !reads_a_folder {
            assert_eq!(code, 2, "{command:?}: {errors}");
            assert!(errors.contains("is only for bundles, and"), "{errors}");
        }
    }
}

#[test]
fn two_bundles_are_compared_before_one_is_published() {
    let publisher = Publisher::new();
    publisher.signed("/a", 1);
    let (old, new) = (publisher.arg("old.tar.gz"), publisher.arg("bundle.tar.gz"));
    std::fs::rename(&new, &old).unwrap();
    publisher.signed("/b", 2);
    let (code, out, _) = run(&["diff", &old, &new]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("granted: GET /b") && out.contains("revoked: GET /a"), "{out}");
    assert!(out.contains(&format!("{new}/policy.yaml:4:")), "{out}");
}

#[test]
fn what_is_wrong_with_a_bundle_is_said() {
    let publisher = Publisher::new();
    publisher.new_key("other");
    let bytes = publisher.signed("/a", 1);
    let (bundle, key) = (publisher.arg("bundle.tar.gz"), publisher.arg("key.pub"));
    let broken = publisher.arg("broken.tar.gz");
    std::fs::write(&broken, &bytes[..bytes.len() - 20]).unwrap();
    let unsigned = publisher.arg("unsigned.tar.gz");
    std::fs::write(&unsigned, publisher.unsigned(&open_to_all("/a"), 2)).unwrap();
    let (other, private) = (publisher.arg("other.pub"), publisher.arg("key"));
    std::fs::write(publisher.path("bundle.tar.gz"), bytes).unwrap();
    for (args, code, error) in [
        (vec!["check", &broken], 3, "not a valid bundle: it is truncated"),
        (vec!["check", &bundle, "--public-key", &other], 3, "which is not trusted"),
        (vec!["check", &unsigned, "--public-key", &key], 3, "the bundle is not signed"),
        (vec!["check", &bundle, "--public-key", &private], 2, "not an Ed25519 public key"),
        (vec!["check", &bundle, "--public-key", "/nonexistent"], 5, "no such file"),
        (
            vec!["check", "https://files.example/b.tar.gz?s3cret"],
            2,
            "download it, and name the file",
        ),
        (vec!["diff", "s3://bucket/b.tar.gz", &bundle], 2, "only `serve` fetches a bundle"),
        (vec!["bundle", "build", &bundle, "-o", &broken], 3, "the file is compressed (gzip)"),
        (vec!["serve", "--policy", &bundle, "--admin", "off"], 3, "unpack it (`tar xzf FILE`)"),
    ] {
        let (got, out, errors) = run(&args);
        assert_eq!(got, code, "{args:?}: {out}{errors}");
        assert!(errors.contains(error), "{args:?}: {errors}");
        assert!(!errors.contains("s3cret"), "{errors}");
    }
    let (code, out, _) = run(&["check", "--output", "json", &broken]);
    assert_eq!(code, 3);
    let problem: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(problem["problems"][0]["file"], *broken);
    assert!(Path::new(&broken).exists());
}
