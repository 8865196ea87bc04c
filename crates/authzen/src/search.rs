//! Searches (8). The policy and its entities name the candidates, and a question decides about each
//! candidate.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter;

use policy::Policy;
use policy::model::{AuthZen, Identity, ResourceType, SubjectType};
use policy::pattern::{Actions, Pattern, Segment};
use serde_json::{Value, json};

use crate::context::Circumstances;
use crate::decide::{Callers, Decider};
use crate::message::{MAX_EVALUATIONS, Malformed, Search, Sought};
use crate::page::Page;

/// The maximum number of values that all decisions of a search copy together. Each decision copies
/// the values of the request: for 1,000 candidates and 16,000 values, other clients would wait.
const MAX_COPIED: usize = 1_000_000;

/// The answer to a search. It decides about at most [`MAX_EVALUATIONS`] candidates, so a page may
/// have fewer results than its limit although more follow.
pub(crate) fn answer(search: &Search, decider: &mut Decider<'_>) -> Result<Value, Malformed> {
    let page = Page::new(search.sought, &search.members, &search.page)?;
    let policy = &decider.authorizer.loaded().policy;
    let authzen = policy.authzen.as_ref();
    Circumstances::new(&search.question.context, authzen, decider.now)?;
    let max = (MAX_COPIED / count_values(&search.members)).clamp(1, MAX_EVALUATIONS);
    let candidates = authzen.map(|authzen| candidates(search, policy, authzen));
    let candidates = candidates.into_iter().flatten();
    let (candidates, are_more) = first_after(candidates, &page.after, max);
    let (mut results, mut callers) = (Vec::new(), Callers::default());
    let (mut last, mut last_result) = (page.after.as_str(), page.after.as_str());
    let mut next_token = None;
    for candidate in &candidates {
        if search.sought == Sought::Subject {
            callers = Callers::default();
        }
        if decider.decide(&search.question(candidate), &mut callers, false)? {
            if results.len() == page.limit {
                // The next page starts after the last result, not at this candidate: a reload may
                // add candidates between the two.
                next_token = Some(page.token_after(last_result));
                break;
            }
            results.push(search.result(candidate));
            last_result = candidate;
        }
        last = candidate;
    }
    let next_token = next_token.or_else(|| are_more.then(|| page.token_after(last)));
    let page = json!({ "count": results.len(), "next_token": next_token.unwrap_or_default() });
    Ok(json!({ "page": page, "results": results }))
}

/// The first candidates after this name in order, and whether there are more.
fn first_after<'c>(
    candidates: impl Iterator<Item = Cow<'c, str>>,
    after: &str,
    max: usize,
) -> (BTreeSet<Cow<'c, str>>, bool) {
    let (mut smallest, mut are_more) = (BTreeSet::new(), false);
    for candidate in candidates.filter(|candidate| **candidate > *after) {
        smallest.insert(candidate);
        if smallest.len() > max {
            smallest.pop_last();
            are_more = true;
        }
    }
    (smallest, are_more)
}

fn count_values(members: &serde_json::Map<String, Value>) -> usize {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }
    1 + members.values().map(count).sum::<usize>()
}

type Candidates<'p> = Box<dyn Iterator<Item = Cow<'p, str>> + 'p>;

/// All candidates, in any order, some several times. None of an unknown type.
fn candidates<'p>(search: &Search, policy: &'p Policy, authzen: &'p AuthZen) -> Candidates<'p> {
    match search.sought {
        Sought::Subject => match authzen.subject(&search.question.subject.kind) {
            Some(kind) => subjects(kind, policy, authzen),
            None => Box::new(iter::empty()),
        },
        Sought::Resource => match authzen.resource(&search.question.resource.kind) {
            Some(kind) => resources(kind, policy, authzen),
            None => Box::new(iter::empty()),
        },
        Sought::Action => actions(policy, authzen),
    }
}

/// The entities of this type, and the users whom grants name. If the type has an issuer, only the
/// granted users with its prefix count, and the prefix is cut off. Otherwise the users of
/// `identity` are candidates, too.
fn subjects<'p>(kind: &'p SubjectType, policy: &'p Policy, authzen: &'p AuthZen) -> Candidates<'p> {
    let entities = authzen.entities.subjects.ids(&kind.name).map(Cow::Borrowed);
    let granted = policy.grants.iter().flat_map(|grant| &grant.users).map(|user| &**user);
    match &kind.issuer {
        None => {
            let granted = granted.map(Cow::Borrowed);
            Box::new(entities.chain(granted).chain(users(&policy.identity)))
        }
        Some(name) => {
            let issuer = policy.identity.jwt.iter().find(|issuer| issuer.issuer == *name);
            let prefix = issuer.map_or("", |issuer| &*issuer.user_prefix);
            let granted = granted.filter_map(move |user| user.strip_prefix(prefix));
            Box::new(entities.chain(granted.map(Cow::Borrowed)))
        }
    }
}

/// The users of Basic, API keys and certificates, with their prefixes.
fn users(identity: &Identity) -> impl Iterator<Item = Cow<'_, str>> {
    let basic = identity
        .basic
        .iter()
        .flat_map(|basic| basic.users.iter().map(|user| prefixed(&basic.user_prefix, &user.name)));
    let keys = identity
        .api_keys
        .iter()
        .flat_map(|keys| keys.keys.iter().map(|key| prefixed(&keys.user_prefix, &key.user)));
    let certificates = identity.certificates.iter().flat_map(|certificates| {
        let names = certificates.users.iter().filter_map(|entry| entry.user.literal());
        names.map(|name| prefixed(&certificates.user_prefix, name))
    });
    basic.chain(keys).chain(certificates)
}

fn prefixed<'n>(prefix: &str, name: &'n str) -> Cow<'n, str> {
    if prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned([prefix, name].concat()) }
}

/// The entities of this type, and those at the paths of rules that match a single path.
fn resources<'p>(
    kind: &'p ResourceType,
    policy: &'p Policy,
    authzen: &'p AuthZen,
) -> Candidates<'p> {
    let entities = authzen.entities.resources.ids(&kind.name).map(Cow::Borrowed);
    let patterns = policy.rules().flat_map(|(.., rule, _)| &rule.resources);
    let named = patterns.filter_map(literal_path).filter_map(|path| kind.path.id(&path));
    Box::new(entities.chain(named.map(Cow::Owned)))
}

/// The only path that a pattern matches.
fn literal_path(pattern: &Pattern) -> Option<String> {
    if pattern.open_ended || !pattern.absolute {
        return None;
    }
    let mut path = String::new();
    for segment in &pattern.segments {
        let Segment::Literal(text) = segment else { return None };
        path.push('/');
        path.push_str(text);
    }
    Some(path)
}

/// The names under `authzen.actions`, and the methods that rules name.
fn actions<'p>(policy: &'p Policy, authzen: &'p AuthZen) -> Candidates<'p> {
    let names = authzen.actions.iter().map(|action| &*action.name);
    let methods = policy.rules().flat_map(|(.., rule, _)| match &rule.actions {
        Actions::Any => &[],
        Actions::These(methods) => methods.as_slice(),
    });
    Box::new(names.chain(methods.map(|method| &**method)).map(Cow::Borrowed))
}
