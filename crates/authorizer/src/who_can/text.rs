//! Who may make a request, as text for people.

use std::fmt::{Display, Formatter, Result};

use super::{Attribute, CallerSource, Callers, MatchingRule, WhoCan};

impl Display for WhoCan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, "nobody: the request is invalid: {because} ({name})")?;
        } else if self.callers.is_empty() {
            f.write_str(if self.cluster.is_some() {
                "nobody: no caller can have the roles of the search cluster that permit it"
            } else if self.rules.iter().all(|rule| rule.rule.denies) {
                "nobody: no rule allows it"
            } else {
                "nobody: no caller can have a role that allows it without one that denies it"
            })?;
        }
        let mut separator = "";
        for callers in &self.callers {
            write!(f, "{separator}{callers}")?;
            separator = "\n";
        }
        for need in self.cluster.iter().flat_map(|cluster| &cluster.needs) {
            write!(f, "\nneeds: {need}")?;
        }
        for rule in &self.rules {
            write!(f, "\nrule:  {rule}")?;
        }
        for note in &self.notes {
            write!(f, "\nnote:  {note}")?;
        }
        Ok(())
    }
}

impl Display for Callers {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut separator = " ";
        match (&self.source, &self.users) {
            (CallerSource::Anonymous, _) => f.write_str("anyone without credentials")?,
            (CallerSource::Basic, Some(users)) => write!(f, "{} by Basic", the("user", users, "and"))?,
            (CallerSource::Basic, None) => f.write_str("any user by Basic")?,
            (CallerSource::Token { issuer }, Some(users)) => {
                write!(f, "any token of {issuer} for {}", the("user", users, "or"))?;
                separator = ", ";
            }
            (CallerSource::Token { issuer }, None) => write!(f, "any token of {issuer}")?,
        }
        for needed in &self.needs {
            write!(f, "{separator}with {}", any_of(needed))?;
            separator = " and ";
        }
        if !self.except_users.is_empty() {
            write!(f, ", except for {}", the("user", &self.except_users, "and"))?;
        }
        if !self.unless.is_empty() {
            write!(f, ", unless with {}", any_of(&self.unless))?;
        }
        Ok(())
    }
}

impl Display for MatchingRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} on {}, a rule of {}", self.rule, self.path, the("role", &self.roles, "and"))?;
        if self.more_roles > 0 {
            write!(f, " (and {} more)", self.more_roles)?;
        }
        match &self.user {
            Some(user) => write!(f, ", only for the user `{user}`"),
            None => Ok(()),
        }
    }
}

/// The role `a`, or the roles `a` or `b`, or the group `c`, or a role or group that matches `d*`.
fn any_of(attributes: &[Attribute]) -> String {
    let (mut roles, mut groups, mut backend_roles, mut others) = (vec![], vec![], vec![], vec![]);
    for attribute in attributes {
        match attribute {
            Attribute::Role(name) => roles.push(name.clone()),
            Attribute::Group(name) => groups.push(name.clone()),
            Attribute::BackendRole(pattern) => backend_roles.push(format!("`{pattern}`")),
            Attribute::Anyone
            | Attribute::BackendRoles(_)
            | Attribute::Name(_)
            | Attribute::Address(_)
            | Attribute::Where { .. } => others.push(attribute.to_string()),
        }
    }
    let kinds = [("role", roles), ("group", groups)];
    let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
    let mut texts: Vec<String> = kinds.map(|(kind, names)| the(kind, names, "or")).collect();
    texts.extend(
        (!backend_roles.is_empty())
            .then(|| format!("a role or group that matches {}", backend_roles.join(" or "))),
    );
    texts.extend(others);
    texts.join(" or ")
}

impl Display for Attribute {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Role(name) => write!(f, "the role `{name}`"),
            Self::Group(name) => write!(f, "the group `{name}`"),
            Self::Anyone => f.write_str("any name"),
            Self::BackendRole(pattern) => write!(f, "a role or group that matches `{pattern}`"),
            Self::BackendRoles(patterns) => {
                write!(f, "roles or groups that match each of `{}`", patterns.join("`, `"))
            }
            Self::Name(pattern) => write!(f, "a name that matches `{pattern}`"),
            Self::Address(pattern) => write!(f, "an address that matches `{pattern}`"),
            Self::Where { attribute, user: Some(user), .. } if **attribute == Self::Anyone => {
                write!(f, "the name `{user}`")
            }
            Self::Where { attribute, user: Some(user), .. } => write!(f, "{attribute} and the name `{user}`"),
            Self::Where { attribute, pattern, names, user: None } => {
                let more = names.len().saturating_sub(MOST_NAMES);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let names: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
                write!(f, "{attribute} where `{pattern}` matches {}{more}", names.join(", "))
            }
        }
    }
}

/// How many names a pattern is shown to match.
const MOST_NAMES: usize = 3;

/// `the user `a``, `the users `a`, `b` and `c``.
fn the(kind: &str, names: &[String], last: &str) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let list = match quoted.as_slice() {
        [before @ .., end] if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => quoted.concat(),
    };
    format!("the {kind}{plural} {list}")
}
