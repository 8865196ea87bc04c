//! The difference of two policies against the reference evaluator: for generated pairs of policies,
//! callers and requests, a request is granted or revoked exactly where the two answers say so.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use condition::{CallerInputs, Condition, Inputs, NamedConditions};
use generator::{Generator, OwnedCaller, OwnedInputs, Rng, Shape};
use policy::model::{ClaimPath, Policy, Role, RoleId, SourceId};
use policy::pattern::{Glob, PatternSubject};
use policy::reference::{certain_roles, decide_with};
use policy::{AccessRequest, Decision};
use review::{Attribute, CallerSource, Change, Diff, Direction, NameGlob, Who, diff};

/// How many requests each pair of policies is asked.
const REQUESTS: usize = 60;

/// Roles and groups in tokens count only with a claim for them.
fn with_claims(mut policy: Policy) -> Policy {
    for issuer in &mut policy.identity.jwt {
        issuer.claims.roles = Some(ClaimPath(vec!["roles".into()]));
        issuer.claims.groups = Some(ClaimPath(vec!["groups".into()]));
    }
    policy
}

/// Another policy of the same seed or a near one, or this one with something changed.
fn changed(policy: &Policy, generator: &mut Generator, rng: &mut Rng) -> Policy {
    if rng.percent(15) {
        return with_claims(generator.policy());
    }
    let mut other = policy.clone();
    for _ in 0..rng.below(4) {
        let place = rng.below(other.roles.len());
        let rule = generator.rule();
        let role = &mut other.roles[place];
        match rng.below(8) {
            0 => role.allow.push(rule),
            1 => role.deny.push(rule),
            2 => drop(role.allow.pop()),
            3 => drop(role.deny.pop()),
            4 => role.extends.clear(),
            5 => drop(other.grants.pop()),
            6 => other.grants.truncate(place),
            _ => {
                let role = role.allow.clone();
                let to = rng.below(other.roles.len());
                other.roles[to].allow.extend(role);
            }
        }
    }
    if rng.percent(20) {
        other.grants.reverse();
        other.roles.iter_mut().for_each(|role| role.allow.reverse());
    }
    other
}

/// Some conditions of another policy with the same rules.
fn change_conditions(policy: &mut Policy, generator: &mut Generator, rng: &mut Rng) {
    let mut other = policy.clone();
    generator.add_conditions(&mut other, 60);
    for _ in 0..rng.below(4) {
        let place = rng.below(policy.roles.len());
        match rng.below(4) {
            0 => policy.roles[place].when = other.roles[place].when.clone(),
            1 => policy.roles[place].allow = other.roles[place].allow.clone(),
            2 => policy.roles[place].deny = other.roles[place].deny.clone(),
            _ => policy.grants.clone_from(&other.grants),
        }
    }
}

/// A caller whose credentials both policies accept.
fn caller(generator: &mut Generator) -> OwnedCaller {
    let mut caller = generator.caller();
    if caller.user.is_some() && caller.source.is_none() {
        caller.source = Some(SourceId::BASIC);
    }
    if caller.source == Some(SourceId::BASIC) {
        caller.groups.clear();
        caller.roles.clear();
    }
    caller
}

fn is_allowed(
    policy: &Policy,
    caller: &OwnedCaller,
    request: &AccessRequest<'_>,
    inputs: &OwnedInputs,
) -> bool {
    let borrowed = caller.borrowed();
    let variables =
        CallerInputs { roles: certain_roles(policy, &borrowed), ..inputs.caller(caller) };
    let question = inputs.question();
    let request_inputs = inputs.request(&question);
    let inputs = Inputs { caller: Some(&variables), request: request_inputs, ..Inputs::default() };
    matches!(decide_with(policy, &borrowed, request, &inputs), Decision::Allowed(_))
}

/// Whether the conditions of a change are as it says; `None` if one depends on more than a request
/// and its caller.
fn applies(
    change: &Change,
    policy: &Policy,
    caller: &OwnedCaller,
    request: &AccessRequest<'_>,
    inputs: &OwnedInputs,
) -> Option<bool> {
    let Some(cases) = &change.cases else { return Some(true) };
    let variables =
        CallerInputs { roles: certain_roles(policy, &caller.borrowed()), ..inputs.caller(caller) };
    let question = inputs.question();
    let mut request_inputs = inputs.request(&question);
    request_inputs.method = request.action;
    request_inputs.host = request.scope;
    request_inputs.path = request.resource;
    let inputs = Inputs { caller: Some(&variables), request: request_inputs, ..Inputs::default() };
    let mut applies = false;
    for case in &cases.any_of {
        let mut is_case = true;
        for literal in case {
            let text: Arc<str> = literal.condition.as_str().into();
            if ["path.", "host.", "roles", "(under the"].iter().any(|part| text.contains(part)) {
                return None;
            }
            let condition = Condition::parse(&text, &NamedConditions::default()).unwrap();
            is_case &= literal.is.includes(condition::holds(&condition.expression, &inputs));
        }
        applies |= is_case;
    }
    Some(applies)
}

fn includes(
    change: &Change,
    request: &AccessRequest<'_>,
    subject: Option<PatternSubject<'_>>,
) -> bool {
    let region = &change.region;
    let matches = |pattern: &policy::pattern::Pattern| pattern.matches(request.resource, subject);
    region.methods.include(std::str::from_utf8(request.action).unwrap())
        && region.hosts.includes(request.scope)
        && region.paths.iter().any(matches)
        && region.also_matching.iter().all(matches)
        && !region.except_paths.iter().any(matches)
}

fn is_like(glob: &NameGlob, name: &str) -> bool {
    let name = format!("{}{name}", glob.prefix);
    let encoded = |byte: u8| match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    let encoded: String = name.bytes().map(encoded).collect();
    Glob(glob.glob.split('*').map(Into::into).collect()).matches(encoded.as_bytes()) == glob.matches
}

/// Whether a description includes this caller. With `alone`, it has no roles and groups but those
/// that are described.
fn is_one_of(who: &Who, caller: &OwnedCaller, alone: bool) -> bool {
    let issuer = |number: u32| ["https://id.test", "https://ci.test"][number as usize - 1];
    let source = match caller.source {
        None => CallerSource::Anonymous,
        Some(SourceId::BASIC) => CallerSource::Basic,
        Some(SourceId(number)) => CallerSource::Token { issuer: issuer(number).to_owned() },
    };
    let name = caller.user.as_deref().unwrap_or_default();
    let any = |list: &[Attribute]| {
        list.iter().any(|attribute| match attribute {
            Attribute::Role(role) => caller.roles.contains(role),
            Attribute::Group(group) => caller.groups.contains(group),
        })
    };
    let has: BTreeSet<&String> = caller.groups.iter().chain(&caller.roles).collect();
    let raw = name.get(caller.prefix..).unwrap();
    who.source == source
        && who.users.as_ref().is_none_or(|users| users.iter().any(|user| user == name))
        && !who.except_users.iter().any(|user| user == name)
        && who.names_like.iter().all(|glob| is_like(glob, raw))
        && who.condition.needs.iter().all(|list| any(list))
        && (!alone || has.len() <= who.condition.needs.len())
}

/// The changes that concern this request of this caller.
fn concerning<'d>(
    diff: &'d Diff,
    direction: Direction,
    caller: &OwnedCaller,
    request: &AccessRequest<'_>,
    alone: bool,
) -> impl Iterator<Item = &'d Change> {
    let subject = caller.pattern_subject();
    diff.changes.iter().filter(move |change| {
        change.direction == direction
            && includes(change, request, subject)
            && change.who.iter().any(|who| is_one_of(who, caller, alone))
    })
}

fn shape(number: u64) -> Shape {
    let usual = Shape { roles: 5, rules_per_role: 4, users: 4, ..Shape::default() };
    match number % 5 {
        0 => usual,
        1 => Shape { one: 0, user: 0, user_id: 0, glob: 0, rest: 20, words: 4, depth: 2, ..usual },
        2 => Shape { glob: 25, rules_per_role: 3, depth: 2, ..usual },
        3 => Shape { user: 20, user_id: 20, scopes: 60, words: 6, depth: 2, ..usual },
        _ => Shape { depth: 2, deny: 30, relative: 5, words: 6, ..usual },
    }
}

/// How many differences were met, and how many pairs have none.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    granted: usize,
    revoked: usize,
    same: usize,
    /// How many changes with conditions were compared with the reference.
    exact: usize,
}

fn agree_on_one_pair(number: u64, conditions: usize) -> Met {
    let mut generator = Generator::new(shape(number), number);
    let mut rng = Rng::new(number);
    let mut old = with_claims(generator.policy());
    if conditions > 0 {
        generator.add_conditions(&mut old, conditions);
    }
    let mut new = changed(&old, &mut generator, &mut rng);
    if conditions > 0 {
        change_conditions(&mut new, &mut generator, &mut rng);
    }
    let diff = diff(&old, &new).unwrap();
    let mut met = Met::default();
    for asked in 0..REQUESTS {
        let caller = caller(&mut generator);
        let policy = if asked % 2 == 0 { &old } else { &new };
        let request = generator.request(policy, &caller);
        let (request, inputs) = (request.borrowed(), generator.inputs());
        let [before, after] =
            [&old, &new].map(|policy| is_allowed(policy, &caller, &request, &inputs));
        for (direction, is_so) in
            [(Direction::Granted, !before && after), (Direction::Revoked, before && !after)]
        {
            let place = || {
                format!(
                    "pair {number}: {direction:?} ({before} {after}): {caller:?}: {request:?} {inputs:?}\n{diff}\n\
                     {old:?}\n{new:?}"
                )
            };
            let mut said = concerning(&diff, direction, &caller, &request, false)
                .filter(|change| applies(change, &old, &caller, &request, &inputs) != Some(false));
            assert!(!is_so || said.next().is_some(), "not said: {}", place());
            for change in concerning(&diff, direction, &caller, &request, true) {
                let is_exact = change.cases.as_ref().is_none_or(|cases| cases.exact);
                if !is_exact || applies(change, &old, &caller, &request, &inputs) != Some(true) {
                    continue;
                }
                met.exact += usize::from(change.cases.is_some());
                let fits = (direction == Direction::Granted) == after;
                assert!(if change.region.in_part { fits } else { is_so }, "not so: {}", place());
            }
        }
        met.granted += usize::from(!before && after);
        met.revoked += usize::from(before && !after);
    }
    met.same = usize::from(diff.is_empty());
    met
}

/// Compares so many pairs of policies.
fn agree(pairs: u64, conditions: usize) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<Met> = thread::scope(|scope| {
        let run = |first: u64| {
            move || {
                (first..pairs)
                    .step_by(threads)
                    .map(|number| agree_on_one_pair(number, conditions))
                    .collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (0..).take(threads).map(|first| scope.spawn(run(first))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |one: fn(&Met) -> usize| all.iter().map(one).sum::<usize>();
    let (granted, revoked, same) =
        (sum(|met| met.granted), sum(|met| met.revoked), sum(|met| met.same));
    assert!(granted > all.len() && revoked > all.len(), "{granted} granted, {revoked} revoked");
    assert!(same > all.len() / 8, "{same} pairs without difference");
    let exact = sum(|met| met.exact);
    assert!(conditions == 0 || exact > all.len() / 2, "{exact} changes with conditions");
}

#[test]
fn generated_pairs_of_policies_differ_where_the_reference_says() {
    agree(300, 0);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_generated_pairs_of_policies_differ_where_the_reference_says() {
    agree(10_000, 0);
}

/// `DIFF_PAIRS` is the number of pairs.
#[test]
#[expect(clippy::disallowed_methods, reason = "the number of pairs is for a long run")]
fn generated_pairs_with_conditions_differ_where_the_reference_says() {
    let pairs = std::env::var("DIFF_PAIRS").ok().and_then(|pairs| pairs.parse().ok());
    agree(pairs.unwrap_or(300), 40);
}

/// In this pair, a rule for everyone has too many conditions to enumerate. It has not changed, and
/// must not hide what a group loses.
#[test]
fn a_rule_for_everyone_hides_no_change_for_others() {
    agree_on_one_pair(373, 40);
}

fn policy(conditions: [&str; 2]) -> Policy {
    let mut generator = Generator::new(Shape { roles: 1, ..Shape::default() }, 1);
    let mut policy = generator.policy();
    policy.grants.clear();
    let role = &mut policy.roles[0];
    let rule = policy::model::Rule { when: None, ..generator.rule() };
    let rules = conditions.iter().filter(|text| !text.is_empty()).map(|text| {
        let text: Arc<str> = (**text).into();
        let when = Some(Condition::parse(&text, &NamedConditions::default()).unwrap());
        policy::model::Rule { when, ..rule.clone() }
    });
    (role.allow, role.deny) = (rules.collect(), Vec::new());
    policy
}

#[test]
fn conditions_with_one_meaning_are_no_difference() {
    let user = ["user == 'a' && scheme == 'basic'", ""];
    for (old, new, is_same) in [
        (user, ["scheme == 'basic' && user == 'a'", ""], true),
        (
            ["cidr('10.0.0.0/8').containsIP(source.ip)", ""],
            [
                "cidr('10.0.0.0/9').containsIP(source.ip)",
                "cidr('10.128.0.0/9').containsIP(source.ip)",
            ],
            true,
        ),
        (["user == 'a'", ""], ["!(user != 'a')", ""], true),
        (["claims.n > 1 && claims.n <= 3", ""], ["!(claims.n <= 1 || claims.n > 3)", ""], true),
        (["has(claims.org) && claims.org.id == 'a'", ""], ["claims.org.id == 'a'", ""], true),
        (
            ["user.startsWith('ab')", ""],
            ["user.startsWith('ab') && user.startsWith('a')", ""],
            true,
        ),
        (
            ["request.time.getHours() in [8, 9]", ""],
            ["request.time.getHours() >= 8 && request.time.getHours() < 10", ""],
            true,
        ),
        (user, ["user == 'a' || scheme == 'basic'", ""], false),
        (["user == 'a'", ""], ["user in ['a', 'b']", ""], false),
        (["user == 'a'", ""], ["", ""], false),
        (
            ["cidr('10.0.0.0/8').containsIP(source.ip)", ""],
            ["cidr('10.0.0.0/9').containsIP(source.ip)", ""],
            false,
        ),
    ] {
        let diff = diff(&policy(old), &policy(new)).unwrap();
        assert_eq!(diff.changes.is_empty(), is_same, "{old:?} {new:?}\n{diff}");
    }
}

/// What `user` is under the new policy depends on the token.
#[test]
fn a_condition_about_users_differs_if_tokens_name_them_by_another_claim() {
    let old = policy(["user == 'a'", ""]);
    let mut new = old.clone();
    new.identity.jwt[0].claims.user = ClaimPath(vec!["email".into()]);
    let diff = diff(&old, &new).unwrap();
    assert!(diff.to_string().contains("(under the new policy)"), "{diff}");
}

/// Each role has the conditions of all roles above it: the sum grows with the third power.
#[test]
fn a_long_chain_of_roles_with_conditions_of_their_own_is_too_complex() {
    for (count, is_short) in [(50, true), (400, false)] {
        let mut policy = policy(["", ""]);
        let role = policy.roles[0].clone();
        let roles = (0..count).map(|number| {
            let when: Arc<str> = format!("user == 'u{number}'").into();
            Role {
                name: format!("role{number}").into(),
                extends: (number + 1 < count).then(|| RoleId(number + 1)).into_iter().collect(),
                when: Some(Condition::parse(&when, &NamedConditions::default()).unwrap()),
                ..role.clone()
            }
        });
        policy.roles = roles.collect::<Vec<_>>().into();
        assert_eq!(diff(&policy, &policy).is_ok(), is_short, "{count} roles");
    }
}
