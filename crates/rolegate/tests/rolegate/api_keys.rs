//! API keys: `new-api-key`, and what becomes of a key in a running process.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use load::check_message::Checked;
use prost::Message as _;
use serde_json::Value;

use crate::client::{Answer, Envoy, basic};
use crate::process::{PolicyFolder, Server, run, run_with};

const POLICY: &str = r#"version: 1
identity:
  basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } }
  api_keys: { file: keys.yaml, user_prefix: "key:", group_prefix: "key:" }
roles:
  anyone: { allow: [GET /open] }
  deployer: { allow: ["GET /a"] }
grants:
  deployer: { groups: ["key:deploy"] }
"#;

/// The headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// A policy with a file of keys, and a key of the user `ci` in the group `deploy`.
fn policy() -> (PolicyFolder, String) {
    let folder = PolicyFolder::new(POLICY);
    let key = new_key(&folder.path().join("keys.yaml"), &["--group", "deploy"]);
    (folder, key)
}

/// Adds a key of the user `ci` to a file.
fn new_key(file: &Path, more: &[&str]) -> String {
    let file = file.display().to_string();
    let (code, out, err) =
        run(&[&["new-api-key", "--user", "ci", "--file", &file][..], more].concat());
    assert_eq!(code, 0, "{out}{err}");
    let key = out.strip_suffix('\n').unwrap();
    assert!(key.len() == 45 && !key.contains(char::is_whitespace), "{out}");
    key.to_owned()
}

/// The part of a key before `_`.
fn id(key: &str) -> &str {
    key.split_once('_').unwrap().0
}

/// The part of a key after `_`.
fn secret(key: &str) -> &str {
    key.split_once('_').unwrap().1
}

fn text(file: &Path) -> String {
    fs::File::open(file).and_then(std::io::read_to_string).unwrap()
}

#[test]
fn a_key_is_added_and_the_rest_of_the_file_stays() {
    let folder = PolicyFolder::new(POLICY);
    let (file, link) = (folder.path().join("keys.yaml"), folder.path().join("link"));
    let first = new_key(&file, &["--group", "deploy"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let one = text(&file);
    assert!(one.starts_with(&format!("keys:\n  {}: {{ sha256: \"", id(&first))), "{one}");
    // As an editor leaves it: comments, other indentation and line ends, no last line end.
    let entry = one.lines().nth(1).unwrap().trim();
    let edited = format!("# ours\r\nkeys:\r\n    # the first\r\n    {entry} # of Ann");
    fs::write(&file, &edited).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("keys.yaml", &link).unwrap();
    let second = new_key(&link, &["--group", "deploy", "--expires", "2090-01-31"]);
    let two = text(&file);
    let added = two.strip_prefix(&format!("{edited}\r\n    {}: ", id(&second))).unwrap();
    assert!(added.ends_with(", expires: \"2090-01-31\" }\r\n"), "{two}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    fs::remove_file(&link).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no other file is left");
    for key in [&first, &second] {
        let secret = secret(key);
        assert!(!two.contains(secret));
        let explain = ["explain", "--policy", &folder.arg(), "--api-key"];
        let (code, out, err) = run(&[&explain[..], &[key.as_str(), "GET", "/a"]].concat());
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains("key:ci") && !out.contains(secret), "{out}");
        let (code, ..) = run_with(&[&explain[..], &["-", "GET", "/a"]].concat(), key);
        assert_eq!(code, 0);
    }
    for none in ["keys: {} # yet\n", "# yet\n", "\n"] {
        fs::write(&file, none).unwrap();
        let key = new_key(&file, &[]);
        assert!(text(&file).contains(&format!("\n  {}: {{", id(&key))), "{}", text(&file));
    }
}

#[test]
fn a_file_that_cannot_be_edited_is_unchanged() {
    let folder = PolicyFolder::new(POLICY);
    let file = folder.path().join("keys.yaml");
    new_key(&file, &["--group", "deploy"]);
    let good = text(&file);
    let in_braces = good.replace("keys:\n  ", "keys: { ").replace(" }\n", " } }\n");
    let cases: [(&str, &[&str], i32, &str); 7] = [
        (&in_braces, &["--group", "deploy"], 3, "below it each entry on lines of its own"),
        (&good, &[], 3, "the user `ci` has other groups with another key"),
        (&good, &["--expires", "2027-02-30"], 2, "`--expires` takes the last day"),
        (&good, &["--group", ""], 2, "names of users and groups are not empty"),
        ("keys: [a]\n", &[], 3, "keys.yaml:1:7: error: the keys must be a mapping"),
        ("users: {}\n", &[], 3, "unknown key"),
        (&good, &["--expires", "2020-01-01"], 2, "the key would never work"),
    ];
    for (contents, more, code, says) in cases {
        fs::write(&file, contents).unwrap();
        let name = file.display().to_string();
        let args = [&["new-api-key", "--user", "ci", "--file", &name][..], more].concat();
        let (got, out, err) = run(&args);
        assert_eq!((got, &*out), (code, ""), "{says}: {err}");
        assert!(err.contains(says), "{says}: {err}");
        assert_eq!(text(&file), contents);
    }
    // A comment has the text, too.
    fs::write(&file, "# keys: {}\nkeys: {}\n").unwrap();
    new_key(&file, &[]);
    assert!(text(&file).starts_with("# keys: {}\nkeys:\n  "), "{}", text(&file));
    let nowhere = folder.path().join("nowhere/keys.yaml").display().to_string();
    let (code, out, err) = run(&["new-api-key", "--user", "ci", "--file", &nowhere]);
    assert_eq!((code, &*out), (5, ""));
    assert!(err.contains("its folder does not exist"), "{err}");
}

/// What the answer changes in an allowed request: the names of removed headers.
async fn removed(envoy: &mut Envoy, headers: &[(&str, &str)]) -> Vec<String> {
    let checked =
        Checked { method: "GET", path: "/a", headers, raw_headers: false, ..Checked::default() };
    let reply = envoy.send(checked).await;
    let answer = CheckResponse::decode(reply.body.get(5..).unwrap()).unwrap();
    match answer.http_response.unwrap() {
        HttpResponse::OkResponse(ok) => ok.headers_to_remove,
        HttpResponse::DeniedResponse(_) | HttpResponse::ErrorResponse(_) => panic!("denied"),
    }
}

#[tokio::test]
async fn a_key_is_accepted_until_it_is_removed_and_shown_nowhere() {
    let (folder, key) = policy();
    let server = Server::start(
        &folder.arg(),
        &["--poll-interval", "0", "--decision-log", "all", "--log-level", "debug"],
    );
    let mut envoy = Envoy::connect(server.address()).await;
    let wrong = format!("{}_s3cret", id(&key));
    let ann = basic("ann:password");
    let right = ("x-api-key", key.as_str());
    let (huge, joined) = ("x".repeat(50_000), format!("{key}, {key}"));
    let requests: [(&str, Headers<'_>, i32); 10] = [
        ("/a", &[right], 200),
        ("/a", &[("X-Api-Key", &*key)], 200),
        ("/b", &[right], 403),
        ("/open", &[("x-api-key", &*wrong)], 401),
        ("/open", &[("x-api-key", "unknown_s3cret")], 401),
        ("/open", &[("x-api-key", "s3cret")], 401),
        ("/open", &[("x-api-key", &huge)], 401),
        ("/a", &[("authorization", &*key)], 401),
        ("/open", &[right, ("authorization", &ann)], 400),
        ("/open", &[("x-api-key", &joined)], 400),
    ];
    for (path, headers, status) in requests {
        assert_eq!(envoy.check("GET", path, headers).await, Answer::Http(status), "{path}");
    }
    assert_eq!(removed(&mut envoy, &[right]).await, ["x-api-key"]);
    assert_eq!(removed(&mut envoy, &[right, ("x_api_key", "s3cret")]).await.len(), 2);
    let lines = server.wait_for_decisions(12);
    let of = |name: &str| {
        lines.iter().map(|line| line[name].as_str().unwrap_or("-")).collect::<Vec<_>>()
    };
    assert_eq!(of("scheme")[..7], ["api_key"; 7]);
    assert_eq!(of("user")[..4], ["key:ci", "key:ci", "key:ci", "-"]);
    assert_eq!(of("attempted_user")[3..6], ["key:ci", "-", "-"]);
    assert_eq!(of("reason")[3..7], ["bad_api_key"; 4]);
    assert_eq!(
        of("reason")[7..10],
        ["unsupported_scheme", "several_credentials", "several_credentials"]
    );
    let counted = |result: &str| {
        let labels = format!("{{scheme=\"api_key\",result=\"{result}\"}}");
        server.metric(&format!("rolegate_credentials_total{labels}"))
    };
    assert_eq!((counted("valid"), counted("bad_api_key")), (Some(5.0), Some(4.0)));

    // A file that is broken or cut short keeps the keys; a removed key is not valid any more.
    let failed = r#"rolegate_policy_reloads_total{result="failed"}"#;
    for (number, broken) in [(1.0, ""), (2.0, "keys: { rk1: { sha256: s3cret } }\n")] {
        folder.write("keys.yaml", broken);
        server.wait_for_metric(failed, number);
        assert_eq!(envoy.check("GET", "/a", &[right]).await, Answer::Http(200));
    }
    folder.write("keys.yaml", "keys: {}\n");
    server.wait_for_metric(r#"rolegate_policy_reloads_total{result="ok"}"#, 1.0);
    assert_eq!(envoy.check("GET", "/a", &[right]).await, Answer::Http(401));
    server.wait_for_log_line(&["policy changed", "api_keys_removed=1"]);
    let (_, metrics) = server.page("/metrics");
    for text in [server.log(), server.out(), metrics] {
        assert!(!text.contains("s3cret") && !text.contains(secret(&key)), "{text}");
    }
}

/// The copy of a request has the id and the hash of the key: another key under the same id is
/// another caller.
#[tokio::test]
async fn a_shadow_policy_knows_callers_by_their_keys() {
    let ((active, key), (shadow, _)) = (policy(), policy());
    let same = text(&active.path().join("keys.yaml"));
    shadow.write("keys.yaml", &same);
    let shadow_folder = shadow.arg();
    let server =
        Server::start(&active.arg(), &["--poll-interval", "0", "--shadow", &shadow_folder]);
    let mut envoy = Envoy::connect(server.address()).await;
    let mut compared = async |difference: &str| {
        let metric = format!(r#"rolegate_shadow_checks_total{{result="{difference}"}}"#);
        let answer = envoy.check("GET", "/a", &[("x-api-key", &key)]).await;
        assert_eq!(answer, Answer::Http(200));
        server.wait_for_metric(&metric, 1.0);
    };
    compared("same").await;
    let hash = same.split('"').nth(1).unwrap();
    let other = same.replace(hash, &"0".repeat(64));
    shadow.write("keys.yaml", &other);
    server.wait_for_metric(r#"rolegate_shadow_policy_reloads_total{result="ok"}"#, 1.0);
    compared("unknown_caller").await;
}

#[test]
fn people_are_told_about_callers_with_keys() {
    let (folder, key) = policy();
    let asked = |args: &[&str]| {
        let (code, out, err) =
            run(&[&[args[0], "--policy", &folder.arg()][..], &args[1..]].concat());
        (code, out + &err)
    };
    let (code, out) = asked(&["who-can", "GET", "/a"]);
    assert!(code == 0 && out.starts_with("the user `key:ci` by API key\n"), "{out}");
    let (code, out) = asked(&["what-can", "--user", "key:ci"]);
    assert!(code == 0 && out.contains("deployer: GET /a"), "{out}");
    let (code, out) = asked(&["explain", "--user", "key:ci", "GET", "/a"]);
    assert!(code == 0 && out.contains("key:deploy"), "{out}");
    let (code, out) = asked(&["explain", "--user", "key:cii", "GET", "/a"]);
    assert!(code == 1 && out.contains("did you mean `key:ci`?"), "{out}");
    assert!(out.contains("bad_api_key"), "{out}");
    let (code, out) = asked(&["explain", "--user", "key:ci", "--role", "deployer", "GET", "/a"]);
    assert!(code == 2 && out.contains("with an API key has only the roles"), "{out}");
    let wrong = format!("{}_s3cret", id(&key));
    let (code, out) = asked(&["explain", "--api-key", &wrong, "GET", "/a"]);
    assert!(code == 1 && out.contains("bad_api_key") && !out.contains("s3cret"), "{out}");
    assert!(out.contains(&format!("the secret after the id `{}` is wrong", id(&key))), "{out}");
    let line = |user: &str, path: &str| {
        format!(
            "{{\"time\":1.0,\"decision\":\"allowed\",\"rule\":\"deployer: GET /a\",\"user\":\"{user}\",\"scheme\":\"api_key\",\
             \"groups\":[\"key:deploy\"],\"method\":\"GET\",\"host\":\"a\",\"path\":\"{path}\"}}\n"
        )
    };
    let (code, out, err) =
        run_with(&["replay", "-", "--policy", &folder.arg()], &line("key:ci", "/a"));
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) =
        run_with(&["replay", "-", "--policy", &folder.arg()], &line("key:gone", "/a"));
    assert!(code == 1 && out.contains("bad_api_key"), "{out}{err}");
}

/// The last key of a user counts.
#[test]
fn who_can_says_until_when_a_key_is_valid() {
    let folder = PolicyFolder::new(POLICY);
    let mut keys = "keys:\n".to_owned();
    for (id, user, expires) in [
        ("a", "bot", ", expires: \"2027-01-31\""),
        ("b", "bot", ""),
        ("c", "ci", ", expires: \"2027-03-31\""),
        ("d", "ci", ", expires: \"2027-01-31\""),
        ("e", "cd", ", expires: \"2027-03-31\""),
        ("f", "old", ", expires: \"2027-01-31T18:00:00Z\""),
    ] {
        let hash = "0".repeat(64);
        keys +=
            &format!("  {id}: {{ sha256: \"{hash}\", user: {user}, groups: [deploy]{expires} }}\n");
    }
    folder.write("keys.yaml", &keys);
    let bot = "the user `key:bot` by API key";
    let old = "the user `key:old` by API key, until 2027-01-31T18:00:00Z";
    let both = "the users `key:cd` and `key:ci` by API key, until 2027-04-01T00:00:00Z";
    for (time, wanted) in [
        (&[][..], &[bot, old, both][..]),
        (&["--time", "2027-01-31T17:59:59Z"], &[bot, old, both]),
        (&["--time", "2027-01-31T18:00:00Z"], &[bot, both]),
        (&["--time", "2027-04-01T00:00:00Z"], &[bot]),
    ] {
        let who_can = ["who-can", "--policy", &folder.arg(), "GET", "/a"];
        let (code, out, err) = run(&[&who_can[..], time].concat());
        let callers = out.lines().take_while(|line| !line.starts_with("request:"));
        assert_eq!((code, callers.collect::<Vec<_>>()), (0, wanted.to_vec()), "{out}{err}");
    }
}

#[test]
fn a_changed_key_is_a_difference_without_its_hash() {
    let ((old, _), (new, _)) = (policy(), policy());
    let (code, out, err) = run(&["diff", "--output", "json", &old.arg(), &new.arg()]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("identity.api_keys") && out.contains("keys.rk"), "{out}");
    let hash = text(&new.path().join("keys.yaml"));
    let hash = hash.split('"').nth(1).unwrap();
    assert!(!out.contains(hash), "{out}");
    let _: Value = serde_json::from_str(&out).unwrap();
}

#[test]
fn a_bundle_has_the_file_of_keys() {
    let (folder, _) = policy();
    let bundle = folder.path().join("bundle.tar.gz").display().to_string();
    let (code, out, err) = run(&["bundle", "build", &folder.arg(), "-o", &bundle]);
    assert_eq!(code, 0, "{out}{err}");
    let (_, out, _) = run(&["bundle", "inspect", &bundle]);
    assert!(out.contains("keys.yaml"), "{out}");
}
