//! The console over HTTP: what it shows, what it escapes, and who gets no answer.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;

use form_urlencoded::Serializer;
use load::check_message::Checked;

use crate::client::{Answer, Envoy, basic};
use crate::process::{LONG, PolicyFolder, Server, example, wait_until};

/// Sends this head of a request, and returns the answer: its head in lower case, and its body.
fn ask(server: &Server, head: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.admin()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "{head}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

/// The page with this query.
fn page(server: &Server, query: &str) -> String {
    let (status, page) = server.page(&format!("/console?{query}"));
    assert_eq!(status, 200, "{page}");
    page
}

fn query(fields: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// A part of the page, by the id of its section.
fn part<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, from) = page
        .split_once(&format!("<section id=\"{id}\""))
        .unwrap_or_else(|| panic!("no {id} in {page}"));
    from.split("</section>").next().unwrap()
}

#[test]
fn the_console_is_off_unless_it_is_asked_for() {
    let server = Server::start(&example("people"), &[]);
    assert_eq!(server.page("/console").0, 404);
    let server = Server::start(&example("people"), &["--console"]);
    let page = page(&server, "");
    assert!(part(&page, "wrong").contains("Nothing is wrong"), "{page}");
    assert!(!page.contains("difference"), "there is no shadow policy");
}

#[test]
fn a_page_is_not_framed_cached_or_scripted() {
    let server = Server::start(&example("people"), &["--console"]);
    for path in ["/console", "/console/style.css", "/console/icon.svg"] {
        let (head, body) = ask(&server, &format!("GET {path} HTTP/1.1\r\nhost: localhost"));
        assert!(head.starts_with("http/1.1 200 ") && !body.is_empty(), "{head}");
        for wanted in [
            "content-security-policy: default-src 'none'; style-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-opener-policy: same-origin",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(wanted), "{path} has no {wanted}: {head}");
        }
        assert!(
            !body.contains("<script") && !body.contains(" style=") && !body.contains(" onclick="),
            "{path}"
        );
    }
}

#[test]
fn only_reads_of_this_machine_are_answered() {
    let server =
        Server::start(&example("people"), &["--console", "--console-host", "console.internal"]);
    let status = |head: &str| ask(&server, head).0.split(' ').nth(1).map(str::to_owned).unwrap();
    for (head, wanted) in [
        ("GET /console HTTP/1.1\r\nhost: 127.0.0.1:9192", "200"),
        ("HEAD /console HTTP/1.1\r\nhost: [::1]", "200"),
        ("GET /console HTTP/1.1\r\nhost: Console.Internal", "200"),
        ("GET /console HTTP/1.1\r\nhost: rebound.example", "403"),
        ("GET /console HTTP/1.1\r\nhost: 10.0.0.1", "403"),
        ("GET /console/nothing HTTP/1.1\r\nhost: localhost", "404"),
        ("POST /console HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0", "405"),
        ("PUT /console HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0", "405"),
        // Probes and Prometheus name the address of the pod.
        ("GET /readyz HTTP/1.1\r\nhost: 10.0.0.1", "200"),
    ] {
        assert_eq!(status(head), wanted, "{head}");
    }
    let long = format!("GET /console?path={} HTTP/1.1\r\nhost: localhost", "a".repeat(5000));
    assert_eq!(status(&long), "414");
}

/// A website cannot make the browsers of its visitors load pages, not even to keep the console
/// busy; it may link to them.
#[test]
fn no_website_loads_a_page() {
    let server = Server::start(&example("people"), &["--console"]);
    let status = |path: &str, headers: &[&str]| {
        let lines = headers.iter().map(|line| format!("\r\n{line}")).collect::<String>();
        let (head, _) = ask(&server, &format!("GET {path} HTTP/1.1\r\nhost: localhost{lines}"));
        head.split(' ').nth(1).map(str::to_owned).unwrap()
    };
    let link = ["sec-fetch-mode: navigate", "sec-fetch-dest: document"];
    let image = ["sec-fetch-mode: no-cors", "sec-fetch-dest: image"];
    let frame = ["sec-fetch-mode: navigate", "sec-fetch-dest: iframe"];
    for path in
        ["/console", "/console?of_user=a", "/console/style.css", "/readyz", "/metrics", "/nothing"]
    {
        let found = if path == "/nothing" { "404" } else { "200" };
        for site in ["cross-site", "same-site"] {
            let site = format!("sec-fetch-site: {site}");
            assert_eq!(status(path, &[&site]), "403", "{path} {site}");
            for more in [&image, &frame] {
                assert_eq!(
                    status(path, &[&site, more[0], more[1]]),
                    "403",
                    "{path} {site} {more:?}"
                );
            }
            assert_eq!(status(path, &[&site, link[0], link[1]]), found, "{path} {site}, by a link");
        }
        assert_eq!(status(path, &["sec-fetch-site: none", link[0], link[1]]), found);
        assert_eq!(status(path, &["sec-fetch-site: same-origin", image[0], image[1]]), found);
        assert_eq!(status(path, &[]), found, "probes and Prometheus");
    }
}

#[tokio::test]
async fn the_last_denials_link_to_their_explanation() {
    let server = Server::start(&example("people"), &["--console"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let alice = basic("alice:wonderland");
    let headers = [("authorization", alice.as_str()), ("x-request-id", "1f2c83c5")];
    assert_eq!(envoy.check("POST", "/people", &headers).await, Answer::Http(403));
    assert_eq!(envoy.check("GET", "/people", &headers).await, Answer::Http(200));
    let shown = page(&server, "");
    let denials = part(&shown, "denials");
    for wanted in ["not_allowed", "alice", "POST", "/people", "1f2c83c5"] {
        assert!(denials.contains(wanted), "no {wanted} in {denials}");
    }
    let link = denials.split("href=\"/console?").nth(1).unwrap().split("#explain").next().unwrap();
    let explained = page(&server, &link.replace("&amp;", "&"));
    let explained = part(&explained, "explain");
    assert!(
        explained.contains("✗ 403 denied") && explained.contains("admin: POST /people"),
        "{explained}"
    );
    assert!(explained.contains("the user `bob` by Basic"), "who may: {explained}");
    assert!(
        explained.contains("This assumes that the credentials of <code>alice</code> are valid"),
        "{explained}"
    );
    let traffic = part(&shown, "traffic");
    assert!(
        traffic.contains("<code>not_allowed</code>") && traffic.contains("50.0 %"),
        "{traffic}"
    );
}

#[tokio::test]
async fn denials_are_found_by_id_and_by_user() {
    let server = Server::start(&example("people"), &["--console"]);
    let mut envoy = Envoy::connect(server.address()).await;
    for (id, user) in
        [("1001", "alice:wonderland"), ("1002", "alice:wonderland"), ("1003", "eve:guessed")]
    {
        let authorization = basic(user);
        let headers = &[("authorization", &*authorization)][..];
        envoy
            .send(Checked { id, method: "POST", path: "/people", headers, ..Checked::default() })
            .await;
    }
    let found = |fields: &[(&str, &str)]| {
        let page = page(&server, &query(fields));
        let denials = part(&page, "denials");
        ["1001", "1002", "1003"].map(|id| denials.contains(&format!("<code>{id}</code>")))
    };
    // Equal denials are in one row, which shows the newest.
    assert_eq!(found(&[]), [false, true, true]);
    assert_eq!(found(&[("denied_id", "1001")]), [true, false, false]);
    assert_eq!(found(&[("denied_user", "eve")]), [false, false, true]);
    assert_eq!(found(&[("denied_user", "alice"), ("denied_id", "1003")]), [false; 3]);
    let filtered = page(&server, "denied_user=alice&refresh");
    for wanted in ["2 of 3 denials", " UTC<br>", "value=\"alice\"", "name=\"refresh\""] {
        assert!(part(&filtered, "denials").contains(wanted), "no {wanted} in {filtered}");
    }
    assert!(filtered.contains("<a href=\"/console?denied_user=alice\">stop</a>"), "{filtered}");
}

/// What clients send is text, wherever it is shown.
#[tokio::test]
async fn markup_of_clients_is_escaped() {
    let server = Server::start(&example("people"), &["--console"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let script = "<script>alert(1)</script>\"'>";
    let claimed = basic(&format!("{script}:x"));
    let headers = [("authorization", claimed.as_str()), ("x-request-id", script)];
    envoy.check("GET", &format!("/{script}"), &[("x-request-id", script)]).await;
    envoy.check("GET", "/people", &headers).await;
    let asked = query(&[
        ("method", script),
        ("host", script),
        ("path", script),
        ("user", script),
        ("roles", script),
        ("denied_id", script),
        ("denied_user", script),
        ("of_user", script),
        ("of_role", script),
        ("on_path", script),
    ]);
    for query in
        ["", &asked, &query(&[("path", "/a"), ("user", script)]), &query(&[("of_role", script)])]
    {
        let page = page(&server, query);
        assert!(!page.contains("<script") && !page.contains("\"'>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "it is shown, as text");
    }
}

#[tokio::test]
async fn masks_of_the_decision_log_apply() {
    let args = [
        "--console",
        "--decision-log-mask-path",
        "/people/{id}",
        "--decision-log-mask-users",
        "hash",
    ];
    let server = Server::start(&example("people"), &args);
    let mut envoy = Envoy::connect(server.address()).await;
    let alice = basic("alice:wonderland");
    envoy.check("GET", "/people/zoe7301", &[("authorization", &alice)]).await;
    let hashed = server.wait_for_decision()["user"].as_str().unwrap().to_owned();
    let page = page(&server, "");
    let denials = part(&page, "denials");
    assert!(
        denials.contains("/people/*") && !denials.contains("zoe7301") && !denials.contains("alice"),
        "{denials}"
    );
    assert!(denials.contains(&hashed), "the same hash as in the log, {hashed}: {denials}");
}

/// No password, hash, token or cookie, and no value of a header that the policy sets.
#[tokio::test]
async fn no_page_shows_a_secret() {
    let [policy, shadow] = ["hush-hush", "hush-too"].map(|value| {
        PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  basic:\n    users:\n      ann: {{ password: \"{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" }}\n\
             roles:\n  authenticated: {{ allow: [GET /a] }}\n\
             allow_response:\n  set_headers: {{ x-upstream-key: {value} }}\n",
        ))
    });
    let server = Server::start(&policy.arg(), &["--console", "--shadow", &shadow.arg()]);
    let mut envoy = Envoy::connect(server.address()).await;
    for credentials in ["ann:password", "ann:swordfish"] {
        let headers =
            [("authorization", basic(credentials)), ("cookie", "session=c00kie".to_owned())];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        envoy.check("GET", "/b?token=t0ken", &headers).await;
    }
    for query in ["", "path=/a&user=ann", "of_user=ann", "path=/b%3Ftoken=q"] {
        let page = page(&server, query);
        for secret in ["hush-hush", "hush-too", "swordfish", "W6ph5Mm5", "c00kie", "t0ken"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    }
    assert!(page(&server, "path=/a&user=ann").contains("x-upstream-key: (not shown)"));
    wait_until(
        || page(&server, "").contains("allow_response.set_headers.x-upstream-key changed"),
        || page(&server, ""),
    );
    assert!(!page(&server, "").contains("hush"));
}

/// The rules of a user are those of nobody where nobody can sign in.
#[test]
fn the_rules_of_a_user_say_that_nobody_can_sign_in() {
    const NOBODY: &str = "nobody can sign in";
    let folder = PolicyFolder::new(
        "version: 1\nroles: { r: { allow: [GET /open] } }\ngrants: { r: { users: [ann] } }\n",
    );
    let server = Server::start(&folder.arg(), &["--console"]);
    assert!(part(&page(&server, "of_user=ann"), "rules").contains(NOBODY));
    assert!(!part(&page(&server, ""), "rules").contains(NOBODY));
    let server = Server::start(&example("people"), &["--console"]);
    assert!(!part(&page(&server, "of_user=alice"), "rules").contains(NOBODY));
}

#[test]
fn the_rules_are_searched_by_user_role_and_path() {
    let server = Server::start(&example("people"), &["--console"]);
    let rules = |fields: &[(&str, &str)]| {
        let page = page(&server, &query(fields));
        let part = part(&page, "rules").to_owned();
        let rows = part.matches("<tr><th scope=\"row\">").count();
        (rows, part)
    };
    let (rows, all) = rules(&[]);
    assert!(rows == 2 && all.contains("the users `alice` and `bob`"), "{all}");
    assert!(all.contains("the user `bob`"), "{all}");
    assert_eq!(rules(&[("of_user", "alice")]).0, 1);
    assert_eq!(rules(&[("of_user", "bob")]).0, 2);
    assert_eq!(rules(&[("of_role", "adm")]).0, 1);
    assert_eq!(rules(&[("on_path", "/people")]).0, 2);
    assert_eq!(rules(&[("on_path", "/elsewhere")]).0, 0);
    let (rows, unknown) = rules(&[("of_user", "alic")]);
    assert!(rows == 0 && unknown.contains("did you mean `alice`?"), "{unknown}");
}

/// A chain of 400 roles that extend each other has 80,000 pairs. A page that listed them would be
/// larger than any browser shows.
#[test]
fn a_long_chain_of_roles_is_answered() {
    let mut policy = "version: 1\nidentity: { basic: { verify: false } }\nroles:\n".to_owned();
    for role in 0..400 {
        let extends = if role > 0 { format!("extends: [r{}], ", role - 1) } else { String::new() };
        writeln!(policy, "  r{role}: {{ {extends}allow: [\"GET /a/{{id}}/**\", GET /{role}] }}")
            .unwrap();
    }
    policy += "grants:\n  r399: { users: [ann] }\n";
    let server = Server::start(&PolicyFolder::new(&policy).arg(), &["--console"]);
    let path = "/a".repeat(900);
    for (query, part_of, wanted) in [
        ("", "rules", "the user `ann`"),
        ("of_role=r", "rules", "the user `ann`"),
        ("of_user=ann", "rules", "800 rules"),
        ("path=/2&user=ann", "explain", "✓ 200 allowed"),
        (&format!("path={path}&user=ann"), "explain", "more rules match and are not listed"),
        (&format!("path={path}&user=bob"), "explain", "✗ 403 denied"),
    ] {
        let page = page(&server, query);
        let part = part(&page, part_of);
        assert!(part.contains(wanted), "no {wanted} for {query}");
        assert!(page.len() < 2 << 20, "{} bytes for {query}", page.len());
    }
}

/// What roles of a search cluster permit, and who has them.
#[test]
fn roles_of_a_search_cluster_are_in_the_table() {
    let server = Server::start(&example("search"), &["--console"]);
    let rules = |fields: &[(&str, &str)]| {
        let page = page(&server, &query(fields));
        let part = part(&page, "rules").to_owned();
        let names = part.split("<th scope=\"rowgroup\"").skip(1).filter_map(|rest| {
            let (_, name) = rest.split_once('>')?;
            Some(name.split('<').next()?.to_owned())
        });
        (names.collect::<Vec<_>>(), part)
    };
    let (names, all) = rules(&[]);
    assert_eq!(names, ["all_access", "ingest", "logs_reader", "own_orders"], "{all}");
    for wanted in [
        "<code>logs-*</code>",
        "<code>write, create_index, indices:admin/mapping/put</code>",
        "<code>cluster_composite_ops</code>",
        "<code>orders-${user.name}</code>",
        "the user `shipper`",
        "the backend role `oncall`",
        "everybody with valid credentials",
        "search.example.com, localhost",
    ] {
        assert!(all.contains(wanted), "no {wanted} in {all}");
    }
    assert_eq!(rules(&[("of_user", "leo")]).0, ["logs_reader", "own_orders"]);
    assert_eq!(rules(&[("of_role", "ing")]).0, ["ingest"]);
    assert_eq!(rules(&[("on_path", "/logs-7/_search")]).0, ["all_access", "ingest", "logs_reader"]);
    assert_eq!(rules(&[("on_path", "orders-")]).0, ["all_access", "own_orders"]);
    let (names, unknown) = rules(&[("of_user", "leoo")]);
    assert!(names.is_empty() && unknown.contains("did you mean `leo`?"), "{unknown}");
    let page = page(&Server::start(&example("people"), &["--console"]), "");
    assert!(!page.contains("search cluster"), "there is none");
}

#[test]
fn what_is_wrong_comes_first() {
    let policy = PolicyFolder::new("version: 1\nroles:\n  anyone: { allow: [GET /a] }\n");
    let server = Server::start(&policy.arg(), &["--console", "--poll-interval", "50ms"]);
    policy.write("policy.yaml", "version: 1\nroles:\n  anyone: { alow: [GET /a] }\n");
    let wrong = || part(&page(&server, ""), "wrong").to_owned();
    wait_until(|| wrong().contains("the changed policy does not load"), wrong);
    let shown = wrong();
    assert!(
        shown.contains("Problem") && shown.contains("policy.yaml:3:13") && shown.contains("allow"),
        "{shown}"
    );
    assert!(page(&server, "").contains("<title>1 problem · rolegate</title>"));
    policy.write("policy.yaml", "version: 1\nroles:\n  anyone: { allow: [GET /b] }\n");
    wait_until(|| wrong().contains("Nothing is wrong"), wrong);
}

#[test]
fn the_difference_to_the_shadow_policy_is_shown_and_follows_it() {
    let policy = |path: &str| format!("version: 1\nroles:\n  anyone: {{ allow: [GET {path}] }}\n");
    let (active, shadow) = (PolicyFolder::new(&policy("/a")), PolicyFolder::new(&policy("/b")));
    let args = ["--console", "--shadow", &shadow.arg(), "--poll-interval", "50ms"];
    let server = Server::start(&active.arg(), &args);
    let difference = || part(&page(&server, ""), "difference").to_owned();
    wait_until(|| difference().contains("1 granted, 1 revoked"), difference);
    assert!(difference().contains("to anyone, also without credentials"), "{}", difference());
    shadow.write("policy.yaml", &policy("/a"));
    wait_until(|| difference().contains("no difference"), difference);
}

#[test]
fn who_speaks_another_protocol_is_noticed() {
    let server = Server::start(&example("people"), &["--console"]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let wrong = || part(&page(&server, ""), "wrong").to_owned();
    wait_until(|| wrong().contains("not ext_authz over gRPC: 1 in the last minutes"), wrong);
}

/// However many ask at once, probes are answered, and each client gets a page or is told to come
/// back.
#[test]
fn many_readers_starve_no_probe() {
    let server = Server::start(&example("people"), &["--console"]);
    let asks: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(server.admin()).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            write!(
                stream,
                "GET /console?path=/people&user=bob HTTP/1.1\r\nhost: localhost\r\n\r\n"
            )
            .unwrap();
            stream
        })
        .collect();
    assert_eq!(server.page("/readyz").0, 200);
    let mut shown = 0;
    for mut stream in asks {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["200", "503"].contains(&status), "{answer}");
        shown += usize::from(status == "200");
    }
    assert!(shown > 0);
    assert_eq!(server.page("/console").0, 200);
}
