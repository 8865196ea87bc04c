//! The table of who can do what: the rules of the active policy, with those who have their roles.

use std::collections::BTreeSet;

use authorizer::{Authorizer, NamedCaller, WhatCan};
use maud::{Markup, html};
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Effect, Role, RoleId, Rule};

use super::field;
use crate::question::RuleFields;

/// The maximum number of rows without a search, and with one.
const MAX_ROWS: [usize; 2] = [25, 200];
/// The maximum number of users, and of groups, that are named in a row.
const MAX_NAMES: usize = 8;
/// The maximum number of characters of a list of paths or hosts.
const MAX_TEXT: usize = 300;

pub(super) fn section(policy: Option<&Authorizer>, fields: &RuleFields) -> Markup {
    html! {
        section #rules aria-labelledby="rules-head" {
            h2 #rules-head { "Who can do what" }
            form action="/console#rules" method="get" {
                (field("rules", "of_user", "Rules of the user", &fields.of_user, "any"))
                (field("rules", "of_role", "Role has", &fields.of_role, "any"))
                (field("rules", "on_path", "Path matches or has", &fields.on_path, "/people/7"))
                button type="submit" { "Search" }
            }
            @match policy {
                None => p { "No policy is active." },
                Some(policy) => (table(policy, fields)),
            }
        }
    }
}

fn table(authorizer: &Authorizer, fields: &RuleFields) -> Markup {
    let policy = &authorizer.loaded().policy;
    let asked = match Asked::of(authorizer, fields) {
        Ok(asked) => asked,
        Err(error) => {
            return html! { p.trouble.problem role="status" { strong { "✗ Not a question: " } (error) } };
        }
    };
    let [few, many] = MAX_ROWS;
    let max = if fields.is_empty() { few } else { many };
    let (mut found, mut rows) = (0_usize, Vec::new());
    for (_, role, rule, effect) in policy.rules().filter(|(_, role, rule, _)| asked.takes(role, rule)) {
        if found < max {
            rows.push((role, rule, effect));
        }
        found += 1;
    }
    let left_out = found - rows.len();
    html! {
        @for note in &asked.notes { p.trouble.warning { strong { "! Note: " } (note) } }
        p.hint role="status" {
            (super::counted(found, "rule"))
            @if left_out > 0 { ", of which the first " (rows.len()) " are shown: search for fewer" }
            ". A rule that denies wins over all that allow. "
            @if policy.search.is_some() { "What roles of a search cluster permit is not in this table: explain a request for it." }
        }
        @if !rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-labelledby="rules-head" {
                table {
                    thead {
                        tr { @for head in ["role", "effect", "methods", "paths", "hosts", "who has the role", "at"] { th scope="col" { (head) } } }
                    }
                    tbody { @for (role, rule, effect) in &rows { (row(policy, role, rule, *effect)) } }
                }
            }
        }
    }
}

fn row(policy: &Policy, role: &Role, rule: &Rule, effect: Effect) -> Markup {
    html! {
        tr {
            th scope="row" { (role.name) }
            td { (match effect { Effect::Allow => "✓ allows", Effect::Deny => "✗ denies" }) }
            td { code { (rule.actions) } }
            td.request { code { (list(&rule.resources)) } }
            td { @if rule.scopes.is_empty() { "any" } @else { code { (list(&rule.scopes)) } } }
            td { (holders(policy, role)) }
            td { code { (rule.at) } }
        }
    }
}

/// Names or patterns with commas, cut if they are long.
fn list(all: &[impl ToString]) -> String {
    let mut text = String::new();
    for (index, one) in all.iter().enumerate() {
        if text.len() > MAX_TEXT {
            return format!("{text}, and {} more", all.len() - index);
        }
        let separator = if index == 0 { "" } else { ", " };
        text = text + separator + &one.to_string();
    }
    text
}

/// Who has a role: directly, or by a role that extends it.
fn holders(policy: &Policy, role: &Role) -> String {
    let Some(id) = policy.role(&role.name) else { return String::new() };
    let having = having(policy, id);
    let names: BTreeSet<&str> =
        having.iter().filter_map(|id| policy.roles.get(id.0 as usize)).map(|role| &*role.name).collect();
    if names.contains(ANYONE) {
        return "everybody, also without credentials".to_owned();
    }
    if names.contains(AUTHENTICATED) {
        return "everybody with valid credentials".to_owned();
    }
    let grants = || policy.grants.iter().filter(|grant| having.contains(&grant.role));
    let users: BTreeSet<&str> = grants().flat_map(|grant| &grant.users).map(|user| &**user).collect();
    let groups: BTreeSet<&str> = grants().flat_map(|grant| &grant.groups).map(|group| &**group).collect();
    let issuers = policy.identity.jwt.iter().filter(|jwt| names.iter().any(|name| jwt.may_give(name)));
    let tokens = issuers.map(|jwt| format!("tokens of {} that carry it", jwt.issuer));
    let all: Vec<String> =
        some("user", &users).into_iter().chain(some("group", &groups)).chain(tokens).collect();
    if all.is_empty() { "nobody".to_owned() } else { all.join("; ") }
}

/// A role and those that extend it, directly or not.
fn having(policy: &Policy, id: RoleId) -> BTreeSet<RoleId> {
    let mut having = BTreeSet::from([id]);
    loop {
        let more = policy.roles.entries().filter(|(other, role)| {
            !having.contains(other) && role.extends.iter().any(|extended| having.contains(extended))
        });
        let more: Vec<RoleId> = more.map(|(id, _)| id).collect();
        if more.is_empty() {
            return having;
        }
        having.extend(more);
    }
}

/// `users a, b and 3 more`.
fn some(kind: &str, names: &BTreeSet<&str>) -> Option<String> {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).copied().collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let plural = if names.len() == 1 { "" } else { "s" };
    (!shown.is_empty()).then(|| format!("{kind}{plural} {}{more}", shown.join(", ")))
}

/// Which rules are asked for.
struct Asked<'a> {
    /// The places of the rules that the user has, if one is asked for.
    of_user: Option<BTreeSet<String>>,
    of_role: &'a str,
    on_path: &'a str,
    notes: Vec<String>,
}

impl<'a> Asked<'a> {
    fn of(authorizer: &Authorizer, fields: &'a RuleFields) -> Result<Self, String> {
        let user = &fields.of_user;
        let mut asked =
            Self { of_user: None, of_role: &fields.of_role, on_path: &fields.on_path, notes: Vec::new() };
        if user.is_empty() {
            return Ok(asked);
        }
        let what = match authorizer.named_caller("", NamedCaller { user, ..NamedCaller::default() })? {
            Ok(subject) => authorizer.what_can(Some(&subject)),
            Err(error) => WhatCan::nothing(user, error),
        };
        asked.notes = authorizer.unknown_names("", Some(user), (&[], &[]));
        asked.notes.extend(what.notes);
        asked.of_user = Some(what.rules.into_iter().map(|held| held.rule.at).collect());
        Ok(asked)
    }

    fn takes(&self, role: &Role, rule: &Rule) -> bool {
        let Self { of_user, of_role, on_path, .. } = self;
        role.name.contains(of_role)
            && (on_path.is_empty()
                || rule.resources.iter().any(|resource| {
                    resource.matches(on_path.as_bytes(), None) || resource.to_string().contains(on_path)
                }))
            && of_user.as_ref().is_none_or(|places| places.contains(&rule.at.to_string()))
    }
}
