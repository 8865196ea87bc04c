//! The table of who can do what: the rules of the active policy, and who has their roles.

use std::collections::BTreeSet;

use authorizer::Authorizer;
use explain::{Explainer, NamedCaller, WhatCan};
use maud::{Markup, html};
use policy::Policy;
use policy::model::{Effect, Role, RoleId, Rule};

use super::explain::no_answer;
use super::{cluster_roles, counted, field, list, table};
use crate::holders::Holders;
use crate::question::RuleFields;

/// The maximum number of rows if no field has text.
const MAX_UNFILTERED: usize = 25;
/// The maximum number of rows of a search.
const MAX_FILTERED: usize = 200;

pub(super) fn section(policy: Option<&Authorizer>, fields: &RuleFields) -> Markup {
    let has_cluster = policy.is_some_and(|policy| policy.loaded().policy.search.is_some());
    let path =
        if has_cluster { "Path, index or part of a pattern" } else { "Path or part of a pattern" };
    let max = if fields.is_empty() { MAX_UNFILTERED } else { MAX_FILTERED };
    html! {
        form action="/console#rules" method="get" {
            (field("rules", "of_user", "User", &fields.of_user, "any"))
            (field("rules", "of_role", "Role name contains", &fields.of_role, "any"))
            (field("rules", "on_path", path, &fields.on_path, "/people/7"))
            button type="submit" { "Search" }
        }
        @match policy {
            None => p { "No policy is active." },
            Some(policy) => {
                (rules(policy, fields, max))
                (cluster_roles::section(policy, fields, max))
            }
        }
    }
}

fn rules(authorizer: &Authorizer, fields: &RuleFields, max: usize) -> Markup {
    let filter = match RuleFilter::new(authorizer, fields) {
        Ok(filter) => filter,
        Err(error) => return no_answer(&error),
    };
    let policy = &authorizer.loaded().policy;
    let mut rows = matching_rules(policy, &filter);
    let count = rows.len();
    rows.truncate(max);
    let holders = Holders::new(policy);
    let heads = ["role", "effect", "methods", "paths", "hosts", "who has the role", "at"];
    html! {
        @for note in &filter.notes { p.trouble.warning { strong { "! Note: " } (note) } }
        p.hint role="status" {
            (counted(count, "rule"))
            @if count > rows.len() { "; the first " (rows.len()) " are shown: narrow the search" }
            ". A rule that denies wins over all rules that allow. "
        }
        @if !rows.is_empty() {
            (table("Who can do what", None, heads, &html! {
                tbody { @for rule in &rows { (row(rule, &holders.describe(rule.id))) } }
            }))
        }
    }
}

/// A rule of a role.
struct Row<'p> {
    id: RoleId,
    role: &'p Role,
    rule: &'p Rule,
    effect: Effect,
}

fn matching_rules<'p>(policy: &'p Policy, filter: &RuleFilter<'_>) -> Vec<Row<'p>> {
    let rules = policy.roles.entries().flat_map(|(id, role)| {
        let allow =
            role.allow.iter().map(move |rule| Row { id, role, rule, effect: Effect::Allow });
        let deny = role.deny.iter().map(move |rule| Row { id, role, rule, effect: Effect::Deny });
        allow.chain(deny)
    });
    rules.filter(|row| filter.matches(row.role, row.rule)).collect()
}

fn row(Row { role, rule, effect, .. }: &Row<'_>, holders: &str) -> Markup {
    html! {
        tr {
            th scope="row" { (role.name) }
            td { (match effect { Effect::Allow => "✓ allows", Effect::Deny => "✗ denies" }) }
            td { code { (rule.actions) } }
            td.request { code { (list(&rule.resources)) } }
            td { @if rule.scopes.is_empty() { "any" } @else { code { (list(&rule.scopes)) } } }
            td { (holders) }
            td { code { (rule.at) } }
        }
    }
}

/// The rules to list.
struct RuleFilter<'a> {
    /// The places of the rules of the user, if the field has text.
    of_user: Option<BTreeSet<String>>,
    of_role: &'a str,
    on_path: &'a str,
    notes: Vec<String>,
}

impl<'a> RuleFilter<'a> {
    fn new(authorizer: &Authorizer, fields: &'a RuleFields) -> Result<Self, String> {
        let user = &fields.of_user;
        let mut filter = Self {
            of_user: None,
            of_role: &fields.of_role,
            on_path: &fields.on_path,
            notes: Vec::new(),
        };
        if user.is_empty() {
            return Ok(filter);
        }
        let explainer = Explainer::new(authorizer);
        let caller = NamedCaller { user, ..NamedCaller::default() };
        let permissions =
            match explainer.named_caller("", caller).map_err(|error| error.to_string())? {
                Ok(subject) => explainer.what_can(Some(&subject)),
                Err(error) => WhatCan::nothing(user, error),
            };
        filter.notes.extend(explainer.missing_identity_note("").map(str::to_owned));
        filter.notes.extend(explainer.unknown_name_messages("", Some(user), (&[], &[])));
        filter.notes.extend(permissions.notes);
        filter.of_user = Some(permissions.rules.into_iter().map(|r| r.rule.at).collect());
        Ok(filter)
    }

    fn matches(&self, role: &Role, rule: &Rule) -> bool {
        let Self { of_user, of_role, on_path, .. } = self;
        role.name.contains(of_role)
            && (on_path.is_empty()
                || rule.resources.iter().any(|resource| {
                    resource.matches(on_path.as_bytes(), None)
                        || resource.to_string().contains(on_path)
                }))
            && of_user.as_ref().is_none_or(|places| places.contains(&rule.at.to_string()))
    }
}
