//! `rolegate passwd`, and the cost of new hashes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use std::process::Stdio;

use crate::process::{rolegate, run, run_with};

/// Hashes of bcrypt with cost 4, which take no time.
const ALICE: &str = "alice:$2y$04$Fv0BSjHbqtVq0F3Q4zk0X.xJ4m9UJ3Zs0cEJFnYjlI3eyG6M6CTBa";
const BOB: &str = "bob:$2y$04$Fv0BSjHbqtVq0F3Q4zk0X.xJ4m9UJ3Zs0cEJFnYjlI3eyG6M6CTBa";

#[test]
fn a_hash_has_the_cost_that_is_asked_for() {
    for (algorithm, cost, start) in [
        ("argon2id", "m=64,t=1,p=1", "$argon2id$v=19$m=64,t=1,p=1$"),
        ("bcrypt", "5", "$2b$05$"),
        ("pbkdf2-sha256", "1000", "$pbkdf2-sha256$i=1000,"),
    ] {
        let hash = ["hash-password", "--algorithm", algorithm, "--cost", cost];
        let (code, out, err) = run_with(&hash, "correct horse\n");
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with(start), "{out}");
    }
    for (algorithm, cost, says) in [
        ("argon2id", "12", "argon2id takes a cost such as `m=19456,t=2,p=1`"),
        ("argon2id", "m=99999999,t=2,p=1", "argon2id takes a cost such as `m=19456,t=2,p=1`"),
        ("bcrypt", "17", "bcrypt takes a number from 4 to 16"),
        ("bcrypt", "high", "bcrypt takes a number from 4 to 16"),
        ("pbkdf2-sha256", "99999999", "PBKDF2 takes a number of rounds"),
    ] {
        let hash = ["hash-password", "--algorithm", algorithm, "--cost", cost];
        let (code, out, err) = run_with(&hash, "correct horse\n");
        assert_eq!((code, &*out), (2, ""), "{cost}: {err}");
        assert!(err.contains(&format!("`--cost`: {says}")), "{err}");
    }
}

#[test]
fn a_password_is_set_and_the_rest_of_the_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("users"), folder.path().join("link"));
    fs::write(&file, format!("# people\r\n{ALICE}\r\n\n{BOB}")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("users", &link).unwrap();
    let link = link.display().to_string();
    let text = || std::io::read_to_string(fs::File::open(&file).unwrap()).unwrap();

    assert_eq!(
        run_with(&["passwd", &link, "alice"], "wonderland\n"),
        (0, "password changed\n".into(), String::new())
    );
    let changed = text();
    let alice = changed.strip_prefix("# people\r\n").unwrap().split_once("\r\n").unwrap().0;
    // As the others, but not as weak.
    assert!(alice.starts_with("alice:$2b$11$"), "{changed}");
    assert_eq!(changed, format!("# people\r\n{alice}\r\n\n{BOB}"));

    let add = ["passwd", &link, "carol", "--cost", "5"];
    assert_eq!(run_with(&add, "jabberwocky\n"), (0, "user added\n".into(), String::new()));
    let added = text();
    let carol = added.strip_prefix(&format!("{changed}\r\n")).unwrap();
    assert!(carol.starts_with("carol:$2b$05$") && carol.ends_with("\r\n"), "{added}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no other file is left");

    let policy = "version: 1\nidentity: { basic: { users_file: users } }\nroles: { authenticated: { allow: [GET /] } }\n";
    fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    let policy = folder.path().display().to_string();
    for caller in ["alice:wonderland", "carol:jabberwocky"] {
        let (code, out, err) =
            run(&["explain", "--policy", &policy, "--basic", caller, "GET", "/"]);
        assert_eq!(code, 0, "{caller}: {out}{err}");
    }
}

#[test]
fn a_change_while_the_password_is_typed_is_not_undone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, format!("{ALICE}\n{BOB}\n")).unwrap();
    let mut command = rolegate(&["passwd", &file.display().to_string(), "bob"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // It waits for the rest of the line, and begins to before or after the change.
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(b"wonder").unwrap();
    fs::write(&file, format!("{BOB}\n")).unwrap();
    typed.write_all(b"land\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = std::io::read_to_string(fs::File::open(&file).unwrap()).unwrap();
    assert!(text.starts_with("bob:$2b$11$") && text.lines().count() == 1, "{text}");
}

#[test]
fn passwords_that_are_set_at_once_are_all_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "").unwrap();
    let name = file.display().to_string();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let add = [
                "passwd",
                &name,
                &format!("user-{number}"),
                "--algorithm",
                "bcrypt",
                "--cost",
                "4",
            ];
            let add = add.map(str::to_owned);
            scope.spawn(move || {
                let add: Vec<&str> = add.iter().map(|argument| &**argument).collect();
                assert_eq!(run_with(&add, "wonderland\n").0, 0);
            });
        }
    });
    let text = std::io::read_to_string(fs::File::open(&file).unwrap()).unwrap();
    assert_eq!(text.lines().count(), 8, "{text}");
}

#[test]
fn a_file_or_user_that_cannot_be_right_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let name = file.display().to_string();
    let wrong_line = format!("{BOB}\nversion 1\n");
    let twice = format!("{ALICE}\n{BOB}\n{ALICE}\n");
    for (text, user, password, code, says) in [
        (BOB, "a:b", "wonderland", 2, "a user name is not empty, has no `:`"),
        (BOB, "", "wonderland", 2, "a user name is not empty"),
        (BOB, "#alice", "wonderland", 2, "does not begin with `#`"),
        (BOB, "a\nb", "wonderland", 2, "no control character"),
        (BOB, "alice", "", 2, "a password must not be empty"),
        (&wrong_line, "alice", "wonderland", 3, "users:2:1: error: the line is not `user:hash`"),
        (&twice, "alice", "wonderland", 3, "the user is in the lines 1, 3: leave one of them"),
    ] {
        fs::write(&file, text).unwrap();
        let (ended, out, err) = run_with(&["passwd", &name, user], &format!("{password}\n"));
        assert_eq!((ended, &*out), (code, ""), "{user}: {err}");
        assert!(err.contains(says), "{err}");
        assert_eq!(std::io::read_to_string(fs::File::open(&file).unwrap()).unwrap(), text);
    }
    let nowhere = folder.path().join("nowhere/users").display().to_string();
    let (code, _, err) = run_with(&["passwd", &nowhere, "alice"], "wonderland\n");
    assert!(code == 5 && err.contains("its folder does not exist"), "{err}");
}

#[test]
fn a_missing_file_is_created_for_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let name = file.display().to_string();
    let (code, out, _) = run_with(&["passwd", &name, "a:b"], "wonderland\n");
    assert_eq!((code, &*out, file.exists()), (2, "", false));
    let (code, out, err) = run_with(&["passwd", &name, "alice"], "wonderland\n");
    assert_eq!((code, &*out), (0, "user added\n"), "{err}");
    assert!(err.contains(&format!("created `{name}`")), "{err}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::io::read_to_string(fs::File::open(&file).unwrap()).unwrap();
    assert!(text.starts_with("alice:$") && text.lines().count() == 1, "{text}");
    assert_eq!(run_with(&["passwd", &name, "bob"], "wonderland\n").2, "");
}
