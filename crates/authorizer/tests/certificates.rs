//! Requests with client certificates: which of them count, and beside which credentials.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Outcome, Reason, Request, Scratch, Verdict};
use document::MapFiles;
use identity::{Certificate, CredentialsError};

const USERS: &str = r#"users: { "spiffe://example.org/{sa}": "{sa}", "dns:api": api }"#;
const XFCC: &str = "x-forwarded-client-cert";
const BOT: &str = "By=spiffe://example.org/proxy;Hash=1;URI=spiffe://example.org/bot";
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn authorizer(from: &str) -> Authorizer {
    authorizer_where(from, "source.certificate.exists(n, n.startsWith('spiffe://'))")
}

/// Where the rule for `/mesh` has this condition.
fn authorizer_where(from: &str, condition: &str) -> Authorizer {
    let policy = format!(
        r#"
version: 1
identity:
  basic: {{ realm: people, verify: false }}
  certificates: {{ {from}, {USERS} }}
roles:
  anyone: {{ allow: [GET /open] }}
  authenticated: {{ user_id_from: [certificates], allow: ["GET /of/{{user.id}}"] }}
  meshed: {{ allow: [{{ rule: GET /mesh, when: "{condition}" }}] }}
  scheme: {{ allow: [{{ rule: GET /scheme, when: "scheme == 'certificate'" }}] }}
grants: {{ meshed: {{ users: [alice, bot] }}, scheme: {{ users: [alice, bot] }} }}
"#
    );
    let files = MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let fetched = identity::FetchedKeys::new();
    Authorizer::compile(Arc::new(loaded), &fetched, None).unwrap().0
}

/// Basic `alice:x`.
const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6eA==");

/// The reason of a denial.
fn check(
    authorizer: &Authorizer,
    (path, peer): (&str, &str),
    certificate: Option<Certificate<'_>>,
    headers: &[(&str, &str)],
) -> Option<Reason> {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: b"GET",
        path: path.as_bytes(),
        headers: &headers,
        client: b"10.0.0.1",
        peer: peer.as_bytes(),
        certificate,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let deferred = match authorizer.check(&request, None, &mut scratch, NOW) {
        Outcome::Decided(verdict) => reason(&verdict),
        Outcome::Pending(_) => panic!("nothing is verified later"),
    };
    let mut scratch = Scratch::default();
    let inline = authorizer.check_inline(&request, &mut scratch, NOW);
    assert_eq!(deferred, reason(&inline));
    deferred
}

fn reason(verdict: &Verdict<'_>) -> Option<Reason> {
    match verdict {
        Verdict::Allowed(_) => None,
        Verdict::Denied(denied) => Some(denied.reason),
    }
}

const MISSING: Option<Reason> = Some(Reason::MissingCredentials);

#[test]
fn only_a_trusted_proxy_names_certificates() {
    let authorizer = authorizer("from: xfcc, trusted_proxies: [10.0.0.0/8, \"2001:db8::7\"]");
    let bot = &[(XFCC, BOT)];
    for (peer, wanted) in [
        ("10.1.2.3", None),
        ("::ffff:10.1.2.3", None),
        ("2001:db8::7", None),
        ("2001:db8::8", MISSING),
        ("11.0.0.1", MISSING),
        ("", MISSING),
        ("10.1.2.3:80", MISSING),
        ("proxy", MISSING),
    ] {
        assert_eq!(check(&authorizer, ("/of/bot", peer), None, bot), wanted, "{peer}");
        // What others write is not even read.
        let broken = if wanted.is_none() { Some(Reason::MalformedXfcc) } else { None };
        assert_eq!(check(&authorizer, ("/open", peer), None, &[(XFCC, "\"")]), broken, "{peer}");
    }
    // The certificate of the connection is that of the proxy.
    let proxy = Some(Certificate::Principal(b"spiffe://example.org/bot"));
    assert_eq!(check(&authorizer, ("/of/bot", "10.0.0.1"), proxy, &[]), MISSING);
    assert_eq!(check(&authorizer, ("/of/bot", "1.2.3.4"), proxy, &[]), MISSING);
}

#[test]
fn only_the_last_element_of_all_lines_counts() {
    let authorizer = authorizer("from: xfcc, trusted_proxies: [10.0.0.0/8]");
    let evil = "By=a;Hash=1;URI=spiffe://example.org/evil";
    let cases: &[(&[&str], Option<Reason>)] = &[
        (&[BOT], None),
        (&[evil, BOT], None),
        (&[&format!("{evil},{BOT}")], None),
        (&[BOT, evil], Some(Reason::NotAllowed)),
        (&[&format!("{BOT},{evil}")], Some(Reason::NotAllowed)),
        (&[&format!("{BOT},By=a;Hash=2")], MISSING),
        (&[&format!("{BOT};URI=spiffe://example.org/evil")], Some(several())),
        (&[&format!("{BOT};DNS=api")], Some(several())),
        (&[&format!("By=a;Subject=\"CN=x,{BOT}\"")], MISSING),
        (&[""], Some(Reason::MalformedXfcc)),
        (&["", BOT], Some(Reason::MalformedXfcc)),
        (&[BOT, ""], Some(Reason::MalformedXfcc)),
        (&["URI=\"", BOT], Some(Reason::MalformedXfcc)),
    ];
    for (lines, wanted) in cases {
        let headers: Vec<_> = lines.iter().map(|line| ("X-Forwarded-Client-Cert", *line)).collect();
        assert_eq!(
            check(&authorizer, ("/of/bot", "10.0.0.1"), None, &headers),
            *wanted,
            "{lines:?}"
        );
    }
    // No alias is the header.
    let alias = &[("x_forwarded_client_cert", BOT), ("x-forwarded-client-certs", BOT)];
    assert_eq!(check(&authorizer, ("/of/bot", "10.0.0.1"), None, alias), MISSING);
}

fn several() -> Reason {
    Reason::InvalidCredentials(CredentialsError::SeveralUsers)
}

#[test]
fn with_peer_no_header_counts() {
    let authorizer = authorizer("from: peer");
    let bot = Some(Certificate::Principal(b"spiffe://example.org/bot"));
    assert_eq!(check(&authorizer, ("/of/bot", "10.0.0.1"), None, &[(XFCC, BOT)]), MISSING);
    assert_eq!(check(&authorizer, ("/open", "10.0.0.1"), None, &[(XFCC, "\"")]), None);
    assert_eq!(check(&authorizer, ("/of/bot", ""), bot, &[(XFCC, "URI=evil")]), None);
}

#[test]
fn other_credentials_win_over_a_certificate() {
    let authorizer = authorizer("from: peer");
    let bot = Some(Certificate::Principal(b"spiffe://example.org/bot"));
    let two = Some(Certificate::FirstNames { uri: b"spiffe://example.org/bot", dns: b"api" });
    let broken = Some(Certificate::Pem(b"x"));
    let failed = Some(Reason::ConditionFailed);
    let malformed = Reason::InvalidCredentials(CredentialsError::MalformedCertificate);
    for (path, certificate, headers, wanted) in [
        ("/of/alice", bot, &[ALICE][..], Some(Reason::NotAllowed)),
        ("/mesh", bot, &[ALICE], None),
        ("/mesh", bot, &[], None),
        ("/mesh", two, &[ALICE], None),
        ("/mesh", None, &[ALICE], failed),
        ("/mesh", broken, &[ALICE], failed),
        ("/mesh", Some(Certificate::Principal(b"api")), &[ALICE], failed),
        ("/scheme", bot, &[], None),
        ("/scheme", bot, &[ALICE], failed),
        ("/open", two, &[ALICE], None),
        ("/open", two, &[], Some(several())),
        ("/open", broken, &[], Some(malformed)),
        ("/open", Some(Certificate::Principal(b"other")), &[], None),
        ("/mesh", Some(Certificate::Principal(b"other")), &[], MISSING),
    ] {
        assert_eq!(
            check(&authorizer, (path, ""), certificate, headers),
            wanted,
            "{path} {certificate:?}"
        );
    }
}

#[test]
fn a_known_caller_costs_no_allocation() {
    for from in ["from: peer", "from: xfcc, trusted_proxies: [10.0.0.0/8]"] {
        // Names for conditions are allocated.
        let authorizer = authorizer_where(from, "user == 'bot'");
        let headers = [
            Header { name: b"authorization", value: b"Basic YWxpY2U6eA==" },
            Header { name: XFCC.as_bytes(), value: BOT.as_bytes() },
        ];
        let principal = Some(Certificate::Principal(b"spiffe://example.org/bot"));
        for (headers, certificate) in
            [(&headers[..1], None), (&headers[1..], principal), (&headers[..0], None)]
        {
            let request = Request {
                method: b"GET",
                path: b"/open",
                headers,
                peer: b"10.0.0.1",
                certificate,
                ..Request::default()
            };
            let mut scratch = Scratch::default();
            let mut ask = || {
                let outcome = authorizer.check(&request, None, &mut scratch, NOW);
                assert!(matches!(outcome, Outcome::Decided(Verdict::Allowed(_))));
            };
            ask();
            assert_eq!(measure(ask).count_total, 0, "{from} {certificate:?}");
        }
    }
}

/// A 401 has a challenge also where only certificates are accepted.
#[test]
fn a_denial_asks_for_a_certificate() {
    let files = MapFiles::new(
        "policy.yaml",
        format!(
            "version: 1\nidentity: {{ certificates: {{ from: peer, {USERS} }} }}\nroles: {{ authenticated: {{ allow: [GET /a] }} }}\n"
        ),
    );
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let fetched = identity::FetchedKeys::new();
    let (authorizer, _) = Authorizer::compile(Arc::new(loaded), &fetched, None).unwrap();
    let request = Request { method: b"GET", path: b"/a", ..Request::default() };
    let mut scratch = Scratch::default();
    let Verdict::Denied(denied) = authorizer.check_inline(&request, &mut scratch, NOW) else {
        panic!("it was allowed")
    };
    let challenges = denied.headers.iter().filter(|header| header.name == "www-authenticate");
    let challenges: Vec<&str> = challenges.map(|header| &*header.value).collect();
    assert_eq!(challenges, ["ClientCertificate realm=\"rolegate\""]);
}
