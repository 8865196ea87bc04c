//! From a policy to the index: each rule is recorded at the end of each of its patterns.

use policy::Policy;
use policy::ids::SourceId;
use policy::model::{Effect, RoleId, Rule, RuleId};
use policy::pattern::{self, Pattern, Scope, Segment};

use crate::Engine;
use crate::actions::Actions;
use crate::callers::Callers;
use crate::conditions::Conditions;
use crate::rows::{ConditionalEntry, Entry, Rows, RowsBuilder};
use crate::scopes::Scopes;
use crate::trie::{End, TrieBuilder};

pub(crate) fn compile(policy: &Policy) -> Engine {
    let callers = Callers::compile(policy);
    let mut conditions = Conditions::default();
    conditions.add_roles(policy, &callers.graph);
    let mut trie = TrieBuilder::default();
    let mut scopes = Scopes::new(&mut trie);
    let mut actions = Actions::default();
    let mut ends = Vec::new();
    let mut conditional_ends = Vec::new();
    for (id, role, rule, effect) in rules(policy) {
        let entries = entries(id, role, rule, effect, &mut actions);
        if needs_guard(rule)
            || conditions.is_conditional(role)
            || conditions.reads_placeholders(rule)
        {
            for (end, scope, pattern) in insert_patterns(rule, &mut scopes, &mut trie) {
                let guard = conditions.guard(rule, scope, pattern);
                let entries = entries.iter().map(|entry| ConditionalEntry { entry: *entry, guard });
                conditional_ends.extend(entries.map(|entry| (end, entry)));
            }
            continue;
        }
        for (end, ..) in insert_patterns(rule, &mut scopes, &mut trie) {
            ends.extend(entries.iter().map(|entry| (end, *entry)));
        }
    }
    let rows = rows(ends, conditional_ends, &mut trie);
    Engine { callers, conditions, actions, scopes, trie: trie.finish(), rows }
}

/// Whether the rule has a condition, or a host with a placeholder: the index finds such a host only
/// by its end, and the guard compares all of it.
fn needs_guard(rule: &Rule) -> bool {
    rule.when.is_some() || rule.scopes.iter().any(|scope| matches!(scope, Scope::Labels(_)))
}

/// Every rule with its id, as [`Policy::rules`] assigns them, and with the id of its role.
fn rules(policy: &Policy) -> impl Iterator<Item = (RuleId, RoleId, &Rule, Effect)> {
    let roles = policy
        .roles
        .entries()
        .flat_map(|(id, role)| std::iter::repeat_n(id, role.allow.len() + role.deny.len()));
    policy.rules().zip(roles).map(|((id, _, rule, effect), role)| (id, role, rule, effect))
}

/// The row entries of a rule: one for each of its actions, or a single one for any action.
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

/// Inserts each resource of a rule into the tries of each of its scopes. Returns the ends, each
/// with its scope and its resource.
fn insert_patterns<'r>(
    rule: &'r Rule,
    scopes: &mut Scopes,
    trie: &mut TrieBuilder,
) -> Vec<(End, Option<&'r Scope>, &'r Pattern)> {
    let roots: Vec<_> = if rule.scopes.is_empty() {
        vec![(scopes.add(None, trie), None)]
    } else {
        rule.scopes.iter().map(|scope| (scopes.add(Some(scope), trie), Some(scope))).collect()
    };
    let mut ends = Vec::new();
    for resource in &rule.resources {
        let sources = sources(resource);
        for (roots, scope) in &roots {
            let new = sources.iter().map(|source| trie.insert(*roots, resource, *source));
            ends.extend(new.map(|end| (end, *scope, resource)));
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
fn rows(
    mut ends: Vec<(End, Entry)>,
    mut conditional: Vec<(End, ConditionalEntry)>,
    trie: &mut TrieBuilder,
) -> Rows {
    ends.sort_unstable_by_key(|(end, entry)| (*end, entry.order()));
    ends.dedup();
    conditional.sort_unstable_by_key(|(end, entry)| (*end, entry.entry.order(), entry.guard));
    let mut rows = RowsBuilder::default();
    let mut entries = Vec::new();
    let mut with_conditions = conditional.as_slice();
    for chunk in ends.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((end, _)) = chunk.first() else { continue };
        set_rows_before(*end, &mut with_conditions, &mut rows, trie);
        let count = with_conditions.iter().take_while(|(other, _)| other == end).count();
        let (here, after) = with_conditions.split_at(count);
        with_conditions = after;
        entries.clear();
        entries.extend(chunk.iter().map(|(_, entry)| *entry));
        let here: Vec<ConditionalEntry> = here.iter().map(|(_, entry)| *entry).collect();
        trie.set_row(*end, rows.add(&mut entries, &here));
    }
    for chunk in with_conditions.chunk_by(|(a, _), (b, _)| a == b) {
        set_conditional_row(chunk, &mut rows, trie);
    }
    rows.finish()
}

/// Sets the rows of those ends in `conditional` that sort before `end`, and removes them from it.
/// All rules at these ends have guards.
fn set_rows_before(
    end: End,
    conditional: &mut &[(End, ConditionalEntry)],
    rows: &mut RowsBuilder,
    trie: &mut TrieBuilder,
) {
    let count = conditional.iter().take_while(|(other, _)| *other < end).count();
    let (before, after) = conditional.split_at(count);
    for chunk in before.chunk_by(|(a, _), (b, _)| a == b) {
        set_conditional_row(chunk, rows, trie);
    }
    *conditional = after;
}

fn set_conditional_row(
    chunk: &[(End, ConditionalEntry)],
    rows: &mut RowsBuilder,
    trie: &mut TrieBuilder,
) {
    let entries: Vec<ConditionalEntry> = chunk.iter().map(|(_, entry)| *entry).collect();
    if let Some((end, _)) = chunk.first() {
        trie.set_row(*end, rows.add(&mut [], &entries));
    }
}
