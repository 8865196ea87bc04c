//! Writes a policy in the policy language.

use std::fmt::Write;

use policy::model::{Grant, Issuer, Keys, Policy, Role, Rule, SourceId};
use policy::pattern::{Actions, Segment};

/// The text of a generated policy. Of the sections besides roles and grants, it writes only that
/// Basic is not verified, and issuers with their prefixes. It leaves out the conditions of rules,
/// roles and grants.
///
/// Rules are written in short form if possible, else in long form with their names.
#[must_use]
pub fn to_yaml(policy: &Policy) -> String {
    let mut text = String::from("version: 1\n");
    if let Some(basic) = &policy.identity.basic {
        let (realm, verify) = (quoted(&basic.realm), basic.verify);
        let _ = writeln!(text, "identity:\n  basic: {{ realm: {realm}, verify: {verify} }}");
    }
    if !policy.identity.jwt.is_empty() {
        text.push_str("  jwt:\n");
    }
    for issuer in &policy.identity.jwt {
        push_issuer(&mut text, issuer);
    }
    text.push_str("roles:\n");
    for role in &policy.roles {
        push_role(&mut text, policy, role);
    }
    if !policy.grants.is_empty() {
        text.push_str("grants:\n");
    }
    for grant in &policy.grants {
        push_grant(&mut text, policy, grant);
    }
    text
}

fn push_issuer(text: &mut String, issuer: &Issuer) {
    let Keys::Url { url, .. } = &issuer.keys else { return };
    let _ = writeln!(text, "    - issuer: {}", quoted(&issuer.issuer));
    let audiences = list(issuer.audiences.iter().map(|audience| &**audience));
    let _ = writeln!(text, "      audiences: {audiences}\n      keys: {{ url: \"{url}\" }}");
    let _ = writeln!(text, "      user_prefix: {}", quoted(&issuer.user_prefix));
}

fn push_role(text: &mut String, policy: &Policy, role: &Role) {
    let _ = writeln!(text, "  {}:", quoted(&role.name));
    let extended = role.extends.iter().map(|id| policy.roles.at(*id));
    let _ = writeln!(text, "    extends: {}", list(extended.map(|role| &*role.name)));
    for (key, rules) in [("allow", &role.allow), ("deny", &role.deny)] {
        if !rules.is_empty() {
            let _ = writeln!(text, "    {key}:");
        }
        for rule in rules {
            let _ = writeln!(text, "      - {}", rule_text(policy, rule));
        }
    }
}

fn rule_text(policy: &Policy, rule: &Rule) -> String {
    // In the short form, a host of one label is taken for a path without its slash.
    let has_dot = rule.scopes.iter().all(|scope| scope.to_string().contains('.'));
    let sources = sources_of(rule);
    let is_short =
        rule.scopes.len() < 2 && rule.resources.len() == 1 && has_dot && sources.is_none();
    if is_short && *rule.name == *crate::random::name_of(rule) {
        return quoted(&rule.name);
    }
    let methods: Vec<&str> = match &rule.actions {
        Actions::Any => vec!["*"],
        Actions::These(actions) => actions.iter().map(|action| &**action).collect(),
    };
    let hosts: Vec<String> = rule.scopes.iter().map(ToString::to_string).collect();
    let paths: Vec<String> = rule.resources.iter().map(ToString::to_string).collect();
    let (name, methods) = (quoted(&rule.name), list(methods.into_iter()));
    let mut text = format!("{{ name: {name}, methods: {methods}");
    if !hosts.is_empty() {
        let _ = write!(text, ", hosts: {}", list(hosts.iter().map(String::as_str)));
    }
    let _ = write!(text, ", paths: {}", list(paths.iter().map(String::as_str)));
    if let Some(sources) = sources {
        let names = policy.identity.sources().filter(|(id, ..)| sources.contains(id));
        let _ = write!(text, ", user_id_from: {}", list(names.map(|(_, name, _)| name)));
    }
    text + " }"
}

/// The sources of `{user.id}` in a rule, if it occurs. They are the same in all of its paths.
fn sources_of(rule: &Rule) -> Option<&[SourceId]> {
    rule.resources.iter().flat_map(|pattern| &pattern.segments).find_map(|segment| match segment {
        Segment::UserId(sources) => Some(sources.as_slice()),
        Segment::Literal(_) | Segment::Any(_) | Segment::User | Segment::Glob(_) => None,
    })
}

fn push_grant(text: &mut String, policy: &Policy, grant: &Grant) {
    let role = policy.roles.at(grant.role);
    let fields = [("users", &grant.users), ("groups", &grant.groups)];
    let fields = fields.iter().filter(|(_, names)| !names.is_empty());
    let fields: Vec<String> = fields
        .map(|(key, names)| format!("{key}: {}", list(names.iter().map(|name| &**name))))
        .collect();
    if !fields.is_empty() {
        let _ = writeln!(text, "  {}: {{ {} }}", quoted(&role.name), fields.join(", "));
    }
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(quoted).collect();
    format!("[{}]", items.join(", "))
}

/// A double-quoted scalar, which can contain any character (YAML 1.2.2, 7.3.1), as in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
