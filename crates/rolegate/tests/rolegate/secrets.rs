//! A secret in the URL of a key set (`?api_key=…`, `user:password@`) is shown nowhere.

use std::collections::BTreeSet;

use crate::client::{Answer, basic};
use crate::keys::Issuer;
use crate::process::{PolicyFolder, Server, example, run, wait_until};

const SECRET: &str = "s3cr3t-0f-th3-1ssu3r";

/// Two issuers whose URLs differ in their secrets only.
fn policy(issuer: &Issuer) -> PolicyFolder {
    let mut policy = "version: 1\nidentity:\n  jwt:\n".to_owned();
    for name in ["one", "two"] {
        policy.push_str(&format!(
            "    - issuer: https://{name}.example\n      audiences: [a]\n      \
             keys: {{ url: \"http://{}/keys?v=1&api_key={SECRET}-{name}\", refresh: 1s }}\n",
            issuer.at
        ));
    }
    PolicyFolder::new(&policy)
}

fn hidden(at: &str, text: &str) {
    assert!(!text.contains(SECRET) && !text.contains("api_key="), "{at}: {text}");
}

fn hidden_by(args: &[&str]) -> String {
    let (code, out, err) = run(args);
    let at = format!("{args:?}");
    hidden(&at, &out);
    hidden(&at, &err);
    format!("{code} {out}{err}")
}

/// Answers of an issuer, with what is logged about each. Each returns the secret where it can.
fn answers() -> Vec<(String, &'static str)> {
    let closed = "connection: close\r\n\r\n";
    let redirect = format!(
        "location: https://other.example/?api_key={SECRET}\r\ncontent-length: 0\r\n{closed}"
    );
    vec![
        (format!("HTTP/1.1 302 Found\r\n{redirect}"), "redirects are not followed"),
        (format!("HTTP/1.1 500 {SECRET}\r\ncontent-length: 0\r\n{closed}"), "status 500"),
        (format!("{SECRET} is no HTTP\r\n\r\n"), "no keys yet"),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n{closed}{SECRET}"), "no keys yet"),
        (format!("HTTP/1.1 200 OK\r\n{closed}{{\"keys\":\"{SECRET}\"}}"), "fetched keys not used"),
        (String::new(), "no keys yet"),
    ]
}

#[test]
fn no_command_shows_the_secret_of_a_url() {
    let issuer = Issuer::start("");
    let folder = policy(&issuer);
    let folder = folder.arg();
    for output in ["text", "json"] {
        let printed = hidden_by(&["check", "--output", output, &folder]);
        assert!(printed.starts_with('0'), "{printed}");
        for (answer, _) in answers() {
            issuer.answer(answer);
            // A token of one of them, and an invalid one.
            for token in ["eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL29uZS5leGFtcGxlIn0.AAAA", "x"]
            {
                let explain = [
                    "explain", "--policy", &folder, "--output", output, "--bearer", token, "GET",
                    "/",
                ];
                hidden_by(&explain);
            }
        }
        hidden_by(&["who-can", "--policy", &folder, "--output", output, "GET", "/"]);
        hidden_by(&["what-can", "--policy", &folder, "--output", output]);
        hidden_by(&["diff", &example("people"), &folder, "--output", output]);
    }
    issuer.answer(String::new());
    let printed = hidden_by(&["explain", "--policy", &folder, "--bearer", "x", "GET", "/"]);
    for shown in [
        "https://one.example at",
        "https://two.example at",
        &format!("`http://{}/keys`", issuer.at),
    ] {
        assert!(printed.contains(shown), "{shown}: {printed}");
    }
}

/// Nor is it shown if the URL is invalid, or is the value of another key.
#[test]
fn no_problem_shows_the_secret_of_a_url() {
    for keys in [
        format!("{{ url: \"https://user:{SECRET}@id.example/keys\" }}"),
        format!("{{ url: \"https://{SECRET}@id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ url: \"https://id.example/keys#{SECRET}\" }}"),
        format!("{{ url: \"http://id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ url: \"ftp://id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ url: \"https://id.example/ keys?api_key={SECRET}\" }}"),
        format!("{{ url: \"id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ url: \"https://id.example/keys?api_key={SECRET}\", file: keys.json }}"),
        format!("{{ url: \"https://id.example/keys?api_key={SECRET}\", refresh: 0s }}"),
        format!("{{ url: [\"https://id.example/keys?api_key={SECRET}\"] }}"),
        format!("{{ uri: \"https://id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ file: \"https://id.example/keys?api_key={SECRET}\" }}"),
        format!("{{ file: \"https://user:{SECRET}@id.example/keys\" }}"),
        format!("\"https://id.example/keys?api_key={SECRET}\""),
    ] {
        let folder = PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      keys: {keys}\n"
        ));
        for output in ["text", "json"] {
            let printed = hidden_by(&["check", "--output", output, &folder.arg()]);
            assert!(printed.starts_with('3'), "{keys}: {printed}");
            hidden_by(&["explain", "--policy", &folder.arg(), "--output", output, "GET", "/"]);
        }
        let mut server = Server::start_unready(&folder.arg(), &["--log-level", "debug"]);
        assert_eq!(server.ended(), 3);
        hidden(&keys, &server.log());
    }
}

#[tokio::test]
async fn a_server_shows_no_secret_of_a_url() {
    let issuer = Issuer::start("");
    issuer.answer(String::new());
    let folder = policy(&issuer);
    let more = [
        "--keys-wait",
        "0s",
        "--log-level",
        "debug",
        "--max-keys-age",
        "1s",
        "--decision-log",
        "all",
    ];
    let server = Server::start(&folder.arg(), &more);
    for (answer, printed) in answers() {
        let before = server.log().matches(printed).count();
        issuer.answer(answer);
        wait_until(
            || server.log().matches(printed).count() > before,
            || format!("`{printed}` in\n{}", server.log()),
        );
    }
    let came =
        crate::client::check(server.address(), "GET", "/", &[("authorization", &basic("a:b"))])
            .await;
    assert!(matches!(came, Answer::Http(401 | 403)), "{came:?}");
    let (_, page) = server.page("/metrics");
    for (at, text) in [("log", server.log()), ("out", server.out()), ("metrics", page.clone())] {
        hidden(at, &text);
    }
    hidden("histograms", &server.page("/histograms").1);
    // Prometheus rejects a page with the same series twice.
    let series: Vec<&str> =
        page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let keys = series.iter().filter(|name| name.starts_with("rolegate_keys_")).count();
    assert!(keys >= 12, "{page}");
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "{page}");
    for name in ["one", "two"] {
        let logged = format!("\"issuers\":\"https://{name}.example\"");
        assert!(server.log().contains(&logged), "{logged} in\n{}", server.log());
    }
}
