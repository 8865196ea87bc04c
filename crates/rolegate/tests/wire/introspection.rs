//! Opaque tokens, whose issuer is asked about each: here a small server on the loopback interface,
//! well-behaved or hostile.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use runtime::ActivePolicy;
use serde_json::{Value, json};
use server::checks::{Options, RunningServer};
use testbed::tokens::Signer;

use crate::hashing::wait_until;
use crate::support::*;

const ISSUER: &str = "https://id.example.com";

/// What the issuer does with a question.
#[derive(Clone)]
enum Conduct {
    /// It says that the token is active, with the token as its user, and these claims.
    Active(Value),
    /// It sends these bytes.
    Bytes(String),
    /// It answers as if active when the gate opens.
    Gated,
}

/// The introspection endpoint of an issuer.
struct Issuer {
    at: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    conduct: Mutex<Conduct>,
    /// How often it was asked about each token.
    asked: Mutex<BTreeMap<String, usize>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Issuer {
    fn start(conduct: Conduct) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            conduct: Mutex::new(conduct),
            asked: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            is_open: Mutex::new(false),
            opened: Condvar::new(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { at, shared }
    }

    fn behave(&self, conduct: Conduct) {
        *self.shared.conduct.lock().unwrap() = conduct;
    }

    fn open(&self) {
        *self.shared.is_open.lock().unwrap() = true;
        self.shared.opened.notify_all();
    }

    fn asked(&self, token: &str) -> usize {
        self.shared.asked.lock().unwrap().get(token).copied().unwrap_or_default()
    }

    /// A server whose policy asks this issuer.
    fn serve(&self, max_cache: &str) -> RunningServer {
        let policy = format!(
            r#"
version: 1
identity:
  basic: {{ realm: people, users: {{ alice: {{ password: "{{SHA}}tiY7sUhYKUwI5L3866kDY+ENcrQ=" }} }} }}
  jwt:
    - issuer: {ISSUER}
      audiences: [people]
      introspection: {{ url: "http://{}/introspect", credentials_file: client, max_cache: {max_cache} }}
      claims: {{ user: sub, groups: groups }}
      user_prefix: "id:"
roles:
  authenticated: {{ user_id_from: ["{ISSUER}"], allow: [GET /people, "GET /of/{{user.id}}"] }}
  anyone: {{ allow: [GET /open] }}
"#,
            self.at
        );
        let files = document::MapFiles::new("policy.yaml", policy).and("client", "me:s3cret\n");
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        let authorizer =
            Authorizer::compile(Arc::new(loaded), &Default::default(), None).unwrap().0;
        let published = Arc::new(ArcSwapOption::from_pointee(authorizer));
        serve_with(ActivePolicy::new(published), Options { threads: 1, ..options() })
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let Some(token) = read_question(&stream) else { return };
        *self.asked.lock().unwrap().entry(token.clone()).or_default() += 1;
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        let conduct = self.conduct.lock().unwrap().clone();
        let claims = match conduct {
            Conduct::Bytes(bytes) => {
                // The other side may have gone already.
                let _ = stream.write_all(bytes.as_bytes());
                self.running.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            Conduct::Gated => {
                let open = self.is_open.lock().unwrap();
                drop(self.opened.wait_while(open, |is_open| !*is_open).unwrap());
                json!({})
            }
            Conduct::Active(claims) => claims,
        };
        let mut answer = json!({
            "active": true, "iss": ISSUER, "aud": "people", "sub": token, "token_type": "Bearer",
            "exp": 4_000_000_000_u64,
        });
        for (name, value) in claims.as_object().unwrap() {
            match value {
                Value::Null => drop(answer.as_object_mut().unwrap().remove(name)),
                value => answer[name] = value.clone(),
            }
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        let _ = stream.write_all(ok("application/json", &answer.to_string()).as_bytes());
    }
}

/// The token of a question, which must be as RFC 7662, 2.1 has it.
fn read_question(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    assert_eq!(lines[0], "post /introspect http/1.1");
    assert!(lines.contains(&"authorization: basic bwu6cznjcmv0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"content-type: application/x-www-form-urlencoded".to_owned()));
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    Some(body.strip_prefix("token_type_hint=access_token&token=").unwrap().to_owned())
}

fn ok(content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

fn of(path: &str, token: &str) -> Vec<u8> {
    from("192.0.2.1", "GET", path, &[("authorization", &format!("Bearer {token}"))])
}

/// The status of a denial; 200 for an allowed check.
async fn status(client: &Client, message: &[u8]) -> i32 {
    let reply = check(client, message).await;
    if reply.is_ok() { 200 } else { reply.denied() }
}

#[tokio::test]
async fn an_issuer_is_asked_once_about_a_token() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    let checks: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { status(&client, &of("/of/opaque-1", "opaque-1")).await })
        })
        .collect();
    for check in checks {
        assert_eq!(check.await.unwrap(), 200);
    }
    assert_eq!(status(&client, &of("/of/opaque-1", "opaque-1")).await, 200);
    // Another's answer is not its own.
    assert_eq!(status(&client, &of("/of/opaque-1", "opaque-2")).await, 403);
    assert_eq!(status(&client, &of("/of/opaque-2", "opaque-2")).await, 200);
    assert_eq!([issuer.asked("opaque-1"), issuer.asked("opaque-2")], [1, 1]);
}

#[tokio::test]
async fn an_answer_counts_for_max_cache() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1s");
    let client = connect(&server).await;
    assert_eq!(status(&client, &of("/people", "revoked")).await, 200);
    issuer.behave(Conduct::Bytes(ok("application/json", r#"{"active":false}"#)));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(status(&client, &of("/people", "revoked")).await, 401);
    let asked = issuer.asked("revoked");
    assert!(asked >= 2, "{asked}");
    // A refusal counts for some seconds, too, also where no credentials are needed.
    let before = issuer.asked("never");
    for path in ["/people", "/open"] {
        assert_eq!(status(&client, &of(path, "never")).await, 401);
    }
    assert!(issuer.asked("never") <= before + 2);
}

#[tokio::test]
async fn an_answer_is_checked_as_a_token_is() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    let cases = [
        (json!({ "iss": "https://other.example" }), "unknown_issuer"),
        (json!({ "iss": null }), "unknown_issuer"),
        (json!({ "aud": ["other"] }), "wrong_audience"),
        (json!({ "aud": null }), "wrong_audience"),
        (json!({ "exp": 1_000 }), "expired"),
        (json!({ "exp": null }), "malformed_claims"),
        (json!({ "exp": "4000000000" }), "malformed_claims"),
        (json!({ "nbf": 3_999_999_999_u64 }), "not_yet_valid"),
        (json!({ "sub": null }), "malformed_claims"),
        (json!({ "sub": "" }), "malformed_claims"),
        (json!({ "groups": 7 }), "malformed_claims"),
        (json!({ "token_type": "DPoP" }), "wrong_type"),
        (json!({ "token_type": 1 }), "wrong_type"),
        (json!({ "active": false }), "inactive"),
    ];
    for (number, (claims, expected)) in cases.into_iter().enumerate() {
        issuer.behave(Conduct::Active(claims));
        let before = denials(&server, expected);
        assert_eq!(status(&client, &of("/people", &format!("token-{number}"))).await, 401);
        assert_eq!(denials(&server, expected), before + 1, "{expected}");
    }
}

fn denials(server: &RunningServer, reason: &str) -> u64 {
    let denied = server.totals().checks.denied;
    denied.iter().filter(|(name, _)| *name == reason).map(|(_, count)| *count).sum()
}

#[tokio::test]
async fn no_nonsense_is_an_allow() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    let elsewhere = Issuer::start(Conduct::Active(json!({})));
    let active = r#"{"active":true,"iss":"https://id.example.com","aud":"people","sub":"a","exp":4000000000}"#;
    let with = |start: &str| format!("{start}content-length: {}\r\n\r\n{active}", active.len());
    let json = "content-type: application/json\r\n";
    let answers = [
        String::new(),
        "nonsense\r\n\r\n".to_owned(),
        ok("text/html", active),
        ok("application/jsonp", active),
        ok("application/json", ""),
        ok("application/json", "[]"),
        ok("application/json", "{}"),
        ok("application/json", &active.replace("true", "\"true\"")),
        ok("application/json", &active.replace("true", "1")),
        ok("application/json", &active.replace('}', ",\"active\":false}")),
        ok("application/json", &format!("{active}{active}")),
        ok("application/json", &format!("{} {active}", " ".repeat(70_000))),
        // The answer ends early.
        format!("HTTP/1.1 200 OK\r\n{json}content-length: 4000\r\n\r\n{active}"),
        with(&format!("HTTP/1.1 201 Created\r\n{json}")),
        with(&format!("HTTP/1.1 401 Unauthorized\r\n{json}")),
        with(&format!("HTTP/1.1 500 Internal Server Error\r\n{json}")),
        with(&format!(
            "HTTP/1.1 307 Elsewhere\r\n{json}location: http://{}/introspect\r\n",
            elsewhere.at
        )),
        with("HTTP/1.1 200 OK\r\n"),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let token = format!("token-{number}");
        issuer.behave(Conduct::Bytes(answer));
        for path in ["/people", "/open"] {
            assert_eq!(status(&client, &of(path, &token)).await, 503, "answer {number}");
        }
        assert_eq!(elsewhere.asked(&token), 0);
    }
    let failed = denials(&server, "introspection_failed");
    assert_eq!(failed, 36);
    // The next answer counts.
    issuer.behave(Conduct::Active(json!({})));
    assert_eq!(status(&client, &of("/people", "token-0")).await, 200);
}

#[tokio::test]
async fn a_slow_issuer_delays_no_other_caller() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    assert_eq!(status(&client, &of("/people", "known")).await, 200);
    issuer.behave(Conduct::Gated);
    let flood: Vec<_> = (0..200)
        .map(|number| {
            let client = client.clone();
            let token = format!("new-{number}");
            let path = format!("/of/{token}");
            tokio::spawn(async move { status(&client, &of(&path, &token)).await })
        })
        .collect();
    let shared = Arc::clone(&issuer.shared);
    wait_until(&server, |_| shared.running.load(Ordering::SeqCst) >= 8).await;
    // The issuer answers nobody now.
    assert_eq!(status(&client, &of("/people", "known")).await, 200);
    assert!(check(&client, &by_alice()).await.is_ok());
    issuer.open();
    let mut served = 0;
    for check in flood {
        match check.await.unwrap() {
            200 => served += 1,
            // Those that it let wait too long.
            503 => {}
            other => panic!("{other}"),
        }
    }
    assert!(served > 0);
    assert_eq!(issuer.shared.most_running.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn an_issuer_that_never_answers_is_not_waited_for() {
    let issuer = Issuer::start(Conduct::Gated);
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    assert_eq!(status(&client, &of("/open", "slow")).await, 503);
    issuer.open();
}

#[tokio::test]
async fn only_an_opaque_token_is_asked_about() {
    let issuer = Issuer::start(Conduct::Active(json!({})));
    let server = issuer.serve("1h");
    let client = connect(&server).await;
    let claims = json!({ "iss": ISSUER, "aud": "people", "sub": "a", "exp": 4_000_000_000_u64 });
    let jwt = Signer::default().sign(&json!({ "alg": "ES256", "kid": "ES256" }), &claims);
    let long = "a".repeat(20_000);
    for token in [&*jwt, "a.b.c", "", "a b", "a\"b", "ä", &long] {
        assert_eq!(status(&client, &of("/open", token)).await, 401, "{token}");
        assert_eq!(issuer.asked(token), 0, "{token}");
    }
    assert_eq!(issuer.shared.asked.lock().unwrap().len(), 0);
}
