//! What holds of every text and of every policy.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use document::{MapFiles, Problem, Severity};
use generator::{Generator, Rng, Shape, to_yaml};
use lint::load;
use policy::model::{Effect, Policy, RoleId};
use policy::reference::decide;
use policy::{Decision, api_keys, cases, htpasswd};
use proptest::prelude::*;

const EXAMPLE: &str = r#"version: 1
identity:
  basic: { realm: people, users: { alice: { password: "$6$x$y", groups: [staff] } } }
  jwt:
    - { issuer: a, audiences: [x], keys: { url: "https://a.example/", refresh: 5m }, claims: { user: sub, roles: /r/s } }
include: [more.yaml]
roles:
  guest: { allow: ["GET /people", "GET|HEAD *.example.com/a/{id}/**", { methods: [GET], paths: ["/b%40/*.json"] }] }
  admin: { extends: [guest], allow: ["* /people/{user}"], deny: ["DELETE /people/1"] }
grants: { guest: { users: [alice] }, admin: { groups: [staff] } }
allow_response: { set_headers: { x-user: "{user} {claims./a}" }, remove_headers: [cookie] }
deny_response: { body: "no", content_type: text, explain: true }
"#;

/// Pieces of which policies are made, and of which YAML is made.
const PIECES: &[&str] = &[
    "version: 1",
    "roles:",
    "grants:",
    "identity:",
    "allow:",
    "deny:",
    "extends:",
    "users:",
    "include: [",
    "basic:",
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "  ",
    " ",
    "\t",
    "\r\n",
    ": ",
    ",",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "|",
    ">",
    "|-\n",
    "#",
    "&a",
    "*a",
    "!t",
    "!!str",
    "%",
    "---",
    "...",
    "<<",
    "~",
    "null",
    "1",
    "guest",
    "GET /a",
    "* /**",
    "/{user}",
    "%2F",
    "%zz",
    "..",
    "é",
    "\u{feff}",
    "\u{2028}",
    "\0",
    "\u{85}",
    "\\x41",
    "policy.yaml",
    "*.yaml",
    "$6$x$y",
];

fn load_text(text: &[u8]) -> Result<Policy, Vec<Problem>> {
    let files = MapFiles::new("policy.yaml", text).and("more.yaml", text);
    load(&files, Path::new("policy.yaml")).map(|loaded| loaded.policy)
}

/// Whatever is refused is refused for an error at a place, and shown on one line.
fn check_problems(problems: &[Problem]) {
    assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
    for problem in problems {
        assert!(problem.at.line > 0 && problem.at.column > 0);
        assert!(
            !problem.message.is_empty() && !problem.message.contains(char::is_control),
            "{problem}"
        );
    }
}

fn check_every_reader(text: &[u8]) {
    if let Err(problems) = load_text(text) {
        check_problems(&problems);
    }
    if let Err(problems) = cases::parse(Path::new("cases.yaml"), text) {
        check_problems(&problems);
    }
    let _ = htpasswd::parse(Path::new("users"), text);
    let _ = api_keys::parse(Path::new("keys.yaml"), text);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        check_every_reader(&text);
    }

    #[test]
    fn any_text_of_the_right_pieces_is_read_without_a_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        check_every_reader(pieces.concat().as_bytes());
    }

    #[test]
    fn a_changed_example_is_read_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..8_usize, prop::sample::select(PIECES)), 1..4),
    ) {
        let mut text = EXAMPLE.as_bytes().to_vec();
        for (at, length, piece) in changes {
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, piece.bytes());
        }
        check_every_reader(&text);
    }

    #[test]
    fn a_rule_of_any_text_is_read_without_a_panic(rule in "[GETP|* ]{0,6} ?[a-z*.\\[:]{0,4}[/a-z%0-9A-F*{}.;?é-]{0,20}") {
        let text = format!("version: 1\nroles: {{ r: {{ allow: [{:?}] }} }}\n", rule);
        if let Ok(policy) = load_text(text.as_bytes()) {
            let rule = &policy.roles[0].allow[0];
            prop_assert!(!rule.resources.is_empty());
        }
    }
}

/// Checking a suggestion for these must not lead to the same suggestion.
#[test]
fn braces_within_braces_are_an_error() {
    for rule in [
        "GET /{?*{}",
        "GET /{a{}",
        "GET /x{{}y}",
        "GET /${{}",
        "GET /{{{}}}",
        "GET /*{*{*}*",
        "GET /${${a}}",
    ] {
        let text = format!("version: 1\nroles: {{ r: {{ allow: [{rule:?}] }} }}\n");
        assert!(load_text(text.as_bytes()).is_err(), "{rule}");
    }
}

#[test]
fn the_example_is_a_policy() {
    let files = MapFiles::new("policy.yaml", EXAMPLE).and("more.yaml", "roles: {}");
    load(&files, Path::new("policy.yaml")).unwrap();
}

/// The text of a policy means what the policy means, down to the rule that decides.
#[test]
fn a_policy_that_is_written_and_read_means_the_same() {
    let usual = Shape::default();
    let shapes = [
        Shape { glob: 60, words: 40, depth: 2, ..usual.clone() },
        Shape { user: 20, user_id: 20, scopes: 60, slash: 20, ..usual.clone() },
        Shape { roles: 60, rules_per_role: 2, roles_per_caller: 20, users: 20, ..usual.clone() },
        usual,
    ];
    let (mut allowed, mut denied) = (0, 0);
    for (seed, shape) in (0..200).zip(shapes.iter().cycle()) {
        let mut generator = Generator::new(shape.clone(), seed);
        let policy = generator.policy();
        let read = load_text(to_yaml(&policy).as_bytes()).unwrap();
        assert_eq!(names(&read), names(&policy), "seed {seed}");
        for _ in 0..200 {
            let caller = generator.caller();
            let request = generator.request(&policy, &caller);
            let answer = decide(&read, &caller.borrowed(), &request.borrowed());
            let wanted = decide(&policy, &caller.borrowed(), &request.borrowed());
            assert_eq!(answer, wanted, "seed {seed}: {caller:?} {request:?}");
            allowed += usize::from(matches!(answer, Decision::Allowed(_)));
            denied += usize::from(matches!(answer, Decision::Denied(_)));
        }
    }
    assert!(allowed > 10_000 && denied > 2_000, "{allowed} are allowed, {denied} are denied");
}

/// What stands in the roles of a policy, by name.
fn names(policy: &Policy) -> Vec<(&str, &str, Effect)> {
    policy.rules().map(|(_, role, rule, effect)| (&*role.name, &*rule.name, effect)).collect()
}

#[test]
fn order_and_repetition_never_matter() {
    for seed in 0..150 {
        let mut generator = Generator::new(Shape::default(), seed);
        let policy = generator.policy();
        let other =
            load_text(to_yaml(&repeated(&reordered(&policy, seed), seed)).as_bytes()).unwrap();
        for _ in 0..60 {
            let caller = generator.caller();
            let request = generator.request(&policy, &caller);
            let answer = |policy| kind(decide(policy, &caller.borrowed(), &request.borrowed()));
            assert_eq!(answer(&other), answer(&policy), "seed {seed}: {caller:?} {request:?}");
        }
    }
}

fn kind(decision: Decision) -> &'static str {
    match decision {
        Decision::Allowed(_) => "allowed",
        Decision::Denied(_) => "denied",
        Decision::ConditionFailed(_) => "not allowed for a condition",
        Decision::NotAllowed => "not allowed",
    }
}

/// The same policy with its roles, rules and grants in another order.
fn reordered(policy: &Policy, seed: u64) -> Policy {
    let mut rng = Rng::new(seed);
    let mut order: Vec<usize> = (0..policy.roles.len()).collect();
    rng.shuffle(&mut order);
    let place = |old: RoleId| {
        let new = order.iter().position(|place| *place == old.0 as usize).unwrap();
        RoleId(u32::try_from(new).unwrap())
    };
    let mut other = policy.clone();
    other.roles = order.iter().filter_map(|old| policy.roles.get(*old).cloned()).collect();
    for role in other.roles.iter_mut() {
        role.extends = role.extends.iter().map(|id| place(*id)).collect();
        rng.shuffle(&mut role.extends);
        rng.shuffle(&mut role.allow);
        rng.shuffle(&mut role.deny);
    }
    for grant in &mut other.grants {
        grant.role = place(grant.role);
        rng.shuffle(&mut grant.users);
        rng.shuffle(&mut grant.groups);
    }
    rng.shuffle(&mut other.grants);
    other
}

/// The same policy with some things said twice.
fn repeated(policy: &Policy, seed: u64) -> Policy {
    let mut rng = Rng::new(!seed);
    let mut other = policy.clone();
    for role in other.roles.iter_mut() {
        role.allow.extend(rng.pick(&role.allow.clone()).cloned());
        role.deny.extend(rng.pick(&role.deny.clone()).cloned());
        role.extends.extend(rng.pick(&role.extends.clone()).copied());
    }
    for grant in &mut other.grants {
        grant.users.extend(rng.pick(&grant.users.clone()).cloned());
        grant.groups.extend(rng.pick(&grant.groups.clone()).cloned());
    }
    other
}
