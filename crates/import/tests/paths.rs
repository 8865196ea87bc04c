//! Whatever a matcher of paths is, no imported rule allows a path that the original does not.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]
#![expect(clippy::panic, reason = "a difference is a failed test")]

use std::path::{Path, PathBuf};

use document::MapFiles;
use fastrand::Rng;
use import::{Effect, Imported, Options, envoy_rbac, istio};
use policy::canonical::{self, Buffers};
use policy::reference::{self, Caller};
use policy::{AccessRequest, Decision, Policy};
use serde_json::json;

const PIECES: [&str; 16] =
    ["/", "/", "/", "a", "a", "b", "A", "ab", ".", "..", "%2F", "%61", ";x", "*", "?", "%"];

/// A condition on a path that both Envoy and Istio have.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Exact,
    Prefix,
    Suffix,
}

#[test]
fn no_imported_rule_allows_a_path_that_the_original_does_not() {
    let mut rng = Rng::with_seed(11);
    let (mut allowed, mut exact) = (0, 0);
    for number in 0..1_000 {
        let kind = [Kind::Exact, Kind::Prefix, Kind::Prefix, Kind::Suffix][rng.usize(..4)];
        let (text, ignore_case) = (text(&mut rng), rng.u8(..4) == 0);
        for is_deny in [false, true] {
            let from_envoy = envoy_with((kind, &text, ignore_case), is_deny, &Options::default());
            // Istio's `*` is only at an end.
            let from_istio = (!text.contains('*'))
                .then(|| istio_with((kind, &text), is_deny, &Options::default()));
            for (imported, ignores_case) in std::iter::once((from_envoy, ignore_case))
                .chain(from_istio.map(|imported| (imported, false)))
            {
                let policy = loaded(&imported);
                let is_exact = imported.notes.iter().all(|note| note.effect == Effect::Same);
                exact += u32::from(is_exact);
                for _ in 0..10 {
                    let path = path(&mut rng, &text);
                    let theirs = matches(kind, &text, &path, ignores_case) != is_deny;
                    let ours = is_allowed(&policy, &path);
                    let shown = || {
                        format!(
                            "{number}: {kind:?} `{text}`, deny {is_deny}: `{path}`\n{}\n{:#?}",
                            imported.policy, imported.notes
                        )
                    };
                    // Other spellings of an allowed path are allowed, too. Those of a denied one
                    // are not, as long as no dot segments lead elsewhere.
                    if is_canonical(&path) || is_deny && !path.contains('.') {
                        assert!(theirs || !ours, "rolegate allows more: {}", shown());
                    }
                    if is_canonical(&path) && is_exact {
                        assert!(
                            ours || !theirs,
                            "rolegate allows less without a note: {}",
                            shown()
                        );
                    }
                    allowed += u32::from(ours);
                }
            }
        }
    }
    println!("{exact} exact policies, {allowed} requests allowed");
    assert!(exact > 500 && allowed > 1_000);
}

/// What `--allow-wider` accepts is a bit more, and not every path.
#[test]
fn a_prefix_that_is_not_canonical_never_becomes_every_path() {
    for text in ["//", "///", "//a", "/./", "/a/../", "/.", "/%2F"] {
        for options in [Options::default(), Options { allow_wider: true, ..Options::default() }] {
            for imported in [
                envoy_with((Kind::Prefix, text, false), false, &options),
                istio_with((Kind::Prefix, text), false, &options),
            ] {
                assert!(!is_allowed(&loaded(&imported), "/b"), "{text}: {}", imported.policy);
            }
        }
    }
    // rolegate answers 400 to each path that begins so.
    for imported in [
        envoy_with((Kind::Prefix, "//", false), true, &Options::default()),
        istio_with((Kind::Prefix, "//"), true, &Options::default()),
    ] {
        assert!(!imported.is_stricter(), "{:?}", imported.notes);
        let policy = loaded(&imported);
        assert!(is_allowed(&policy, "/b") && !is_allowed(&policy, "//b"), "{}", imported.policy);
    }
}

fn text(rng: &mut Rng) -> String {
    let start = if rng.u8(..8) == 0 { "" } else { "/" };
    (0..rng.usize(..5)).fold(start.to_owned(), |text, _| text + PIECES[rng.usize(..PIECES.len())])
}

/// Often one that begins or ends with this.
fn path(rng: &mut Rng, text: &str) -> String {
    let more = self::text(rng);
    match rng.u8(..5) {
        0 => more,
        1 => format!("/{}", text.replace("//", "/").trim_start_matches('/')),
        2 => text.to_ascii_lowercase(),
        3 => format!("{more}{text}"),
        _ => format!("{text}{more}"),
    }
}

fn matches(kind: Kind, text: &str, path: &str, ignore_case: bool) -> bool {
    let path = path.split(['?', '#']).next().unwrap();
    let lowered =
        |text: &str| if ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let (text, path) = (lowered(text), lowered(path));
    match kind {
        Kind::Exact => path == text,
        Kind::Prefix => path.starts_with(&text),
        Kind::Suffix => path.ends_with(&text),
    }
}

fn envoy_with(
    (kind, text, ignore_case): (Kind, &str, bool),
    is_deny: bool,
    options: &Options,
) -> Imported {
    let kind = format!("{kind:?}").to_lowercase();
    let original = json!({ "rules": { "action": if is_deny { "DENY" } else { "ALLOW" }, "policies": { "one": {
        "permissions": [{ "url_path": { "path": { kind: text, "ignore_case": ignore_case } } }],
        "principals": [{ "any": true }],
    } } } });
    envoy_rbac(Path::new("in"), original.to_string().as_bytes(), options).unwrap()
}

fn istio_with((kind, text): (Kind, &str), is_deny: bool, options: &Options) -> Imported {
    let path = match kind {
        Kind::Exact => text.to_owned(),
        Kind::Prefix => format!("{text}*"),
        Kind::Suffix => format!("*{text}"),
    };
    let policy = |action: &str, rule| json!({ "kind": "AuthorizationPolicy", "metadata": { "name": action }, "spec": { "action": action, "rules": [rule] } });
    let rule = json!({ "to": [{ "operation": { "paths": [path] } }] });
    let items = match is_deny {
        true => json!([policy("DENY", rule), policy("ALLOW", json!({}))]),
        false => json!([policy("ALLOW", rule)]),
    };
    let text = json!({ "items": items }).to_string();
    istio(&[(PathBuf::from("in"), text.into_bytes())], options).unwrap()
}

fn loaded(imported: &Imported) -> Policy {
    let files = MapFiles::new("policy.yaml", imported.policy.as_bytes());
    let loaded = policy::load(&files, Path::new("policy.yaml"));
    loaded.unwrap_or_else(|problems| panic!("{}\n{problems:?}", imported.policy)).policy
}

/// Each interpretation of the path must be allowed, and none that an application may have denied.
fn is_allowed(policy: &Policy, path: &str) -> bool {
    let mut buffers = Buffers::default();
    let Ok(paths) = canonical::path(b"GET", path.as_bytes(), &mut buffers) else { return false };
    let decide = |path| {
        let request = AccessRequest { action: b"GET", scope: b"a.test", resource: path };
        reference::decide(policy, &Caller::default(), &request)
    };
    paths.all().all(|path| matches!(decide(path), Decision::Allowed(_)))
        && !paths.deny_only().any(|path| matches!(decide(path), Decision::Denied(_)))
}

fn is_canonical(path: &str) -> bool {
    let mut buffers = Buffers::default();
    canonical::path(b"GET", path.as_bytes(), &mut buffers)
        .is_ok_and(|paths| paths.is_only() && paths.first() == path.as_bytes())
}
