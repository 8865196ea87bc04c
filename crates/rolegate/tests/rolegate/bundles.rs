//! A policy that is fetched as a bundle: how it is activated, and what keeps the last good one
//! active.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::bundle_server::{Answer as Sent, BundleServer};
use crate::client::{Answer, Envoy, basic};
use crate::process::{PolicyFolder, Server, open_to_all, run, wait_until};

/// A place for bundles and the key that signs them.
pub(crate) struct Publisher {
    folder: TempDir,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let this = Self { folder };
        this.new_key("key");
        this
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn new_key(&self, name: &str) {
        let (code, _, errors) = run(&["bundle", "new-key", &self.arg(name)]);
        assert_eq!(code, 0, "{errors}");
    }

    pub(crate) fn unsigned(&self, policy: &str, revision: u32) -> Vec<u8> {
        self.build(&PolicyFolder::new(policy), revision)
    }

    pub(crate) fn build(&self, policy: &PolicyFolder, revision: u32) -> Vec<u8> {
        let (bundle, revision) = (self.arg("bundle.tar.gz"), revision.to_string());
        let (code, _, errors) = run(&[
            "bundle",
            "build",
            &policy.arg(),
            "-o",
            &bundle,
            "--revision",
            &revision,
            "--force",
        ]);
        assert_eq!(code, 0, "{errors}");
        read(&self.path("bundle.tar.gz"))
    }

    /// A bundle signed by this key.
    pub(crate) fn signed_by(&self, key: &str, policy: &str, revision: u32) -> Vec<u8> {
        self.unsigned(policy, revision);
        let bundle = self.arg("bundle.tar.gz");
        let (code, _, errors) = run(&["bundle", "sign", "--key", &self.arg(key), &bundle]);
        assert_eq!(code, 0, "{errors}");
        read(&self.path("bundle.tar.gz"))
    }

    /// The files in the cache, but for the one that is locked while another is replaced.
    pub(crate) fn cached(&self) -> Vec<PathBuf> {
        let files =
            std::fs::read_dir(self.path("cache")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| !file.ends_with(".bundles.lock")).collect()
    }

    /// A signed bundle that opens this path to all.
    pub(crate) fn signed(&self, path: &str, revision: u32) -> Vec<u8> {
        self.signed_by("key", &open_to_all(path), revision)
    }
}

#[expect(clippy::disallowed_methods, reason = "the files of a test are on the disk")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

pub(crate) fn result(name: &str) -> String {
    format!(r#"rolegate_bundle_fetches_total{{result="{name}"}}"#)
}

/// A rolegate that fetches from this server every second, with a cache and the key of the
/// publisher.
pub(crate) fn start(server: &BundleServer, publisher: &Publisher, more: &[&str]) -> Server {
    let (key, cache) = (publisher.arg("key.pub"), publisher.arg("cache"));
    let own = ["--bundle-interval", "1s", "--bundle-public-key", &key, "--bundle-cache", &cache];
    Server::start(&server.url(), &[&own, more].concat())
}

/// The result of a fetch is counted again.
pub(crate) fn wait_for_another(server: &Server, result_name: &str) {
    wait_for_more(server, &result(result_name));
}

/// This metric grows.
pub(crate) fn wait_for_more(server: &Server, metric: &str) {
    let before = server.metric(metric).unwrap();
    wait_until(
        || server.metric(metric).unwrap() > before,
        || format!("more of {metric}: {}\n{}", server.page("/metrics").1, server.log()),
    );
}

#[tokio::test]
async fn a_new_bundle_is_activated_and_an_unchanged_one_is_not_sent_again() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let server = start(&files, &publisher, &[]);
    assert_eq!(server.page("/readyz").0, 200, "{}", server.log());
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    wait_for_another(&server, "unchanged");
    assert_eq!(files.answered(200), 1);
    assert!(files.answered(304) > 0);
    files.answer(Sent::File(publisher.signed("/b", 2)));
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(401));
    for (metric, value) in [
        (result("activated").as_str(), 2.0),
        ("rolegate_bundle_failing_seconds", 0.0),
        ("rolegate_bundle_must_be_signed", 1.0),
        ("rolegate_bundle_cached", 1.0),
    ] {
        assert_eq!(server.metric(metric), Some(value), "{metric}: {}", server.page("/metrics").1);
    }
    assert!(server.metric("rolegate_bundle_last_success_timestamp_seconds").unwrap() > 1e9);
    server.wait_for_log_line(&["policy bundle active", r#""revision":2"#, r#""key":""#]);
}

/// All files of the policy are in the bundle, and no others are read.
#[tokio::test]
async fn a_bundle_has_all_files_of_its_policy() {
    let publisher = Publisher::new();
    let policy = PolicyFolder::new(
        "version: 1\ninclude: [roles/*.yaml]\nidentity: { basic: { users_file: users/htpasswd } }\n",
    );
    std::fs::create_dir(policy.path().join("roles")).unwrap();
    std::fs::create_dir(policy.path().join("users")).unwrap();
    std::fs::write(policy.path().join("users/htpasswd"), "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
        .unwrap();
    let role = "roles: { authenticated: { allow: [GET /a] } }\n";
    std::fs::write(policy.path().join("roles/one.yaml"), role).unwrap();
    policy.write("cases.yaml", "cases: []\n");
    policy.write("other", "not of the policy");
    let files = BundleServer::start(Sent::File(publisher.build(&policy, 1)));
    let server = Server::start(&files.url(), &[]);
    server.wait_for_log("policy bundles need no signature");
    let mut envoy = Envoy::connect(server.address()).await;
    let ann = basic("ann:password");
    assert_eq!(envoy.check("GET", "/a", &[("authorization", &ann)]).await, Answer::Http(200));
    let (_, shown, _) =
        run(&["bundle", "inspect", "--output", "json", &publisher.arg("bundle.tar.gz")]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let names =
        shown["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["cases.yaml", "policy.yaml", "roles/one.yaml", "users/htpasswd"]
    );
    assert_eq!(shown["signed_by"], serde_json::Value::Null);
    let info = format!(
        r#"rolegate_policy_info{{policy="{}",keys=""}}"#,
        shown["policy"].as_str().unwrap()
    );
    assert_eq!(server.metric(&info), Some(1.0), "the policy has another revision in the folder");
    assert_eq!(server.metric("rolegate_bundle_must_be_signed"), Some(0.0));
}

/// Runs this for all cases at once: most of it is waiting.
pub(crate) fn each_at_once<T: Send>(cases: Vec<T>, run: impl AsyncFn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let run = &run;
            let whole = async move || {
                run(case).await;
                Ok(())
            };
            scope.spawn(move || testbed::block_on(whole()).unwrap());
        }
    });
}

/// Whatever the server sends: the last good policy stays active, no request fails, a metric and a
/// log line say why; and the next good bundle is activated.
#[tokio::test]
async fn what_is_not_acceptable_leaves_the_last_good_policy_active() {
    let publisher = Publisher::new();
    let good = publisher.signed("/a", 10);
    let next = publisher.signed("/b", 11);
    each_at_once(unacceptable(&publisher, &next), async |(sent, counted, logged)| {
        let files = BundleServer::start(Sent::File(good.clone()));
        let server = start(&files, &publisher, &[]);
        let mut envoy = Envoy::connect(server.address()).await;
        files.answer(sent);
        wait_for_another(&server, counted);
        server.wait_for_log(logged);
        assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200), "{counted}");
        let (status, page) = server.page("/readyz");
        let line = "ready\nno new bundle of the policy is accepted, last fetch: ";
        assert!(
            status == 200 && page.starts_with(line) && page.contains(" is still active, "),
            "{page}"
        );
        assert!(server.metric("rolegate_bundle_failing_seconds").unwrap() > 0.0, "{counted}");
        assert_eq!(server.metric("rolegate_bundle_revision"), Some(10.0));
        files.answer(Sent::File(good.clone()));
        server.wait_for_metric("rolegate_bundle_failing_seconds", 0.0);
    });
    let files = BundleServer::start(Sent::File(good));
    let server = start(&files, &publisher, &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    files.answer(Sent::File(next));
    server.wait_for_metric("rolegate_bundle_revision", 11.0);
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
}

/// Answers that are not accepted by one that has the bundle of revision 10 of [`Publisher::signed`]
/// for `/a`: how each is counted, and what is logged. `next` would be accepted.
pub(crate) fn unacceptable(
    publisher: &Publisher,
    next: &[u8],
) -> Vec<(Sent, &'static str, &'static str)> {
    publisher.new_key("other");
    // The checksum of what is compressed.
    let mut damaged = next.to_vec();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    let other = |key: &str| publisher.signed_by(key, &open_to_all("/b"), 11);
    let broken = |policy: &str| does_not_compile(publisher, policy);
    vec![
        (Sent::Away, "failed", "policy bundle not fetched"),
        (Sent::Status(500), "failed", "status 500"),
        (Sent::Status(302), "failed", "status 302"),
        (Sent::Truncated(next.to_vec()), "failed", "policy bundle not fetched"),
        (Sent::Slow(next.to_vec()), "failed", "no complete answer within 5s"),
        (Sent::File(next[..next.len() - 20].to_vec()), "malformed", "truncated"),
        (Sent::File(damaged), "malformed", "checksum"),
        (Sent::File(b"<html>no such file</html>".to_vec()), "malformed", "not a valid bundle"),
        (Sent::Untagged(publisher.unsigned(&open_to_all("/b"), 11)), "unsigned", "is not signed"),
        (Sent::File(other("other")), "unknown_key", "is not trusted"),
        (
            Sent::File(with_other_manifest(next)),
            "wrong_signature",
            "the signature of the bundle is wrong",
        ),
        (Sent::File(publisher.signed("/b", 9)), "old_revision", "revision 9 is older than 10"),
        (
            Sent::File(publisher.signed("/b", 10)),
            "old_revision",
            "revision 10 belongs to another bundle",
        ),
        (Sent::File(archive("symlink")), "malformed", "not a plain file but Symlink"),
        (Sent::File(archive("climbing")), "malformed", "is not a plain path below the bundle"),
        (Sent::File(archive("bomb")), "malformed", "is larger than it may be"),
        (Sent::File(broken("roles: nonsense")), "does_not_compile", "its policy does not compile"),
        (
            Sent::File(broken("identity: { basic: { users_file: /etc/passwd } }")),
            "does_not_compile",
            "cannot read `/etc/passwd`: no such file",
        ),
        (
            Sent::File(broken("include: [../../../../etc/hostname]")),
            "does_not_compile",
            "etc/hostname`: no such file",
        ),
    ]
}

/// A signed bundle whose policy does not compile: `bundle build` makes none.
fn does_not_compile(publisher: &Publisher, policy: &str) -> Vec<u8> {
    let files = [("policy.yaml".to_owned(), format!("version: 1\n{policy}\n").into_bytes())].into();
    let bytes = bundle::build("policy.yaml", 11, &files).unwrap();
    std::fs::write(publisher.path("broken.tar.gz"), bytes).unwrap();
    let (code, _, errors) =
        run(&["bundle", "sign", "--key", &publisher.arg("key"), &publisher.arg("broken.tar.gz")]);
    assert_eq!(code, 0, "{errors}");
    read(&publisher.path("broken.tar.gz"))
}

/// The tar archive in a bundle, with another revision in its manifest.
fn with_other_manifest(bundle: &[u8]) -> Vec<u8> {
    let tar = gunzip(bundle);
    let at = tar.windows(15).position(|part| part.starts_with(b"\"revision\": 11")).unwrap();
    let mut tar = tar;
    tar[at + 13] = b'9';
    gzip(&tar)
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut unpacked).unwrap();
    unpacked
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, bytes).unwrap();
    gzip.finish().unwrap()
}

/// An archive that `bundle build` does not make: with a symbolic link, a name outside of the
/// bundle, or much to unpack.
fn archive(which: &str) -> Vec<u8> {
    let manifest = |name: &str| {
        let file = serde_json::json!({ "name": name, "size": 0, "sha256": "" });
        serde_json::json!({ "format": 1, "revision": 20, "policy": name, "files": [file] })
            .to_string()
    };
    let zeros = "0".repeat(64 << 20);
    let (first, second) = match which {
        "symlink" => (manifest("policy.yaml"), ("manifest.json", tar::EntryType::Symlink)),
        "climbing" => (manifest("../policy.yaml"), ("manifest.json", tar::EntryType::Regular)),
        _ => (zeros, ("manifest.json", tar::EntryType::Regular)),
    };
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_path(second.0).unwrap();
    header.set_entry_type(second.1);
    header.set_mode(0o600);
    header.set_size(first.len() as u64);
    header.set_cksum();
    tar.append(&header, first.as_bytes()).unwrap();
    gzip(&tar.into_inner().unwrap())
}

#[tokio::test]
async fn the_process_is_not_ready_before_the_first_bundle() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::Away);
    let server = start(&files, &publisher, &["--keys-wait", "100ms"]);
    assert_eq!(server.page("/readyz"), (503, "not ready: no policy bundle yet\n".to_owned()));
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Error(14));
    files.answer(Sent::File(publisher.signed("/a", 1)));
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    assert_eq!(server.page("/readyz").0, 200);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
}

#[tokio::test]
async fn a_restart_without_the_server_uses_the_cached_bundle() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 5)));
    let server = start(&files, &publisher, &[]);
    server.wait_for_log_line(&[
        "the folder of `bundle-cache` did not exist: created",
        &publisher.arg("cache"),
    ]);
    drop(server);
    let cached = publisher.cached();
    assert_eq!(cached.len(), 1, "{cached:?}");
    assert_eq!(cached[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);

    files.answer(Sent::Away);
    let server = start(&files, &publisher, &[]);
    server.wait_for_log("the cached policy bundle is used");
    assert_eq!(server.page("/readyz").0, 200);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    assert_eq!(server.metric("rolegate_bundle_cached"), Some(1.0));
    // Not even after a restart is an older one accepted.
    files.answer(Sent::File(publisher.signed("/b", 4)));
    wait_for_another(&server, "old_revision");
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    drop(server);

    // Whoever can write to the cache cannot choose the policy.
    files.answer(Sent::Away);
    for (bytes, logged) in [
        (publisher.unsigned(&open_to_all("/b"), 6), "the bundle is not signed"),
        (read(&cached[0])[..100].to_vec(), "truncated"),
    ] {
        std::fs::write(&cached[0], bytes).unwrap();
        let server = start(&files, &publisher, &["--keys-wait", "100ms"]);
        server.wait_for_log_line(&["the cached policy bundle is not accepted", logged]);
        assert_eq!(server.page("/readyz").0, 503);
        let mut envoy = Envoy::connect(server.address()).await;
        assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Error(14));
    }
}

/// The limit of the size of files stands for a full disk: a write fails after the file was created.
#[tokio::test]
async fn a_full_disk_costs_only_the_cache() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let (key, cache) = (publisher.arg("key.pub"), publisher.arg("cache"));
    let mut command = Command::new("sh");
    // The signal that a write beyond the limit sends would end the process; a full disk sends none.
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 0; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_rolegate"),
    ]);
    command.args([
        "serve",
        "--policy",
        &files.url(),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    command.args([
        "--bundle-interval",
        "1s",
        "--bundle-public-key",
        &key,
        "--bundle-cache",
        &cache,
    ]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.env_clear().stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader)).map(Result::unwrap);
    let mut wait_for = |text: &str| lines.find(|line| line.contains(text)).unwrap_or_default();
    let admin: serde_json::Value = serde_json::from_str(&wait_for("admin pages")).unwrap();
    assert!(!wait_for("is not cached: a restart needs the server").is_empty());
    let listening: serde_json::Value = serde_json::from_str(&wait_for("\"listening\"")).unwrap();
    let mut envoy = Envoy::connect(listening["address"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    let admin = admin["address"].as_str().unwrap().parse().unwrap();
    let (_, page) = crate::process::http_get(admin, "/metrics").unwrap();
    assert!(page.contains("rolegate_bundle_cached 0"), "{page}");
    assert_eq!(publisher.cached().len(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// First the new key is trusted too, then bundles are signed by it, then the old one is trusted no
/// more: nothing is restarted.
#[tokio::test]
async fn keys_are_rotated_without_a_restart() {
    let publisher = Publisher::new();
    publisher.new_key("next");
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    std::fs::copy(publisher.path("key.pub"), publisher.path("second.pub")).unwrap();
    let server = start(&files, &publisher, &["--bundle-public-key", &publisher.arg("second.pub")]);
    files.answer(Sent::File(publisher.signed_by("next", &open_to_all("/b"), 2)));
    wait_for_another(&server, "unknown_key");
    // The same bundle is accepted once the key is trusted.
    let next = read(&publisher.path("next.pub"));
    std::fs::write(publisher.path("second.pub"), &next).unwrap();
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
    std::fs::write(publisher.path("key.pub"), &next).unwrap();
    files.answer(Sent::File(publisher.signed("/c", 3)));
    wait_for_another(&server, "unknown_key");
    // A file without a key accepts nothing, also not with another one beside it.
    std::fs::write(publisher.path("second.pub"), "").unwrap();
    files.answer(Sent::File(publisher.signed_by("next", &open_to_all("/c"), 4)));
    server.wait_for_log("not an Ed25519 public key");
    assert_eq!(server.metric("rolegate_bundle_revision"), Some(2.0));
}

#[tokio::test]
async fn the_server_is_asked_with_credentials_that_no_log_shows() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let credentials = publisher.path("credentials");
    std::fs::write(&credentials, "fetcher:s3cret-password\n").unwrap();
    let server =
        start(&files, &publisher, &["--bundle-credentials", &publisher.arg("credentials")]);
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    assert!(
        files.requests()[0].head.contains("authorization: Basic ZmV0Y2hlcjpzM2NyZXQtcGFzc3dvcmQ=")
    );
    std::fs::write(&credentials, "t0ken-of-a-machine\n").unwrap();
    let asked = |value: &str| files.requests().iter().any(|request| request.head.contains(value));
    wait_until(
        || asked("authorization: Bearer t0ken-of-a-machine"),
        || format!("{:?}", files.requests()),
    );
    files.answer(Sent::Status(403));
    server.wait_for_log("status 403");
    for secret in ["s3cret-password", "ZmV0Y2hlcjpz", "t0ken-of-a-machine"] {
        assert!(!server.log().contains(secret), "{}", server.log());
    }
}

#[test]
fn a_url_that_may_not_be_fetched_is_an_error_at_the_start() {
    let publisher = Publisher::new();
    std::fs::write(publisher.path("nonsense"), "nonsense").unwrap();
    for (url, more, error) in [
        (
            "http://files.example/b?sig=s3cret-token",
            &[][..],
            "`http` is accepted only on a loopback address",
        ),
        ("https://u:s3cret-token@files.example/b", &[], "the URL has a user or password"),
        ("ftp://files.example/b?s3cret-token", &[], "the URL is not one of `https`"),
        (
            "https://files.example/b",
            &["--bundle-public-key", &publisher.arg("nonsense")],
            "not an Ed25519 public key",
        ),
        (
            "https://files.example/b",
            &["--bundle-public-key", &publisher.arg("missing")],
            "no such file",
        ),
        (
            "https://files.example/b",
            &["--bundle-ca", &publisher.arg("nonsense")],
            "no certificate in PEM",
        ),
    ] {
        let args = ["serve", "--policy", url, "--listen", "127.0.0.1:0", "--admin", "off"];
        let (code, out, errors) = run(&[&args, more].concat());
        assert_eq!(code, 2, "{errors}");
        let last = errors.lines().last().unwrap();
        assert!(
            last.contains("cannot start: the bundle") && last.contains(error),
            "{error}: {errors}"
        );
        assert!(!(out + &errors).contains("s3cret-token"));
    }
}

/// A request for a reload (SIGHUP) asks the server at once.
#[tokio::test]
async fn a_reload_that_is_requested_fetches_at_once() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let server = Server::start(&files.url(), &["--bundle-interval", "1h"]);
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    files.answer(Sent::File(publisher.signed("/b", 2)));
    server.signal(Signal::HUP);
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
}

#[tokio::test]
async fn a_policy_that_cannot_be_fetched_becomes_stale() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let server =
        start(&files, &publisher, &["--max-policy-age", "1s", "--on-stale", "unavailable"]);
    let mut envoy = Envoy::connect(server.address()).await;
    files.answer(Sent::Away);
    server.wait_for_metric("rolegate_policy_stale", 1.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Error(14));
    files.answer(Sent::File(publisher.signed("/a", 1)));
    server.wait_for_metric("rolegate_policy_stale", 0.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
}

/// All follow a new bundle within one interval; what has not changed is not sent again.
#[test]
fn ten_rolegates_follow_one_file_server() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let key = publisher.arg("key.pub");
    let args = ["--bundle-interval", "1s", "--bundle-public-key", &key, "--threads", "1"];
    let servers: Vec<Server> = (0..10).map(|_| Server::start(&files.url(), &args)).collect();
    assert_eq!(files.answered(200), servers.len());
    files.answer(Sent::File(publisher.signed("/b", 2)));
    for server in &servers {
        server.wait_for_metric("rolegate_bundle_revision", 2.0);
    }
    assert_eq!(files.answered(200), 2 * servers.len());
}
