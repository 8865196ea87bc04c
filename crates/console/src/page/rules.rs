//! The table of who can do what: the rules of the active policy, with those who have their roles.

use std::collections::BTreeSet;

use authorizer::Authorizer;
use explain::{Explainer, NamedCaller, WhatCan};
use maud::{Markup, html};
use policy::Policy;
use policy::model::{Effect, Role, RoleId, Rule};

use super::{cluster_roles, field, list, table};
use crate::holders::Holders;
use crate::question::RuleFields;

/// The maximum number of rows without a search, and with one.
const MAX_ROWS: [usize; 2] = [25, 200];

pub(super) fn section(policy: Option<&Authorizer>, fields: &RuleFields) -> Markup {
    let has_cluster = policy.is_some_and(|policy| policy.loaded().policy.search.is_some());
    let path =
        if has_cluster { "Path, index or part of a pattern" } else { "Path or part of a pattern" };
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
                (rules(policy, fields))
                (cluster_roles::section(policy, fields, max_rows(fields)))
            }
        }
    }
}

fn max_rows(fields: &RuleFields) -> usize {
    let [few, many] = MAX_ROWS;
    if fields.is_empty() { few } else { many }
}

fn rules(authorizer: &Authorizer, fields: &RuleFields) -> Markup {
    let filter = match RuleFilter::new(authorizer, fields) {
        Ok(filter) => filter,
        Err(error) => {
            return html! { p.trouble.problem role="status" { strong { "✗ No answer: " } (error) } };
        }
    };
    let policy = &authorizer.loaded().policy;
    let (rows, found) = rows(policy, max_rows(fields), |role, rule| filter.takes(role, rule));
    let mut holders = Holders::new(policy);
    let heads = ["role", "effect", "methods", "paths", "hosts", "who has the role", "at"];
    html! {
        @for note in &filter.notes { p.trouble.warning { strong { "! Note: " } (note) } }
        p.hint role="status" {
            (super::counted(found, "rule"))
            @if found > rows.len() { "; the first " (rows.len()) " are shown: narrow the search" }
            ". A rule that denies wins over all that allow. "
        }
        @if !rows.is_empty() {
            (table("Who can do what", None, heads, &html! {
                tbody { @for row_of_rule in &rows { (row(row_of_rule, &holders.describe(row_of_rule.id))) } }
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

/// The first of the rules that are taken, and how many are.
fn rows(
    policy: &Policy,
    max: usize,
    takes: impl Fn(&Role, &Rule) -> bool,
) -> (Vec<Row<'_>>, usize) {
    let rules = policy.roles.entries().flat_map(|(id, role)| {
        let allow =
            role.allow.iter().map(move |rule| Row { id, role, rule, effect: Effect::Allow });
        let deny = role.deny.iter().map(move |rule| Row { id, role, rule, effect: Effect::Deny });
        allow.chain(deny)
    });
    let (mut rows, mut found) = (Vec::new(), 0);
    for row in rules.filter(|row| takes(row.role, row.rule)) {
        if found < max {
            rows.push(row);
        }
        found += 1;
    }
    (rows, found)
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

/// Which rules are asked for.
struct RuleFilter<'a> {
    /// The places of the rules that the user has, if one is asked for.
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
        filter.notes.extend(explainer.without_identity("").map(str::to_owned));
        filter.notes.extend(explainer.unknown_names("", Some(user), (&[], &[])));
        filter.notes.extend(permissions.notes);
        filter.of_user = Some(permissions.rules.into_iter().map(|held| held.rule.at).collect());
        Ok(filter)
    }

    fn takes(&self, role: &Role, rule: &Rule) -> bool {
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
