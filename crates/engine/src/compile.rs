//! From a policy to the index: each rule is recorded at the end of each of its patterns.

use policy::Policy;
use policy::ids::SourceId;
use policy::model::{Effect, RoleId, Rule, RuleId};
use policy::pattern::{self, Pattern, Segment};

use crate::Engine;
use crate::actions::Actions;
use crate::callers::Callers;
use crate::rows::{Entry, RowsBuilder};
use crate::scopes::Scopes;
use crate::trie::{End, TrieBuilder};

pub(crate) fn compile(policy: &Policy) -> Engine {
    let callers = Callers::compile(policy);
    let mut trie = TrieBuilder::default();
    let mut scopes = Scopes::new(&mut trie);
    let mut actions = Actions::default();
    let mut ends = Vec::new();
    for (id, role, rule, effect) in rules(policy) {
        let entries = entries(id, role, rule, effect, &mut actions);
        for end in insert_patterns(rule, &mut scopes, &mut trie) {
            ends.extend(entries.iter().map(|entry| (end, *entry)));
        }
    }
    let rows = rows(ends, &mut trie);
    Engine { callers, actions, scopes, trie: trie.finish(), rows: rows.finish() }
}

/// Every rule with its id, as [`Policy::rules`] assigns them, and with the id of its role.
fn rules(policy: &Policy) -> impl Iterator<Item = (RuleId, RoleId, &Rule, Effect)> {
    let roles = policy
        .roles
        .entries()
        .flat_map(|(id, role)| std::iter::repeat_n(id, role.allow.len() + role.deny.len()));
    policy.rules().zip(roles).map(|((id, _, rule, effect), role)| (id, role, rule, effect))
}

/// The row entries of a rule, an entry for each of its actions.
fn entries(
    id: RuleId,
    role: RoleId,
    rule: &Rule,
    effect: Effect,
    actions: &mut Actions,
) -> Vec<Entry> {
    match &rule.actions {
        pattern::Actions::Any => vec![Entry::new(id, role, effect, None)],
        pattern::Actions::These(these) => {
            let ids = these.iter().map(|action| actions.add(action.as_bytes()));
            ids.map(|action| Entry::new(id, role, effect, Some(action))).collect()
        }
    }
}

/// Inserts each resource of a rule into the tries of each of its scopes. Returns the ends.
fn insert_patterns(rule: &Rule, scopes: &mut Scopes, trie: &mut TrieBuilder) -> Vec<End> {
    let roots: Vec<_> = if rule.scopes.is_empty() {
        vec![scopes.add(None, trie)]
    } else {
        rule.scopes.iter().map(|scope| scopes.add(Some(scope), trie)).collect()
    };
    let mut ends = Vec::new();
    for resource in &rule.resources {
        let sources = sources(resource);
        for roots in &roots {
            ends.extend(sources.iter().map(|source| trie.insert(*roots, resource, *source)));
        }
    }
    ends
}

/// The identity sources that every `{user.id}` of a pattern names: the pattern is inserted for each
/// of them. Without `{user.id}`, it does not depend on the source and is inserted once, for `None`.
fn sources(pattern: &Pattern) -> Vec<Option<SourceId>> {
    let mut lists = pattern.segments.iter().filter_map(|segment| match segment {
        Segment::UserId(sources) => Some(sources),
        Segment::Literal(_) | Segment::Any(_) | Segment::User | Segment::Glob(_) => None,
    });
    let Some(sources) = lists.next() else { return vec![None] };
    let lists: Vec<_> = lists.collect();
    sources
        .iter()
        .filter(|source| lists.iter().all(|list| list.contains(source)))
        .map(|source| Some(*source))
        .collect()
}

/// Sets the row of each end.
fn rows(mut ends: Vec<(End, Entry)>, trie: &mut TrieBuilder) -> RowsBuilder {
    ends.sort_unstable_by_key(|(end, entry)| (*end, entry.order()));
    ends.dedup();
    let mut rows = RowsBuilder::default();
    let mut entries = Vec::new();
    for chunk in ends.chunk_by(|(a, _), (b, _)| a == b) {
        entries.clear();
        entries.extend(chunk.iter().map(|(_, entry)| *entry));
        if let Some((end, _)) = chunk.first() {
            trie.set_row(*end, rows.add(&mut entries));
        }
    }
    rows
}
