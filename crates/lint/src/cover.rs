//! Rules without effect, because another rule covers everything that they match.

use crate::overlap::{Relation, Walk};
use crate::related::Related;
use crate::trie::{Ruled, Trie};
use crate::warnings::{Budget, Warnings};
use document::{Problem, Warning};
use policy::model::{Effect, Policy, Rule, RuleId};
use policy::pattern::Scope;

/// Warns of each rule that another one makes redundant: one of the same role, of a role that it
/// extends, or of `anyone` or `authenticated`.
pub(crate) fn useless(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = Related::new(policy);
    let mut budget = Budget::new(4_000_000, 2_000);
    let has_denials = trie.rules.entries().any(|(_, ruled)| ruled.effect == Effect::Deny);
    for (id, ruled) in trie.rules.entries() {
        related.find_from(ruled.role, &mut budget.left);
        let Some(cover) = budget.spend(|left| find_cover(trie, &related, id, None, left)) else {
            continue;
        };
        // A denied rule is not allowed by the other rule either: that says more than that it is not
        // needed.
        let may_be_denied =
            has_denials && (ruled.effect, cover.effect) == (Effect::Allow, Effect::Allow);
        let deny = may_be_denied
            .then(|| budget.spend(|left| find_cover(trie, &related, id, Some(Effect::Deny), left)))
            .flatten();
        warnings.push(warning(ruled, deny.unwrap_or(cover)));
    }
}

/// A rule, with this effect if it is given, that covers the rule with this id.
fn find_cover<'s, 'p>(
    trie: &'s Trie<'p>,
    related: &Related<'_>,
    id: RuleId,
    effect: Option<Effect>,
    left: &mut usize,
) -> Option<&'s Ruled<'p>> {
    let ruled = trie.rules.at(id);
    let first = ruled.rule.resources.first()?;
    let mut cover = None;
    let found = |other_id: RuleId, left: &mut usize| {
        let other = trie.rules.at(other_id);
        let counts = other_id != id && effect.is_none_or(|effect| effect == other.effect);
        if counts && related.has(other.role) && is_cover(other, other_id, ruled, id, related, left)
        {
            cover = Some(other);
        }
        cover.is_some()
    };
    Walk { trie, relation: Relation::Covers, found, left }.ends(first);
    cover
}

fn is_cover(
    cover: &Ruled<'_>,
    cover_id: RuleId,
    ruled: &Ruled<'_>,
    id: RuleId,
    related: &Related<'_>,
    left: &mut usize,
) -> bool {
    if ruled.effect == Effect::Deny && cover.effect == Effect::Allow {
        return false;
    }
    // Of two rules that cover each other, the first one is kept, or the inherited one.
    let are_equals = ruled.effect == cover.effect && related.are_equals(ruled.role, cover.role);
    covers(cover.rule, ruled.rule, left)
        && !(are_equals && cover_id > id && covers(ruled.rule, cover.rule, left))
}

fn covers(cover: &Rule, rule: &Rule, left: &mut usize) -> bool {
    let resources = cover.resources.len().saturating_mul(rule.resources.len());
    let scopes = cover.scopes.len().saturating_mul(rule.scopes.len());
    *left = left.saturating_sub(resources).saturating_sub(scopes);
    *left > 0
        && cover.actions.covers(&rule.actions)
        && covers_scopes(&cover.scopes, &rule.scopes)
        && covers_paths(cover, rule)
}

fn warning(ruled: &Ruled<'_>, cover: &Ruled<'_>) -> Problem {
    let (name, by, of) = (&ruled.rule.name, &cover.rule.name, &cover.named.name);
    let (kind, message, help) = match (ruled.effect, cover.effect) {
        (Effect::Allow, Effect::Deny) => (
            Warning::DeniedRule,
            format!("`{name}` never allows anything: `{by}` of `{of}` denies all of it"),
            "a `deny` wins over every `allow` that a caller has: leave one of them out, or move the `deny` to the \
             role whose `allow` is wider",
        ),
        _ => (
            Warning::RedundantRule,
            format!("`{name}` adds nothing: `{by}` covers all of it"),
            "leave it out",
        ),
    };
    let note = format!("`{by}` of the role `{of}`");
    Problem::warning(ruled.rule.at.clone(), kind, message)
        .help(help)
        .related(cover.rule.at.clone(), note)
}

pub(crate) fn covers_paths(cover: &Rule, rule: &Rule) -> bool {
    rule.resources.iter().all(|pattern| cover.resources.iter().any(|cover| cover.covers(pattern)))
}

pub(crate) fn covers_scopes(cover: &[Scope], scopes: &[Scope]) -> bool {
    cover.is_empty()
        || !scopes.is_empty()
            && scopes.iter().all(|scope| cover.iter().any(|cover| cover.covers(scope)))
}
