//! How a policy changes under a running server.

use std::io::Write as _;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::client::{Answer, Envoy, basic};
use crate::process::{PolicyFolder, Server, open_to_all, wait_until};

const OK: &str = r#"rolegate_policy_reloads_total{result="ok"}"#;
const FAILED: &str = r#"rolegate_policy_reloads_total{result="failed"}"#;
const UNCHANGED: &str = r#"rolegate_policy_reloads_total{result="unchanged"}"#;

#[tokio::test]
async fn a_changed_file_is_activated() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(401));
    folder.write("policy.yaml", &open_to_all("/b"));
    server.wait_for_metric(OK, 1.0);
    assert_eq!(
        envoy.check("GET", "/b", &[]).await,
        Answer::Http(200),
        "the same connection sees the new policy"
    );
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(401));
    server.wait_for_log("policy reloaded");
}

/// Its entry under `users`, with its groups, is still there: that must not keep the old policy
/// active.
#[tokio::test]
async fn a_user_whose_line_is_deleted_from_the_users_file_has_no_access() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { users_file: htpasswd, users: { ann: { groups: [staff] } } } }\n\
         roles: { staff: { allow: [GET /a] } }\ngrants: { staff: { groups: [staff] } }\n",
    );
    folder.write(
        "htpasswd",
        "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
    );
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let ann = basic("ann:password");
    assert_eq!(envoy.check("GET", "/a", &[("authorization", &ann)]).await, Answer::Http(200));
    folder.write("htpasswd", "bob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    server.wait_for_metric(OK, 1.0);
    assert_eq!(envoy.check("GET", "/a", &[("authorization", &ann)]).await, Answer::Http(401));
    server.wait_for_log("the policy has warnings: see `rolegate check`");
}

/// A large policy takes seconds to load, and a password milliseconds to hash, so worker threads
/// come first: the threads that hash have niceness 5, those that load policies 10
/// (proc_pid_stat(5), field 19). None has another scheduling policy (field 41): a thread of
/// `SCHED_IDLE` gets no time at all on a busy processor, and delays the end of the process.
#[cfg(target_os = "linux")]
#[test]
fn worker_threads_come_before_loading_and_hashing() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &[]);
    let of = |name: &str| {
        threads(server.id())
            .find(|(of, _)| of == name)
            .map(|(_, niceness)| niceness)
            .unwrap_or_default()
    };
    for (thread, more) in [("hash-0", 5), ("policy", 10), ("policy-load", 10)] {
        let nice = (of("worker-0").0 + more).min(19);
        wait_until(
            || of(thread).0 == nice,
            || format!("{thread}: nice {nice}, not {:?}", of(thread)),
        );
        assert_eq!(of(thread).1, 0, "{thread}");
    }
    assert_eq!(of("worker-0").1, 0);
}

/// Name, nice value and scheduling policy of each thread.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "what the system says of the process is read")]
fn threads(process: u32) -> impl Iterator<Item = (String, (i32, i32))> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let field = |number: usize| rest.split_whitespace().nth(number - 3)?.parse().ok();
        Some((name.to_owned(), (field(19)?, field(41)?)))
    })
}

/// A watch applies to the folder that was at the path when it began. A folder that replaces it must
/// be watched anew; polling is off here.
#[tokio::test]
async fn a_folder_in_place_of_another_is_watched() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("policy");
    let new = |at: &std::path::Path, path: &str| {
        std::fs::create_dir(at).unwrap();
        std::fs::write(at.join("policy.yaml"), open_to_all(path)).unwrap();
    };
    new(&folder, "/start");
    let server = Server::start(&folder.display().to_string(), &["--poll-interval", "0"]);
    let mut envoy = Envoy::connect(server.address()).await;
    type Change<'a> = &'a dyn Fn(&str);
    let replacements: [(&str, Change<'_>); 3] = [
        ("removed", &|path| {
            std::fs::remove_dir_all(&folder).unwrap();
            new(&folder, path);
        }),
        ("moved", &|path| {
            new(&outer.path().join("next"), path);
            std::fs::rename(&folder, outer.path().join(path.trim_start_matches('/'))).unwrap();
            std::fs::rename(outer.path().join("next"), &folder).unwrap();
        }),
        ("away", &|path| {
            std::fs::remove_dir_all(&folder).unwrap();
            // Longer than the pause after a change, so that the files are checked while the folder
            // is missing.
            std::thread::sleep(std::time::Duration::from_millis(300));
            new(&folder, path);
        }),
    ];
    for (how, replace) in replacements {
        for (path, change) in [
            ("first", replace),
            ("then", &|path: &str| {
                std::fs::write(folder.join("policy.yaml"), open_to_all(path)).unwrap();
            }),
        ] {
            let path = format!("/{how}-{path}");
            let before = server.metric(OK).unwrap();
            change(&path);
            wait_until(|| server.metric(OK) > Some(before), || format!("{path}: {}", server.log()));
            assert_eq!(envoy.check("GET", &path, &[]).await, Answer::Http(200), "{path}");
        }
    }
}

/// A link further up is not watched, nor can some network file systems be: polling finds the
/// change. Half of a file may be a policy that allows more.
#[tokio::test]
async fn a_file_is_read_once_it_is_written() {
    let (head, tail) = ("roles:\n  anyone: { allow: [GET /**]", ", deny: [GET /a] }\n");
    let whole = format!("version: 1\n{head}{tail}");
    let folder = PolicyFolder::new(&whole);
    let server = Server::start(&folder.arg(), &["--poll-interval", "50ms"]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(401));
    let mut file = std::fs::File::create(folder.path().join("policy.yaml")).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(1);
    write!(file, "version: 1\n{head} }}\n").unwrap();
    while std::time::Instant::now() < until {
        assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(401));
    }
    drop(file);
    wait_until(|| server.log().contains("policy reloaded"), || server.log());
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    let _open =
        std::fs::File::options().append(true).open(folder.path().join("policy.yaml")).unwrap();
    folder.write("policy.yaml", &whole);
    server.wait_for_logs("policy reloaded", 2);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(401));
}

#[tokio::test]
async fn polling_finds_a_change_that_no_watch_reports() {
    let (first, second) =
        (PolicyFolder::new(&open_to_all("/a")), PolicyFolder::new(&open_to_all("/b")));
    let outer = tempfile::tempdir().unwrap();
    let link = outer.path().join("link");
    symlink(first.path(), &link).unwrap();
    let server = Server::start(&link.display().to_string(), &["--poll-interval", "100ms"]);
    symlink(second.path(), outer.path().join("new")).unwrap();
    std::fs::rename(outer.path().join("new"), &link).unwrap();
    server.wait_for_metric(OK, 1.0);
    assert_eq!(crate::client::check(server.address(), "GET", "/b", &[]).await, Answer::Http(200));
}

#[tokio::test]
async fn the_last_good_policy_is_kept_if_the_new_one_does_not_load() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let revision = revision(&server);
    folder.write("policy.yaml", "version: 1\nroles:\n  anyone: { alow: [\"GET /b\"] }\n");
    server.wait_for_metric(FAILED, 1.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    assert_eq!(server.page("/readyz").0, 200);
    assert!(server.metric("rolegate_policy_failing_seconds") > Some(0.0));
    assert_eq!(self::revision(&server), revision);
    server.wait_for_log("policy.yaml:3:13");
    server.wait_for_log("the last good one stays active");
    std::fs::remove_file(folder.path().join("policy.yaml")).unwrap();
    server.wait_for_metric(FAILED, 2.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    folder.write("policy.yaml", &open_to_all("/b"));
    server.wait_for_metric(OK, 1.0);
    assert_eq!(server.metric("rolegate_policy_failing_seconds"), Some(0.0));
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
}

/// Whoever requests a reload to see why a change has no effect must not be told that nothing has
/// changed.
#[test]
fn a_requested_reload_says_again_why_the_files_do_not_load() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    folder.write("new", "version: 1\nroles:\n  anyone: { alow: [\"GET /b\"] }\n");
    std::fs::rename(folder.path().join("new"), folder.path().join("policy.yaml")).unwrap();
    server.wait_for_metric(FAILED, 1.0);
    server.signal(Signal::HUP);
    server.wait_for_metric(FAILED, 2.0);
    server.wait_for_logs("policy.yaml:3:13", 2);
    server.wait_for_logs("the last good one stays active", 2);
    assert_eq!(server.metric(UNCHANGED), Some(0.0));
    folder.write("policy.yaml", &open_to_all("/a"));
    server.wait_for_metric(OK, 1.0);
    server.signal(Signal::HUP);
    server.wait_for_metric(UNCHANGED, 1.0);
}

/// Whoever has broken a policy and mended it learns from the log that it loads, also if it is the
/// one from before.
#[test]
fn the_log_says_which_files_changed_and_that_a_mended_policy_loads_again() {
    let folder = PolicyFolder::new(
        "version: 1\ninclude: [\"roles/*.yaml\"]\nidentity: { basic: { users_file: htpasswd } }\n",
    );
    let write = |name: &str, text: &str| {
        folder.write("new", text);
        std::fs::rename(folder.path().join("new"), folder.path().join(name)).unwrap();
    };
    std::fs::create_dir(folder.path().join("roles")).unwrap();
    write("roles/a.yaml", "roles: { anyone: { allow: [\"GET /a\"] } }\n");
    write("htpasswd", "u:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    let changed = |names: &[&str], message: &str| {
        let names: Vec<String> =
            names.iter().map(|name| folder.path().join(name).display().to_string()).collect();
        server.wait_for_log_line(&[&format!("\"files\":\"{}\"", names.join(", ")), message]);
    };
    // Broken, and mended to what it was.
    write("roles/a.yaml", "roles: { anyone: { alow: [] } }\n");
    server.wait_for_metric(FAILED, 1.0);
    write("roles/a.yaml", "roles: { anyone: { allow: [\"GET /a\"] } }\n");
    server.wait_for_log("the policy loads again");
    assert!(!server.log().contains("policy changed"), "{}", server.log());
    // Two files are changed, one of them is broken and mended.
    write("roles/a.yaml", "roles: { anyone: { alow: [] } }\n");
    server.wait_for_metric(FAILED, 2.0);
    write("htpasswd", "v:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    server.wait_for_metric(FAILED, 3.0);
    write("roles/a.yaml", "roles: { anyone: { allow: [\"GET /b\"] } }\n");
    server.wait_for_logs("the policy loads again", 2);
    changed(&["htpasswd", "roles/a.yaml"], "policy changed");
    // Renamed: the same policy, with the same revision.
    std::fs::rename(folder.path().join("roles/a.yaml"), folder.path().join("roles/b.yaml"))
        .unwrap();
    changed(&["roles/a.yaml", "roles/b.yaml"], "policy unchanged");
    // A file that is not part of the policy.
    write("roles/README", "");
    changed(&["roles"], "policy unchanged");
    assert!(!server.log().contains("\"files\":\"\""), "{}", server.log());
}

fn revision(server: &Server) -> String {
    let (_, page) = server.page("/metrics");
    page.lines().find(|line| line.starts_with("rolegate_policy_info{")).unwrap().to_owned()
}

/// A ConfigMap is a folder of links through `..data`, which Kubernetes swaps for another in one
/// step.
#[tokio::test]
async fn a_swapped_config_map_is_activated() {
    let folder = tempfile::tempdir().unwrap();
    let version = |name: &str, path: &str| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("policy.yaml"), open_to_all(path)).unwrap();
    };
    version("..1", "/a");
    symlink("..1", folder.path().join("..data")).unwrap();
    symlink("..data/policy.yaml", folder.path().join("policy.yaml")).unwrap();
    let server = Server::start(&folder.path().display().to_string(), &["--poll-interval", "0"]);
    let mut envoy = Envoy::connect(server.address()).await;
    for (number, path) in [(2, "/b"), (3, "/c")] {
        version(&format!("..{number}"), path);
        symlink(format!("..{number}"), folder.path().join("..data_tmp")).unwrap();
        std::fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
        std::fs::remove_dir_all(folder.path().join(format!("..{}", number - 1))).unwrap();
        server.wait_for_metric(OK, f64::from(number - 1));
        let named = folder.path().join("policy.yaml").display().to_string();
        server.wait_for_log_line(&["policy changed", &format!("\"files\":\"{named}\"")]);
        assert_eq!(envoy.check("GET", path, &[]).await, Answer::Http(200));
    }
}

#[tokio::test]
async fn sighup_reloads_the_policy() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    server.signal(Signal::HUP);
    server.wait_for_metric(UNCHANGED, 1.0);
    assert_eq!(server.metric(OK), Some(0.0), "the same files are not loaded again");
    folder.write("policy.yaml", &open_to_all("/b"));
    server.signal(Signal::HUP);
    server.wait_for_metric(OK, 1.0);
}

#[tokio::test]
async fn included_files_and_password_files_are_watched() {
    let folder = PolicyFolder::new(
        "version: 1\ninclude: [\"roles/*.yaml\"]\nidentity:\n  basic: { realm: r, users_file: htpasswd }\n\
         roles:\n  authenticated: { allow: [\"GET /a\"] }\n",
    );
    let hash = crate::process::run_with(&["hash-password", "--algorithm", "bcrypt"], "one").1;
    std::fs::create_dir(folder.path().join("roles")).unwrap();
    std::fs::write(folder.path().join("roles/first.yaml"), "roles:\n  none: {}\n").unwrap();
    folder.write("htpasswd", &format!("u:{hash}"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let u = basic("u:one");
    let headers = [("authorization", u.as_str())];
    assert_eq!(envoy.check("GET", "/a", &headers).await, Answer::Http(200));
    assert_eq!(envoy.check("GET", "/b", &headers).await, Answer::Http(403));
    std::fs::write(
        folder.path().join("roles/more.yaml"),
        "roles:\n  anyone: { allow: [\"GET /b\"] }\n",
    )
    .unwrap();
    wait_until(|| server.metric(OK) >= Some(1.0), || server.log());
    assert_eq!(envoy.check("GET", "/b", &headers).await, Answer::Http(200));
    assert_eq!(
        server.metric("rolegate_hashes_total"),
        Some(1.0),
        "a reload does not forget verified passwords"
    );
    let other = crate::process::run_with(&["hash-password", "--algorithm", "bcrypt"], "two").1;
    folder.write("htpasswd", &format!("u:{other}"));
    server.wait_for_metric(OK, server.metric(OK).unwrap() + 1.0);
    assert_eq!(
        envoy.check("GET", "/a", &headers).await,
        Answer::Http(401),
        "the old password is not remembered"
    );
}

#[tokio::test]
async fn a_stale_policy_is_unavailable_if_configured() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server =
        Server::start(&folder.arg(), &["--max-policy-age", "200ms", "--on-stale", "unavailable"]);
    let mut envoy = Envoy::connect(server.address()).await;
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(
        envoy.check("GET", "/a", &[]).await,
        Answer::Http(200),
        "age counts from when the files stop loading"
    );
    folder.write("policy.yaml", "version: 2\n");
    server.wait_for_metric("rolegate_policy_stale", 1.0);
    assert!(matches!(envoy.check("GET", "/a", &[]).await, Answer::Error(_)));
    assert_eq!(server.page("/readyz"), (503, "not ready: the policy is stale\n".to_owned()));
    server.signal(Signal::HUP);
    server.wait_for_log("policy not reloaded: no policy is active");
    folder.write("policy.yaml", &open_to_all("/a"));
    server.wait_for_metric("rolegate_ready", 1.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    assert_eq!(server.metric("rolegate_policy_stale"), Some(0.0));
}

#[tokio::test]
async fn a_stale_policy_is_kept_if_configured() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--max-policy-age", "100ms"]);
    folder.write("policy.yaml", "version: 2\n");
    server.wait_for_metric("rolegate_policy_stale", 1.0);
    assert_eq!(crate::client::check(server.address(), "GET", "/a", &[]).await, Answer::Http(200));
    assert_eq!(server.page("/readyz").0, 200);
}

/// Under load no request fails while the policy changes many times.
#[tokio::test]
async fn a_reload_fails_no_request() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    for number in 1..=5 {
        folder.write("policy.yaml", &format!("{}    # {number}\n", open_to_all("/a")));
        for _ in 0..50 {
            assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
        }
        server.wait_for_metric(OK, f64::from(number));
    }
}

/// Other files of the folder may be written all the time, one after the other.
#[tokio::test]
async fn writers_of_other_files_keep_no_change_waiting() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "1s"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = Vec::new();
            for number in 0_u32.. {
                let mut file =
                    std::fs::File::create(folder.path().join(format!("other-{number}"))).unwrap();
                file.write_all(b"x").unwrap();
                open.push(file);
                // There is always one that is open.
                drop(open.drain(..open.len().saturating_sub(3)));
                std::thread::sleep(std::time::Duration::from_millis(20));
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        folder.write("policy.yaml", &open_to_all("/b"));
        let reloaded = (0..2_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            server.metric(OK) == Some(1.0)
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reloaded, "{}", server.log());
    });
}
