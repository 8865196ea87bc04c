//! Who may make a request, as text for people.

use std::fmt::{Display, Formatter, Result};

use super::{Attribute, CallerSource, Callers, MatchingRule, WhoCan};

impl Display for WhoCan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, "nobody: the request is invalid: {because} ({name})")?;
        } else if self.callers.is_empty() {
            f.write_str(if self.rules.iter().all(|rule| rule.rule.denies) {
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
        match &self.user {
            Some(user) => write!(f, ", only for the user `{user}`"),
            None => Ok(()),
        }
    }
}

/// The role `a`, or the roles `a` or `b`, or the group `c`.
fn any_of(attributes: &[Attribute]) -> String {
    let names =
        |name: fn(&Attribute) -> Option<&String>| attributes.iter().filter_map(name).cloned().collect();
    let roles: Vec<String> = names(|attribute| match attribute {
        Attribute::Role(name) => Some(name),
        Attribute::Group(_) => None,
    });
    let groups: Vec<String> = names(|attribute| match attribute {
        Attribute::Group(name) => Some(name),
        Attribute::Role(_) => None,
    });
    let kinds = [("role", roles), ("group", groups)];
    let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
    kinds.map(|(kind, names)| the(kind, names, "or")).collect::<Vec<_>>().join(" or ")
}

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
