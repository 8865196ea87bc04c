//! The section `conditions`, and `when` of rules, roles and grants.

use std::sync::Arc;

use condition::{Attribute, Condition, Expression, FUNCTIONS, NamedConditions, VARIABLES};

use crate::model::{COOKIE, Identity, Rule, XFCC};
use crate::parse::unresolved::UnresolvedCondition;
use crate::pattern::{HostLabel, Pattern, Scope, Segment};
use document::{Fields, Key, Node, Place, Problem, Reader, Text, Warning, closest};

/// Reads the section.
pub(crate) fn read(
    reader: &mut Reader,
    (_, node): (&Key, &Node),
) -> Option<Vec<(Arc<str>, UnresolvedCondition)>> {
    let entries = reader.entries(node, "`conditions`")?;
    let mut conditions = Vec::new();
    for (key, node) in entries.iter() {
        let is_word = key.text.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && key.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_word || VARIABLES.contains(&&*key.text) {
            let message = format!("`{}` cannot be the name of a condition", key.text);
            let help = "write letters, digits and `_`, such as `business_hours`";
            reader.error_help(key.at, message, help);
            continue;
        }
        if let Some(text) = reader.text(node, "a condition") {
            conditions.push((key.text.clone(), unresolved(reader, &text)));
        }
    }
    Some(conditions)
}

/// Reads `when`.
pub(crate) fn read_when(reader: &mut Reader, fields: &Fields<'_>) -> Option<UnresolvedCondition> {
    let (key, node) = fields.field("when")?;
    if node.is_nothing() {
        let help = "write a condition, such as `user == 'alice'`, or leave `when` out";
        reader.error_help(key.at, "`when` is empty", help);
        return None;
    }
    let text = reader.text(node, "`when`")?;
    Some(unresolved(reader, &text))
}

fn unresolved(reader: &Reader, text: &Text<'_>) -> UnresolvedCondition {
    UnresolvedCondition {
        text: text.shared.clone(),
        at: reader.place(text.at),
        quote: text.columns_before(),
    }
}

/// Resolves the names in conditions.
#[derive(Default)]
pub(crate) struct Conditions {
    /// The headers with credentials. No condition may read them. The headers that conditions read
    /// are copied, and the copies would contain API keys and tokens. For a certificate in a header,
    /// a condition could not tell who has written it.
    credential_headers: Vec<Arc<str>>,
    /// Whether `identity` has no `certificates`, which says where `source.certificate` is read.
    /// False if `identity` could not be read completely.
    lacks_certificates: bool,
    named: NamedConditions,
    /// The names of conditions that are not resolved yet.
    later: Vec<Arc<str>>,
    /// The names of conditions that could not be resolved.
    broken: Vec<Arc<str>>,
    /// The conditions with names.
    pub(crate) in_order: Vec<(Arc<str>, Condition)>,
    /// The places of the texts of `in_order`.
    places: Vec<Place>,
}

impl Conditions {
    pub(crate) fn new(
        unresolved: Vec<(Arc<str>, UnresolvedCondition)>,
        identity: &Identity,
        identity_incomplete: bool,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let xfcc = identity.trusted_proxies().map(|_| XFCC);
        let cookie = identity.token_cookies().map(|_| COOKIE).next();
        let credential_headers = identity.api_key_header().into_iter().chain(xfcc);
        let credential_headers = credential_headers.chain(identity.token_headers()).chain(cookie);
        let mut conditions = Self {
            credential_headers: credential_headers.map(Arc::from).collect(),
            lacks_certificates: identity.certificates.is_none() && !identity_incomplete,
            later: unresolved.iter().map(|(name, _)| name.clone()).collect(),
            ..Self::default()
        };
        for (name, condition) in unresolved {
            let at = condition.at.clone();
            let condition = conditions.resolve(&condition, problems);
            conditions.later.retain(|later| *later != name);
            match condition {
                Some(condition) => {
                    conditions.named.add(name.clone(), &condition);
                    conditions.in_order.push((name, condition));
                    conditions.places.push(at);
                }
                None => conditions.broken.push(name),
            }
        }
        conditions
    }

    /// Warns of named conditions that nothing uses: no condition of a rule, a role or a grant, and
    /// no other named condition.
    pub(crate) fn warn_of_unused(&self, used: &[&Condition], problems: &mut Vec<Problem>) {
        for (index, ((name, condition), at)) in self.in_order.iter().zip(&self.places).enumerate() {
            let part = &*condition.expression;
            let mut later = self.in_order.iter().skip(index + 1);
            let is_used = used.iter().any(|other| contains(&other.expression, part))
                || later.any(|(_, other)| contains(&other.expression, part));
            if !is_used {
                let message = format!("nothing uses the condition `{name}`");
                let problem = Problem::warning(at.clone(), Warning::UnusedCondition, message);
                problems.push(problem.help("write it in a `when`, or leave it out"));
            }
        }
    }

    pub(crate) fn resolve(
        &self,
        unresolved: &UnresolvedCondition,
        problems: &mut Vec<Problem>,
    ) -> Option<Condition> {
        match Condition::parse(&unresolved.text, &self.named) {
            Ok(condition) => {
                let attributes = condition.expression.attributes();
                let reads_credentials = attributes.iter().any(|attribute| {
                    matches!(attribute, Attribute::Header(name) if self.credential_headers.contains(name))
                });
                if reads_credentials {
                    let message = "the credentials of a request are not for conditions";
                    let problem = Problem::error(unresolved.at.clone(), message);
                    let help = "use `user`, `groups`, `scheme` or `source.certificate`";
                    problems.push(problem.help(help));
                }
                if self.lacks_certificates && attributes.contains(&&Attribute::Certificate) {
                    let message = "nothing says where `source.certificate` is read";
                    let problem = Problem::error(unresolved.at.clone(), message);
                    problems.push(problem.help("add `certificates: { from: peer }` to `identity`"));
                }
                Some(condition)
            }
            Err(error) => {
                let before = unresolved.text.get(..error.offset).unwrap_or_default();
                let columns = unresolved.quote.map_or(0, |quote| {
                    quote + u32::try_from(before.chars().count()).unwrap_or(u32::MAX)
                });
                let column = unresolved.at.column + columns;
                let at = Place { column, ..unresolved.at.clone() };
                let name = error.unknown.as_deref().unwrap_or_default();
                if self.broken.iter().any(|broken| **broken == *name) {
                    return None;
                }
                let help = if self.later.iter().any(|later| **later == *name) {
                    format!("a condition reads those above it: write `{name}` before it")
                } else {
                    let functions = FUNCTIONS.map(|(name, _)| name);
                    let names = self.named.names().chain(VARIABLES).chain(functions);
                    let near = closest(name, names).filter(|_| !name.is_empty());
                    near.map_or(error.help, |near| format!("did you mean `{near}`?"))
                };
                problems.push(Problem::error(at, error.message).help(help));
                None
            }
        }
    }
}

/// Whether an expression is equal to this part, or contains it.
fn contains(expression: &Expression, part: &Expression) -> bool {
    expression == part || expression.parts().into_iter().any(|inner| contains(inner, part))
}

/// Reports each placeholder that the condition of a rule reads but no host or path of the rule has.
/// Such a condition could never be computed.
pub(crate) fn check_placeholders(rule: &Rule, when: &Condition, problems: &mut Vec<Problem>) {
    let path = rule.resources.iter().flat_map(Pattern::placeholders);
    let host = rule.scopes.iter().flat_map(Scope::placeholders);
    let [path, host]: [Vec<Arc<str>>; 2] =
        [path.map(|(name, _)| name).collect(), host.map(|(name, _)| name).collect()];
    for attribute in when.expression.attributes() {
        let (place, name, names) = match attribute {
            Attribute::PathPlaceholder(name) => ("path", name, &path),
            Attribute::HostPlaceholder(name) => ("host", name, &host),
            _ => continue,
        };
        if !names.contains(name) {
            let message = format!("the {place} of this rule has no placeholder `{{{name}}}`");
            let help = match closest(name, names.iter().map(|name| &**name)) {
                Some(near) => format!("did you mean `{place}.{near}`?"),
                None => format!("write `{{{name}}}` in its {place}"),
            };
            problems.push(Problem::error(rule.at.clone(), message).help(help));
        }
    }
}

/// Adds to the condition of a rule what its placeholders such as `{claims.tenant}` require: the
/// part of the path or host at the placeholder is equal to the claim.
pub(crate) fn with_claims(rule: &Rule, when: Option<Condition>) -> Option<Condition> {
    let mut attributes = Vec::new();
    for segment in rule.resources.iter().flat_map(|pattern| &pattern.segments) {
        if let Segment::Any(name) = segment {
            attributes.push((Attribute::PathPlaceholder((&**name).into()), name));
        }
    }
    for scope in &rule.scopes {
        let Scope::Labels(labels) = scope else { continue };
        for label in labels {
            if let HostLabel::Any(name) = label {
                attributes.push((Attribute::HostPlaceholder((&**name).into()), name));
            }
        }
    }
    let mut equalities: Vec<(Expression, String)> = Vec::new();
    for (attribute, name) in attributes {
        let Some(claim) = claim_of(name) else { continue };
        let expression = Expression::IsClaim(attribute, Box::new(claim));
        if !equalities.iter().any(|(known, _)| *known == expression) {
            equalities.push((expression, format!("{{{name}}}")));
        }
    }
    let mut condition = when;
    for (equality, text) in equalities {
        condition = Some(match condition {
            None => Condition { text: text.into(), expression: Arc::new(equality) },
            Some(Condition { text: when, expression }) => {
                let joined = Expression::And(Box::new(equality), Box::new((*expression).clone()));
                Condition { text: when, expression: Arc::new(joined) }
            }
        });
    }
    condition
}

/// The claim that a placeholder names: `claims.tenant`, or `claims./org/id` (RFC 6901).
fn claim_of(name: &str) -> Option<Expression> {
    let path = name.strip_prefix("claims.")?;
    let names: Vec<String> = match path.strip_prefix('/') {
        Some(pointer) => {
            pointer.split('/').map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
        }
        None => vec![path.to_owned()],
    };
    let claims = Expression::Attribute(Attribute::Claims);
    Some(
        names
            .into_iter()
            .fold(claims, |object, name| Expression::Member(Box::new(object), name.into())),
    )
}
