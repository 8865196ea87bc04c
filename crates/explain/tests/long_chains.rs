//! What people ask about a policy costs work that is linear in it, also if its roles extend each
//! other in a long chain: then there are millions of pairs of a role and one that it has.
//! Allocations are counted, as times depend on the machine.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Request};
use explain::{ExplainedSubject, Explainer, NamedCaller};

const NOW: Duration = Duration::from_secs(1_800_000_000);
const ISSUERS: &str = "identity:
  jwt:
    - { issuer: https://id.example.com, audiences: [a], keys: { url: https://id.example.com/k }, claims: { user: sub, roles: roles, groups: groups } }
";

/// Each role extends the one before it, is granted to a user, and allows a path that all allow, and
/// one of its own. The user `last` has all roles. The second has a condition.
fn chain(length: usize) -> Authorizer {
    let mut text = format!("version: 1\n{ISSUERS}roles:\n");
    for role in 0..length {
        let start = match role {
            0 => String::new(),
            1 => "extends: [r0], when: \"request.headers['x-a'] == 'b'\", ".to_owned(),
            _ => format!("extends: [r{}], ", role - 1),
        };
        writeln!(
            text,
            "  r{role}: {{ {start}allow: [\"GET /all/{{id}}\", \"GET /{role}/{{user}}\"] }}"
        )
        .unwrap();
    }
    text += "grants:\n";
    for role in 0..length {
        let last = if role + 1 == length { ", last" } else { "" };
        writeln!(text, "  r{role}: {{ users: [u{role}{last}] }}").unwrap();
    }
    let files = document::MapFiles::new("policy.yaml", text);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn request(path: &str) -> Request<'_> {
    Request { method: b"GET", host: b"a.example", path: path.as_bytes(), ..Request::default() }
}

#[track_caller]
fn is_linear(ask: impl Fn(&Authorizer)) {
    let [short, long] = [500, 2000].map(|length| {
        let authorizer = chain(length);
        measure(|| ask(&authorizer)).count_total
    });
    assert!(long <= 5 * short, "{short} allocations for 500 roles, {long} for 2000");
}

#[test]
fn who_can_is_linear() {
    for path in ["/all/7", "/0/u7", "/7/nobody", "/nothing/at/all"] {
        is_linear(|authorizer| {
            drop(Explainer::new(authorizer).who_can_listing(&request(path), NOW, 50))
        });
    }
}

#[test]
fn an_explanation_is_linear() {
    for (path, user) in [
        ("/all/7", "u499"),
        ("/all/7", "last"),
        ("/0/u499", "u499"),
        ("/nothing", "u499"),
        ("/all/7", "nobody"),
    ] {
        is_linear(|authorizer| {
            let named = NamedCaller { user, ..NamedCaller::default() };
            let subject = Explainer::new(authorizer).named_caller("", named).unwrap().unwrap();
            drop(
                Explainer::new(authorizer)
                    .explain(&request(path), ExplainedSubject::Given(subject), NOW)
                    .to_string(),
            );
        });
    }
}

#[test]
fn what_is_left_out_of_a_list_is_counted() {
    let authorizer = chain(100);
    let who = Explainer::new(&authorizer).who_can_listing(&request("/all/7"), NOW, 10);
    assert_eq!((who.rules.len(), who.notes.len()), (10, 1), "{who}");
    assert!(who.to_string().contains("90 more rules match and are not listed"), "{who}");
    let first = who.rules.first().unwrap();
    assert_eq!((first.roles.len(), first.more_roles), (10, 90));
    assert!(first.to_string().ends_with("`r8` and `r9` (and 90 more)"), "{first}");
    let whole = Explainer::new(&authorizer).who_can(&request("/all/7"), NOW);
    assert_eq!((whole.rules.len(), whole.notes.len()), (100, 0));
    assert!(whole.rules.iter().all(|rule| rule.more_roles == 0));
    assert_eq!(whole.rules.first().unwrap().roles.len(), 100);
}
