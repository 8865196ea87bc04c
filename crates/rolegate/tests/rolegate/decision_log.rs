//! The decision log of a running server: its schema, its file, and what is left out of it.

use std::collections::BTreeSet;
use std::fs;

use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::google::protobuf::value::Kind;
use load::check_message::Checked;
use prost::Message as _;
use rustix::process::Signal;
use serde_json::Value;
use testbed::manifests::schema_errors;
use testbed::pages::{names, table};

use crate::client::{Answer, Envoy, basic};
use crate::process::{Server, example, run, wait_until};

const PAGE: &str = include_str!("../../../../docs/reference/decision-log.md");
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Sends one request of each kind.
async fn send_all(server: &Server) {
    let (alice, wrong) = (basic("alice:wonderland"), basic("alice:hunter2"));
    let mut envoy = Envoy::connect(server.address()).await;
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let all: [(&str, &[(&str, &str)]); 6] = [
        (
            "/people",
            &[("authorization", &alice), ("traceparent", &traceparent), ("x-request-id", "x-1")],
        ),
        ("/a/../people", &[("authorization", &alice), ("traceparent", "00-0-0-00")]),
        ("/people/5", &[("authorization", &wrong)]),
        ("/people", &[("authorization", "Bearer t0ken")]),
        ("/people", &[("authorization", "s3cret")]),
        ("/%zz", &[]),
    ];
    for (path, headers) in all {
        envoy.check("GET", path, headers).await;
    }
}

#[tokio::test]
async fn each_line_is_as_the_schema_says() {
    let (code, schema, _) = run(&["schema", "decision"]);
    assert_eq!(code, 0);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut server = Server::start(&example("people"), &["--decision-log", "all"]);
    send_all(&server).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    let lines = server.decisions();
    assert_eq!(lines.len(), 6);
    for (line, errors) in lines.iter().zip(schema_errors(&schema, &lines).unwrap()) {
        assert!(errors.is_empty(), "{errors:?} in {line}");
    }
    let of = |name: &str| {
        lines.iter().map(|line| line[name].as_str().unwrap_or("-")).collect::<Vec<_>>()
    };
    assert_eq!(of("scheme"), ["basic", "basic", "basic", "bearer", "other", "-"]);
    assert_eq!(of("trace_id"), [TRACE, "-", "-", "-", "-", "-"]);
    assert!(!server.out().contains("s3cret") && !server.out().contains("t0ken"));
    // The page has the same fields.
    let properties = schema["properties"].as_object().unwrap();
    let properties: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    let rows = table(PAGE, "| field |");
    assert_eq!(rows.iter().flat_map(|row| names(row[0])).collect::<BTreeSet<_>>(), properties);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the file is what is tested")]
async fn a_file_is_renamed_at_its_size_and_opened_again_if_another_renames_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("decisions.log");
    let name = file.display().to_string();
    let arguments =
        ["--decision-log", "all", "--decision-log-file", &name, "--decision-log-max-size", "1KiB"];
    let server = Server::start(
        &example("people"),
        &[&arguments[..], &["--decision-log-keep", "2"]].concat(),
    );
    for _ in 0..4 {
        send_all(&server).await;
    }
    let written = "rolegate_decision_log_lines_total{result=\"written\"}";
    server.wait_for_metric(written, 24.0);
    let size =
        |name: &str| fs::metadata(folder.path().join(name)).map_or(0, |metadata| metadata.len());
    assert!(size("decisions.log") > 0 && size("decisions.log.1") > 0);
    assert!(!folder.path().join("decisions.log.3").exists());
    fs::rename(&file, folder.path().join("moved")).unwrap();
    send_all(&server).await;
    server.wait_for_metric(written, 30.0);
    wait_until(|| size("decisions.log") > 0, || "a new file".to_owned());
    let text = fs::read_to_string(&file).unwrap();
    text.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
    assert_eq!(server.out(), "", "nothing on standard output");
}

#[tokio::test]
async fn a_full_disk_delays_no_answer_and_is_counted_and_logged_once() {
    let arguments = ["--decision-log", "all", "--decision-log-file", "/dev/full"];
    let server = Server::start(&example("people"), &arguments);
    let mut envoy = Envoy::connect(server.address()).await;
    let alice = basic("alice:wonderland");
    for number in [1.0, 2.0] {
        assert_eq!(
            envoy.check("GET", "/people", &[("authorization", &alice)]).await,
            Answer::Http(200)
        );
        server.wait_for_metric("rolegate_decision_log_lines_total{result=\"dropped\"}", number);
    }
    let message = "the decision log cannot be written: its lines are lost";
    server.wait_for_log_line(&["\"level\":\"WARN\"", message, "/dev/full", "No space left"]);
    assert_eq!(server.log().matches(message).count(), 1);
}

#[tokio::test]
async fn what_is_masked_or_sampled_out_is_not_in_the_log() {
    let arguments = ["--decision-log", "all", "--decision-log-sample", "allowed=0,invalid_path=1"];
    let masks = ["--decision-log-mask-path", "/people/{id}", "--decision-log-mask-users", "drop"];
    let mut server = Server::start(&example("people"), &[&arguments[..], &masks].concat());
    send_all(&server).await;
    server.wait_for_metric("rolegate_decision_log_lines_total{result=\"sampled_out\"}", 2.0);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    let lines = server.decisions();
    let of = |name: &str| {
        lines.iter().map(|line| line[name].as_str().unwrap_or("-")).collect::<Vec<_>>()
    };
    assert_eq!(of("path"), ["/people/*", "/people", "/people", "*"]);
    assert!(!server.out().contains("alice") && !server.out().contains("%zz"), "{}", server.out());
}

#[test]
fn a_wrong_setting_of_the_log_is_an_error() {
    for (setting, value, expected) in [
        ("--decision-log-sample", "allow=0.5", "did you mean `allowed`?"),
        ("--decision-log-mask-path", "/people", "/people/{id}/letters/{id}"),
        (
            "--decision-log-file",
            "/nonexistent/decisions.log",
            "`decision-log-file` /nonexistent/decisions.log: its folder must exist: ",
        ),
    ] {
        let port = ["--listen", "127.0.0.1:0", "--admin", "off"];
        let folder = example("people");
        let arguments = [&["serve", "--policy", &folder][..], &port, &[setting, value]].concat();
        let (code, _, err) = run(&arguments);
        assert!(code != 0 && err.contains(expected), "{setting}: {code} {err}");
    }
}

/// Envoy's access log prints the metadata. The header is for the client, and only where it is asked
/// for.
#[tokio::test]
async fn a_decision_explains_itself_to_envoy_and_to_the_client_only_if_configured() {
    for header in [None, Some("x-why")] {
        let argument: &[&str] = match header {
            Some(name) => &["--explain-header", name],
            None => &[],
        };
        let server = Server::start(&example("people"), argument);
        let mut envoy = Envoy::connect(server.address()).await;
        let alice = basic("alice:wonderland");
        let revision = run(&["check", "--output", "json", &example("people")]).1;
        let revision = serde_json::from_str::<Value>(&revision).unwrap()["policy"]
            .as_str()
            .unwrap()
            .to_owned();
        for (path, expected) in [
            (
                "/people",
                [
                    ("decision", "allowed"),
                    ("revision", &*revision),
                    ("rule", "guest: GET /people"),
                    ("user", "alice"),
                ],
            ),
            (
                "/secret",
                [
                    ("decision", "denied"),
                    ("reason", "not_allowed"),
                    ("revision", &*revision),
                    ("user", "alice"),
                ],
            ),
        ] {
            let headers = [("authorization", &*alice)];
            let request = Checked {
                method: "GET",
                path,
                headers: &headers,
                raw_headers: false,
                ..Checked::default()
            };
            let reply = envoy.send(request).await;
            let response = CheckResponse::decode(reply.body.get(5..).unwrap()).unwrap();
            let fields = response.dynamic_metadata.unwrap().fields;
            let mut found: Vec<(&str, &str)> = fields
                .iter()
                .map(|(name, value)| match value.kind.as_ref().unwrap() {
                    Kind::StringValue(text) => (&**name, &**text),
                    other => panic!("{other:?}"),
                })
                .collect();
            found.sort_unstable();
            assert_eq!(found, expected);
            if let Some(HttpResponse::DeniedResponse(denied)) = response.http_response {
                let named = denied.headers.iter().filter_map(|option| option.header.as_ref());
                let why: Vec<&str> = named
                    .filter(|header| header.key == "x-why")
                    .map(|header| &*header.value)
                    .collect();
                assert_eq!(why, if header.is_some() { vec!["not_allowed"] } else { vec![] });
            }
        }
    }
}
