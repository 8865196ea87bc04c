//! Flags, environment, settings file, defaults: one list, in this order.

use std::path::PathBuf;

use program::cli::{Cli, Command};
use program::{Settings, Unparsed};

use crate::process::{PolicyFolder, example, rolegate};

/// A value other than the default, for each setting.
const VALUES: &[(&str, &str)] = &[
    ("policy", "p.yaml"),
    ("shadow", "s.yaml"),
    ("bundle-public-key", "a.pub,b.pub"),
    ("bundle-interval", "5s"),
    ("bundle-cache", "cache"),
    ("bundle-ca", "ca.pem"),
    ("bundle-credentials", "credentials"),
    ("bundle-max-size", "1MiB"),
    ("listen", "127.0.0.1:1,unix:/x.sock"),
    ("tls-certificate", "server.pem"),
    ("tls-key", "server.key"),
    ("tls-client-ca", "ca.pem"),
    ("tls-client-names", "a.example.com,spiffe://b/c"),
    ("http", "unix:/http.sock"),
    ("http-profile", "traefik"),
    ("http-trusted", "10.0.0.0/8,127.0.0.1"),
    ("http-path-prefix", "/check"),
    ("authzen", "127.0.0.1:9193"),
    ("authzen-tokens", "/run/tokens"),
    ("authzen-url", "https://pdp.example.com"),
    ("admin", "off"),
    ("console", "true"),
    ("console-host", "console.internal"),
    ("metrics", "127.0.0.1:9193"),
    ("socket-mode", "0600"),
    ("threads", "3"),
    ("max-message-size", "1MiB"),
    ("max-connections", "7"),
    ("max-connection-age", "30m"),
    ("max-waiting-checks", "99"),
    ("hash-threads", "2"),
    ("hash-queue", "9"),
    ("drain-delay", "40ms"),
    ("drain-timeout", "250ms"),
    ("poll-interval", "1m"),
    ("max-policy-age", "1h"),
    ("max-keys-age", "2h"),
    ("on-stale", "unavailable"),
    ("keys-wait", "0"),
    ("keys-needed", "all"),
    ("inventory-needed", "false"),
    ("explain-header", "x-why"),
    ("log-format", "text"),
    ("log-level", "debug"),
    ("decision-log", "all"),
    ("decision-log-to", "file,otlp"),
    ("decision-log-file", "decisions.log"),
    ("decision-log-max-size", "1MiB"),
    ("decision-log-keep", "3"),
    ("decision-log-sample", "allowed=0.25"),
    ("decision-log-mask-path", "/people/{id}"),
    ("decision-log-mask-users", "hash"),
    ("decision-log-mask-key", "mask.key"),
    ("traces", "otlp"),
    ("trace-ratio", "0.25"),
    ("otlp-endpoint", "https://otel.example:4317"),
    ("otlp-ca", "ca.pem"),
    ("otlp-headers", "otlp.headers"),
    ("otlp-timeout", "3s"),
    ("otlp-batch-size", "7"),
    ("otlp-service-name", "gate"),
    ("otlp-resource", "a=b,c=d"),
];

fn parse(args: &[String]) -> Result<Settings, String> {
    let args: Vec<_> =
        ["rolegate".to_owned(), "serve".to_owned()].iter().chain(args).map(Into::into).collect();
    match program::parse(&args) {
        Ok(Cli { command: Command::Serve(serve) }) => Ok(serve.settings),
        Ok(_) => panic!("not `serve`"),
        Err(Unparsed::Arguments(error)) => Err(error.to_string()),
        Err(Unparsed::Settings(error)) => Err(error.to_string()),
    }
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn parse_file(text: &str, more: &[&str]) -> Result<Settings, String> {
    let (_folder, path) = file(text);
    let config = format!("--config={}", path.display());
    parse(
        &[&[config][..], &more.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>()]
            .concat(),
    )
}

#[test]
fn every_setting_has_a_test_value() {
    let command = program::command();
    let serve = command.find_subcommand("serve").unwrap();
    let mut names: Vec<_> = serve.get_arguments().filter_map(|arg| arg.get_long()).collect();
    names.retain(|name| *name != "config");
    names.sort_unstable();
    let mut with_value: Vec<_> = VALUES.iter().map(|(name, _)| *name).collect();
    with_value.sort_unstable();
    assert_eq!(names, with_value);
    for arg in serve.get_arguments().filter(|arg| !arg.is_positional()) {
        let variable =
            format!("ROLEGATE_{}", arg.get_long().unwrap().replace('-', "_").to_uppercase());
        assert_eq!(arg.get_env().unwrap(), &*variable);
    }
}

#[test]
fn flags_and_file_agree() {
    let defaults = parse(&["--policy=q".to_owned()]).unwrap();
    for (name, value) in VALUES {
        let mut flags = vec![format!("--{name}={value}")];
        let values: Vec<&str> = value.split(',').collect();
        let mut text = format!(
            "{name}: [{}]\n",
            values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ")
        );
        if *name != "policy" {
            flags.push("--policy=q".to_owned());
            text.push_str("policy: q\n");
        }
        let by_flag = parse(&flags).unwrap();
        assert_ne!(by_flag, defaults, "{name}: the value is the default");
        assert_eq!(parse_file(&text, &[]).unwrap(), by_flag, "{name}");
    }
}

#[test]
fn a_switch_may_have_its_value_behind_a_space() {
    let console = |flags: &[&str]| {
        let flags = [&["--policy=q"], flags].concat();
        parse(&flags.into_iter().map(str::to_owned).collect::<Vec<_>>()).unwrap().admin.console
    };
    for flags in [
        &["--console"][..],
        &["--console=true"],
        &["--console", "true"],
        &["--console", "--threads=1"],
    ] {
        assert!(console(flags), "{flags:?}");
    }
    for flags in [&[][..], &["--console=false"], &["--console", "false"]] {
        assert!(!console(flags), "{flags:?}");
    }
}

/// In a process of its own, because the environment belongs to the whole process.
#[test]
fn environment_agrees_and_flags_win() {
    let people = example("people");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (_folder, path) = file("listen: 127.0.0.1:1\nadmin: nonsense\n");
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let output = rolegate(&[&["serve"], args].concat())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let listen = ("ROLEGATE_LISTEN", taken.as_str());
    let policy = ("ROLEGATE_POLICY", people.as_str());
    let (code, err) = run(&[], &[policy, listen]);
    assert_eq!(code, 5);
    assert!(err.contains(&taken), "the environment sets the address: {err}");
    let (code, err) = run(&["--listen", "127.0.0.1:x"], &[policy, listen]);
    assert_eq!(code, 2);
    assert!(err.contains("127.0.0.1:x"), "the flag wins over the environment: {err}");
    let config = path.display().to_string();
    let (code, err) = run(&[], &[policy, listen, ("ROLEGATE_CONFIG", &config)]);
    assert_eq!(code, 2);
    assert!(err.contains("settings.yaml:2:8"), "the environment names the file: {err}");
    std::fs::write(&path, "listen: 127.0.0.1:1\n").unwrap();
    let (code, err) = run(&["--config", &config], &[policy, listen]);
    assert_eq!(code, 5);
    assert!(err.contains(&taken), "the environment wins over the file: {err}");
}

/// Whoever sets a variable in a manifest looks for its name, not for a flag that is nowhere.
#[test]
fn an_invalid_value_is_reported_with_the_name_of_its_variable() {
    let people = example("people");
    let serve = ["serve", "--policy", &people];
    let run = |args: &[&str], name: &str, value: &str| {
        let output = rolegate(args).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}={value}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (name, value) in [
        ("ROLEGATE_HASH_QUEUE", "many"),
        ("ROLEGATE_ON_STALE", "drop"),
        ("ROLEGATE_LISTEN", "127.0.0.1:0,nowhere"),
        ("ROLEGATE_ADMIN", ""),
        ("ROLEGATE_DRAIN_DELAY", "5"),
        ("ROLEGATE_CONSOLE", "yes"),
        ("ROLEGATE_INVENTORY_NEEDED", "no"),
        ("ROLEGATE_SHADOW", ""),
    ] {
        let err = run(&serve, name, value);
        assert!(err.contains(&format!("for '{name}'")) && !err.contains("for '--"), "{err}");
    }
    let err = run(&["serve"], "ROLEGATE_POLICY", "");
    assert!(err.contains("for 'ROLEGATE_POLICY'") && err.contains("it is empty"), "{err}");
    let err = run(&["health"], "ROLEGATE_ADMIN", "nowhere");
    assert!(err.contains("for 'ROLEGATE_ADMIN'"), "{err}");
    let flag = [&serve[..], &["--hash-queue", "some"]].concat();
    for value in ["many", "7"] {
        let err = run(&flag, "ROLEGATE_HASH_QUEUE", value);
        assert!(
            err.contains("'some' for '--hash-queue <N>'"),
            "the flag wins over the environment: {err}"
        );
        assert!(err.contains("write a whole one from 1 to 65535"), "{err}");
    }
}

/// A number without its unit, or a 0 that is meant as no limit, must not deny all requests.
#[test]
fn values_with_which_nothing_is_served_are_rejected() {
    for (name, value) in [
        ("max-connections", "0"),
        ("hash-queue", "0"),
        ("max-waiting-checks", "0"),
        ("max-message-size", "4"),
    ] {
        let error = parse(&["--policy=q".to_owned(), format!("--{name}={value}")]).unwrap_err();
        assert!(error.contains(&format!("invalid value '{value}'")), "{error}");
    }
}

#[test]
fn two_listeners_at_one_address_are_named() {
    let people = example("people");
    let serve = ["serve", "--policy", &people, "--listen", "127.0.0.1:9", "--admin", "127.0.0.1:9"];
    let output = rolegate(&serve).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains(
            "two of `listen`, `http`, `authzen`, `admin` and `metrics` are the address \
             `127.0.0.1:9`"
        ),
        "{err}"
    );
}

#[test]
fn a_setting_without_effect_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("decisions.log").display().to_string();
    let to_file = format!("--decision-log-file={file}");
    let is_file = "it is about bundles, and the policy is a file";
    let is_off = "`decision-log` is `off`";
    let is_unused = "nothing is sent without `traces: otlp` or `decision-log-to: otlp`";
    let no_url = "no keys of the policy have a URL";
    let collector = "--otlp-endpoint=https://127.0.0.1:9";
    let people = example("people");
    // The defaults are not warned of.
    assert_eq!(without_effect(&people, ""), Vec::<String>::new());
    for (settings, setting, why) in [
        (
            "--on-stale=unavailable",
            "on-stale: unavailable",
            "nothing becomes stale without `max-policy-age` or `max-keys-age`",
        ),
        ("--bundle-interval=5s", "bundle-interval", is_file),
        ("--bundle-cache=/c", "bundle-cache", is_file),
        ("--bundle-ca=/c", "bundle-ca", is_file),
        ("--bundle-credentials=/c", "bundle-credentials", is_file),
        ("--bundle-max-size=1MiB", "bundle-max-size", is_file),
        ("--bundle-public-key=/c", "bundle-public-key", is_file),
        ("--keys-needed=all", "keys-needed", no_url),
        ("--max-keys-age=1h", "max-keys-age", no_url),
        (&format!("--decision-log=off {to_file}"), "decision-log-file", is_off),
        ("--decision-log=off --decision-log-sample=denied=0.5", "decision-log-sample", is_off),
        ("--decision-log=off --decision-log-to=otlp", "decision-log-to", is_off),
        (
            "--decision-log-sample=allowed=0.5",
            "decision-log-sample",
            "`decision-log` leaves out the decisions that it is about",
        ),
        (
            "--decision-log-max-size=1MiB",
            "decision-log-max-size",
            "`decision-log-file` is not a file that is renamed",
        ),
        (
            &format!("--decision-log-keep=2 {to_file}"),
            "decision-log-keep",
            "no file is renamed without `decision-log-max-size`",
        ),
        (
            &format!("{collector} --decision-log-to=otlp {to_file}"),
            "decision-log-file",
            "`decision-log-to` is only `otlp`",
        ),
        (
            "--decision-log-mask-key=/c",
            "decision-log-mask-key",
            "no user is hashed without `decision-log-mask-users: hash`",
        ),
        ("--trace-ratio=0.5", "trace-ratio", "no spans are sent without `traces: otlp`"),
        (collector, "otlp-endpoint", is_unused),
        ("--otlp-timeout=1s", "otlp-timeout", is_unused),
        ("--otlp-resource=a=b", "otlp-resource", is_unused),
        ("--console --admin=off", "console", "`admin` is `off`"),
        ("--console-host=a.internal", "console-host", "`console` is `false`"),
        ("--socket-mode=0600", "socket-mode", "no listener is a Unix socket"),
    ] {
        let warning = format!("`{setting}` has no effect: {why}");
        assert_eq!(without_effect(&people, settings), [warning], "{settings}");
    }
    let fetches = PolicyFolder::new(
        "version: 1\nidentity: { jwt: [{ issuer: \"https://id.example\", audiences: [a], \
         keys: { url: \"https://127.0.0.1:9/keys\" } }] }\nroles: { authenticated: { allow: [GET /a] } }\n",
    );
    for (policy, settings) in [
        (&people, "--on-stale=unavailable --max-policy-age=1h"),
        (&people, &format!("--decision-log-keep=2 --decision-log-max-size=1MiB {to_file}")),
        (&people, "--decision-log=off --decision-log-mask-users=hash"),
        (&people, "--socket-mode=0600 --admin=unix:/nonexistent/admin"),
        (&fetches.arg(), "--max-keys-age=1h --keys-needed=any"),
    ] {
        assert_eq!(without_effect(policy, settings), Vec::<String>::new(), "{settings}");
    }
}

/// The warnings of `serve` about settings without effect. It does not start, because its address is
/// taken.
fn without_effect(policy: &str, settings: &str) -> Vec<String> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let mut serve = vec!["serve", "--policy", policy, "--listen", &listen, "--log-format", "json"];
    serve.extend(settings.split_whitespace());
    let output = rolegate(&serve).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let messages = err.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["message"].as_str().map(str::to_owned)
    });
    messages.filter(|message| message.contains("has no effect")).collect()
}

/// Kubernetes sets variables for a service named `rolegate` in every container of its namespace.
#[test]
fn variables_that_kubernetes_sets_are_ignored() {
    let variables =
        [("ROLEGATE_PORT", "tcp://10.0.0.1:9191"), ("ROLEGATE_SERVICE_HOST", "10.0.0.1")];
    let output = rolegate(&["check", &example("people")]).envs(variables).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_flag_wins_over_the_file() {
    let settings =
        parse_file("policy: a\nthreads: 1\nlisten: [127.0.0.1:1, 127.0.0.1:2]\n", &["--threads=2"])
            .unwrap();
    assert_eq!((settings.threads, settings.listen.len()), (2, 2));
    let listen = ["--listen=127.0.0.1:3"];
    assert_eq!(parse_file("policy: a\nlisten: [127.0.0.1:1]\n", &listen).unwrap().listen.len(), 1);
}

#[test]
fn every_problem_of_a_file_is_reported_with_its_place() {
    let text =
        "thread: 3\nhash_queue: 9\non-stale: drop\nadmin: [off, off]\nthreads: 1\nthreads: 2\n";
    let error = parse_file(text, &["--policy=q"]).unwrap_err();
    let expected = [
        "yaml:1:1: error: unknown setting `thread`",
        "did you mean `threads`?",
        "yaml:2:1: error: unknown setting `hash_queue`",
        "did you mean `hash-queue`?",
        "yaml:3:11: error: `drop` for `on-stale`: one of keep, unavailable is expected",
        "yaml:4:14: error: `admin` takes one value, not a list",
        "yaml:6:1: error: `threads` is defined twice",
        "yaml:5:1: the first is here",
    ];
    let mut rest = error.as_str();
    for part in expected {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("`{part}` is not in order in\n{error}")
        };
        rest = after;
    }
}

#[test]
fn an_invalid_settings_file_is_rejected() {
    for text in [
        "- a\n",
        "threads\n",
        "threads: {a: 1}\n",
        "threads: 1\n---\nthreads: 2\n",
        "threads: [",
        "? [a]\n: 1\n",
    ] {
        assert!(parse_file(text, &["--policy=q"]).is_err(), "{text:?}");
    }
    assert!(parse_file("", &["--policy=q"]).is_ok(), "an empty file sets nothing");
    assert_eq!(parse(&["q".to_owned()]).unwrap(), parse(&["--policy=q".to_owned()]).unwrap());
    assert_eq!(parse(&[]).unwrap(), parse(&["--policy=policy.yaml".to_owned()]).unwrap());
    assert!(parse(&["q".to_owned(), "--policy=q".to_owned()]).is_err());
    let missing = parse(&["--policy=q".to_owned(), "--config=/nowhere".to_owned()]).unwrap_err();
    assert!(missing.contains("/nowhere") && missing.contains("no such file"), "{missing}");
}

#[test]
fn nothing_listens_to_the_world_by_default() {
    let settings = parse(&["--policy=q".to_owned()]).unwrap();
    let all: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    assert_eq!(
        (all, settings.admin.address.to_string()),
        (vec!["127.0.0.1:9191".to_owned()], "127.0.0.1:9192".to_owned())
    );
}

#[test]
fn an_unknown_variable_is_an_error_with_a_suggestion() {
    let run = |name: &str| {
        let mut command =
            rolegate(&["serve", "--policy", &example("people"), "--listen", "nowhere"]);
        let output = command.env(name, "hunter2").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = run("ROLEGATE_LISTN");
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("unknown variable `ROLEGATE_LISTN`")
            && err.contains("did you mean `ROLEGATE_LISTEN`?"),
        "{err}"
    );
    assert!(!err.contains("hunter2"), "{err}");
    let (_, err) = run("ROLEGATE_LOAD_BASIC");
    assert!(!err.contains("unknown variable"), "{err}");
}

/// Envoy's YAML, and some editors, read `off` as `false`.
#[test]
fn false_means_off_in_a_file() {
    let names = [
        "http",
        "authzen",
        "admin",
        "metrics",
        "decision-log",
        "decision-log-mask-users",
        "traces",
    ];
    for name in names {
        let [off, by_false] =
            ["off", "false"].map(|value| parse_file(&format!("policy: q\n{name}: {value}\n"), &[]));
        assert_eq!(by_false.unwrap(), off.unwrap(), "{name}");
    }
    let named = parse_file("policy: q\notlp-service-name: false\n", &[]).unwrap();
    assert_eq!(named.policy.otlp.service_name, "false", "a text is what it says");
    for name in ["admin", "metrics"] {
        let error = parse(&["--policy=q".to_owned(), format!("--{name}=false")]).unwrap_err();
        assert!(error.contains("not an address") && error.contains(", or `off`"), "{error}");
    }
    let listen = parse(&["--policy=q".to_owned(), "--listen=off".to_owned()]).unwrap_err();
    assert!(!listen.contains(", or `off`"), "{listen}");
}

/// The short help has the settings that most people need, the long one all of them under headings.
#[test]
fn the_short_help_of_serve_is_short() {
    let help = |flag: &str| {
        let output = rolegate(&["serve", flag]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let flags =
        |help: &str| help.lines().filter(|line| line.trim_start().starts_with("--")).count();
    assert_eq!(flags(&help("-h")), 13);
    let long = help("--help");
    assert_eq!(flags(&long), VALUES.len() + 1);
    for heading in [
        "Bundles:",
        "Decision log:",
        "OTLP:",
        "HTTP forward-auth:",
        "AuthZEN:",
        "TLS:",
        "Limits:",
        "Admin pages:",
        "Log:",
    ] {
        assert!(long.lines().any(|line| line == heading), "{heading}");
    }
}
