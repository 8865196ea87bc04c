//! What a change allows beside the request: which other callers may make it, and how much more it
//! grants. The proposal that grants least comes first.

use policy::pattern::{Pattern, Segment};
use review::{Change, Direction, Methods, Region, Who};

use crate::{Attribute, CallerSource, Callers};

/// How much a change grants: the product of callers and requests of each line of `diff`, where
/// what nobody can count has a number that is larger than usual lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent(u64);

const EVERYBODY: u64 = 1_000_000;
const ALL_OF_A_SOURCE: u64 = 10_000;
const A_GROUP: u64 = 100;
const ANY_PATH: u64 = 100;
const ANY_SEGMENT: u64 = 10;
const ANY_METHOD: u64 = 10;

/// The extent of these changes; the largest if the policies are too complex to compare.
pub(super) fn extent(changes: Option<&[Change]>) -> Extent {
    let Some(changes) = changes else { return Extent(u64::MAX) };
    let granted = changes.iter().filter(|change| change.direction == Direction::Granted);
    let extents = granted.map(|change| {
        let callers: u64 = change.who.iter().map(count_callers).fold(0, u64::saturating_add);
        callers.saturating_mul(count_requests(&change.region))
    });
    Extent(extents.fold(0, u64::saturating_add))
}

fn count_callers(who: &Who) -> u64 {
    match (&who.source, &who.users) {
        (CallerSource::Anonymous, _) => EVERYBODY,
        (_, Some(users)) => count(users.len()),
        (_, None) if !who.condition.needs.is_empty() => A_GROUP,
        (_, None) => ALL_OF_A_SOURCE,
    }
}

fn count_requests(region: &Region) -> u64 {
    let methods = match &region.methods {
        Methods::Only(names) => count(names.len()),
        Methods::AllBut(_) => ANY_METHOD,
    };
    let paths: u64 = region.paths.iter().map(count_paths).fold(0, u64::saturating_add);
    let hosts = count(region.hosts.hosts.len()).max(1);
    methods.saturating_mul(paths).saturating_mul(hosts)
}

fn count_paths(pattern: &Pattern) -> u64 {
    let open = pattern
        .segments
        .iter()
        .filter(|segment| matches!(segment, Segment::Any(_) | Segment::Glob(_)));
    let open: u64 = open.map(|_| ANY_SEGMENT).fold(1, u64::saturating_mul);
    if pattern.open_ended { open.saturating_mul(ANY_PATH) } else { open }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Those of `after` who are not in `before`, but the caller itself.
pub(super) fn others(after: Vec<Callers>, before: &[Callers], caller: &str) -> Vec<Callers> {
    let mut newcomers = Vec::new();
    for mut callers in after {
        // A further exception lets nobody in.
        let alike = before.iter().filter(|old| {
            old.source == callers.source
                && old.when == callers.when
                && old.except_users.iter().all(|user| callers.except_users.contains(user))
                && old.condition.unless == callers.condition.unless
        });
        let alike: Vec<&Callers> = alike.collect();
        if alike.iter().any(|old| old.users == callers.users && old.condition == callers.condition)
        {
            continue;
        }
        for old in alike {
            if let (Some(users), Some(known)) = (&mut callers.users, &old.users)
                && old.condition == callers.condition
            {
                users.retain(|user| !known.contains(user));
            }
            if let ([needs], [known]) = (&mut *callers.condition.needs, &*old.condition.needs)
                && old.users == callers.users
                && has_new(needs, known)
            {
                needs.retain(|attribute| !known.contains(attribute));
            }
        }
        if let Some(users) = &mut callers.users {
            users.retain(|user| user != caller);
            if users.is_empty() {
                continue;
            }
        }
        newcomers.push(callers);
    }
    newcomers
}

/// Whether an attribute is new. If none is, another attribute was taken away, and all are named.
fn has_new(needs: &[Attribute], known: &[Attribute]) -> bool {
    needs.iter().any(|attribute| !known.contains(attribute))
}
