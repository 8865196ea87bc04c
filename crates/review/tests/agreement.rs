//! The difference of two policies against the reference evaluator: for generated pairs of policies,
//! callers and requests, a request is granted or revoked exactly where the two answers say so.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::collections::BTreeSet;
use std::thread;

use generator::{Generator, OwnedCaller, Rng, Shape};
use policy::model::{ClaimPath, Policy, SourceId};
use policy::pattern::{Glob, PatternSubject};
use policy::reference;
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

fn is_allowed(policy: &Policy, caller: &OwnedCaller, request: &AccessRequest<'_>) -> bool {
    matches!(reference::decide(policy, &caller.borrowed(), request), Decision::Allowed(_))
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
}

fn agree_on_one_pair(number: u64) -> Met {
    let mut generator = Generator::new(shape(number), number);
    let mut rng = Rng::new(number);
    let old = with_claims(generator.policy());
    let new = changed(&old, &mut generator, &mut rng);
    let diff = diff(&old, &new).unwrap();
    let mut met = Met::default();
    for asked in 0..REQUESTS {
        let caller = caller(&mut generator);
        let policy = if asked % 2 == 0 { &old } else { &new };
        let request = generator.request(policy, &caller);
        let request = request.borrowed();
        let (before, after) =
            (is_allowed(&old, &caller, &request), is_allowed(&new, &caller, &request));
        for (direction, is_so) in
            [(Direction::Granted, !before && after), (Direction::Revoked, before && !after)]
        {
            let place = || format!("pair {number}: {direction:?}: {caller:?}: {request:?}\n{diff}");
            let mut said = concerning(&diff, direction, &caller, &request, false);
            assert!(!is_so || said.next().is_some(), "not said: {}", place());
            for change in concerning(&diff, direction, &caller, &request, true) {
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
fn agree(pairs: u64) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<Met> = thread::scope(|scope| {
        let run = |first: u64| {
            move || (first..pairs).step_by(threads).map(agree_on_one_pair).collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..).take(threads).map(|first| scope.spawn(run(first))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |one: fn(&Met) -> usize| all.iter().map(one).sum::<usize>();
    let (granted, revoked, same) =
        (sum(|met| met.granted), sum(|met| met.revoked), sum(|met| met.same));
    assert!(granted > all.len() && revoked > all.len(), "{granted} granted, {revoked} revoked");
    assert!(same > all.len() / 4, "{same} pairs without difference");
}

#[test]
fn generated_pairs_of_policies_differ_where_the_reference_says() {
    agree(300);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_generated_pairs_of_policies_differ_where_the_reference_says() {
    agree(10_000);
}
