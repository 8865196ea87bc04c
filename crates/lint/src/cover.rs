//! Rules that have no effect, because another rule covers everything that they match.

use document::Warning;
use policy::model::{Effect, Rule, RuleId};
use policy::pattern::Scope;

use crate::overlap::{Relation, Walk};
use crate::related::{RelatedRoles, RolesOf};
use crate::trie::{RoleRule, Trie};
use crate::warnings::{Budget, Steps, Warnings};

/// Warns of each rule that another rule makes redundant: a rule of the same role, of a role that it
/// extends, or of `anyone` or `authenticated`.
pub(crate) fn redundant_rules(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = RelatedRoles::new(trie.policy);
    let mut budget = Budget { total: Steps(4_000_000), max_per_rule: 2_000 };
    let has_denials = trie.denials().next().is_some();
    for (id, rule) in trie.rules.entries() {
        let roles = related.roles_of(rule.role_id, &mut budget.total);
        let Some(mut cover) = budget.spend(|steps| find_cover(trie, &roles, id, None, steps))
        else {
            continue;
        };
        // If the rule is both denied and redundant, the warning is about the `deny`.
        if has_denials && (rule.effect, cover.effect) == (Effect::Allow, Effect::Allow) {
            let deny =
                budget.spend(|steps| find_cover(trie, &roles, id, Some(Effect::Deny), steps));
            cover = deny.unwrap_or(cover);
        }
        let (name, cover_name) = (&rule.rule.name, &cover.rule.name);
        let warning = if (rule.effect, cover.effect) == (Effect::Allow, Effect::Deny) {
            let message = format!(
                "`{name}` never allows anything: `{cover_name}` of `{}` denies all of it",
                cover.role.name
            );
            let help = "a `deny` wins over every `allow` that a caller has: leave one of them out, \
                        or move the `deny` to the role whose `allow` is wider";
            rule.warning(Warning::DeniedRule, message, help)
        } else {
            let message = format!("`{name}` adds nothing: `{cover_name}` covers all of it");
            rule.warning(Warning::RedundantRule, message, "leave it out")
        };
        warnings.push(cover.relate_to(warning));
    }
}

/// A rule of these roles that covers the rule with this id. It has this effect; `None` means any.
fn find_cover<'s, 'p>(
    trie: &'s Trie<'p>,
    roles: &RolesOf<'_, '_>,
    id: RuleId,
    effect: Option<Effect>,
    steps: &mut Steps,
) -> Option<&'s RoleRule<'p>> {
    let rule = trie.rules.at(id);
    let pattern = rule.rule.resources.first()?;
    let mut cover = None;
    let mut walk = Walk {
        trie,
        relation: Relation::Covers,
        visit: |candidate_id, steps: &mut Steps| {
            let candidate = trie.rules.at(candidate_id);
            if candidate_id != id
                && effect.is_none_or(|effect| effect == candidate.effect)
                && (rule.effect, candidate.effect) != (Effect::Deny, Effect::Allow)
                && roles.has(candidate.role_id)
                && counts_where(candidate, rule)
                && covers(candidate.rule, rule.rule, steps)
                // If two rules cover each other, the warning is about the later rule, or about the
                // rule that is not inherited.
                && (candidate_id < id
                    || rule.effect != candidate.effect
                    || !roles.related.have_same_callers(rule.role_id, candidate.role_id)
                    || !covers(rule.rule, candidate.rule, steps))
            {
                cover = Some(candidate);
            }
            cover.is_some()
        },
        steps,
    };
    walk.run(pattern);
    cover
}

/// Whether `cover` counts wherever `rule` does.
fn counts_where(cover: &RoleRule<'_>, rule: &RoleRule<'_>) -> bool {
    let is_conditional = cover.rule.when.is_some() || cover.role.when.is_some();
    !is_conditional
        || cover.role_id == rule.role_id
            && cover.effect == rule.effect
            && cover.rule.when == rule.rule.when
}

fn covers(cover: &Rule, rule: &Rule, steps: &mut Steps) -> bool {
    let resources = cover.resources.len().saturating_mul(rule.resources.len());
    let scopes = cover.scopes.len().saturating_mul(rule.scopes.len());
    steps.take(resources.saturating_add(scopes))
        && cover.actions.covers(&rule.actions)
        && covers_scopes(&cover.scopes, &rule.scopes)
        && covers_paths(cover, rule)
}

pub(crate) fn covers_paths(cover: &Rule, rule: &Rule) -> bool {
    rule.resources.iter().all(|pattern| cover.resources.iter().any(|cover| cover.covers(pattern)))
}

pub(crate) fn covers_scopes(cover: &[Scope], scopes: &[Scope]) -> bool {
    cover.is_empty()
        || !scopes.is_empty()
            && scopes.iter().all(|scope| cover.iter().any(|cover| cover.covers(scope)))
}
