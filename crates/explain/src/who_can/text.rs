//! Who may make a request, as text for people.

use std::fmt::{Display, Formatter, Result};

use crate::one_line::OneLine;

use super::{Attribute, CallerSource, Callers, MatchingRule, WhoCan};

impl Display for WhoCan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, "nobody: {}{} ({name})", before(name), OneLine(because))?;
        } else if self.callers.is_empty() {
            f.write_str(if self.left_out {
                "not known: finding those who may takes too many steps"
            } else if self.cluster.is_some() {
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
            write!(f, "\nneeds: {}", OneLine(need))?;
        }
        for rule in &self.rules {
            write!(f, "\nrule:  {rule}")?;
        }
        for note in &self.notes {
            write!(f, "\nnote:  {}", OneLine(note))?;
        }
        Ok(())
    }
}

/// What is said before a reason for which a request is denied to everybody: the reasons of a search
/// cluster say themselves whether the request is invalid.
fn before(reason: &str) -> &'static str {
    match reason {
        "unknown_operation" | "unsupported_operation" | "body_needed" => "",
        "invalid_operation" => "the request is ",
        _ => "the request is invalid: ",
    }
}

impl Display for Callers {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let is_for_users =
            matches!((&self.source, &self.users), (CallerSource::Token { .. }, Some(_)));
        match (&self.source, &self.users) {
            (CallerSource::Anonymous, _) => f.write_str("anyone without credentials")?,
            (CallerSource::Basic, Some(users)) => {
                write!(f, "{} by Basic", the("user", users, "and"))?
            }
            (CallerSource::Basic, None) => f.write_str("any user by Basic")?,
            (CallerSource::Token { issuer }, Some(users)) => {
                write!(f, "any token of {issuer} for {}", the("user", users, "or"))?;
            }
            (CallerSource::Token { issuer }, None) => write!(f, "any token of {issuer}")?,
        }
        let needs: Vec<Alternatives> =
            self.needs.iter().map(|any| Alternatives::new(any, true)).collect();
        let unless = Alternatives::new(&self.unless, false);
        let except = match self.except_users.as_slice() {
            [] => String::new(),
            users => format!(", except for {}", the("user", users, "and")),
        };
        if is_plain(&needs) {
            let mut separator = if is_for_users { ", " } else { " " };
            for needed in &needs {
                write!(f, "{separator}with {}", needed.sentence())?;
                separator = " and ";
            }
            f.write_str(&except)?;
            return match unless.texts.as_slice() {
                [] => Ok(()),
                _ if unless.is_plain() => write!(f, ", unless with {}", unless.sentence()),
                texts => list(f, ", unless with one of these:", texts),
            };
        }
        match needs.as_slice() {
            [any] => list(f, &format!("{except} with one of these:"), &any.texts)?,
            all => {
                let texts: Vec<String> = all.iter().map(Alternatives::item).collect();
                list(f, &format!("{except} with all of these:"), &texts)?;
            }
        }
        match unless.texts.as_slice() {
            [] => Ok(()),
            _ if unless.is_plain() => write!(f, "\n  unless with {}", unless.sentence()),
            texts => list(f, "\n  unless with one of these:", texts),
        }
    }
}

/// Conditions of which one must be met, in words.
struct Alternatives {
    texts: Vec<String>,
    /// Whether all are names of roles and groups.
    are_names: bool,
}

/// Whether conditions that must all be met can be said in one sentence: with no "or" beside an
/// "and".
fn is_plain(needs: &[Alternatives]) -> bool {
    match needs {
        [] => true,
        [any] => any.is_plain(),
        all => all.iter().all(|any| any.texts.len() == 1 && !any.sentence().contains(" or `")),
    }
}

/// A text with a list below it.
fn list(f: &mut Formatter<'_>, head: &str, items: &[String]) -> Result {
    f.write_str(head)?;
    items.iter().try_for_each(|item| write!(f, "\n  - {item}"))
}

impl Alternatives {
    /// Those that these attributes are. `is_needed` says whether a caller must have one, or none of
    /// them.
    fn new(attributes: &[Attribute], is_needed: bool) -> Self {
        let (mut roles, mut groups, mut others) = (vec![], vec![], vec![]);
        let (mut backend_roles, mut names, mut addresses) = (vec![], vec![], vec![]);
        for attribute in attributes {
            match attribute {
                Attribute::Role(name) => roles.push(name.clone()),
                Attribute::Group(name) => groups.push(name.clone()),
                Attribute::BackendRole(pattern) => backend_roles.push(format!("`{pattern}`")),
                Attribute::Name(pattern) => names.push(format!("`{pattern}`")),
                Attribute::Address(pattern) => addresses.push(format!("`{pattern}`")),
                Attribute::Anyone | Attribute::BackendRoles(_) | Attribute::Where { .. } => {
                    others.push(described(attribute, is_needed));
                }
            }
        }
        let kinds = [("role", roles), ("group", groups)];
        let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
        let mut texts: Vec<String> = kinds.map(|(kind, names)| the(kind, names, "or")).collect();
        let names_alone = texts.len();
        let matching =
            [("a role or group", backend_roles), ("a name", names), ("an address", addresses)];
        for (what, patterns) in matching.iter().filter(|(_, patterns)| !patterns.is_empty()) {
            texts.push(format!("{what} that matches {}", patterns.join(" or ")));
        }
        texts.extend(others);
        Self { are_names: names_alone == texts.len(), texts }
    }

    fn is_plain(&self) -> bool {
        self.are_names || self.texts.len() <= 1
    }

    /// The role `a`, or the roles `a` or `b` or the group `c`, or a role or group that matches
    /// `d*`.
    fn sentence(&self) -> String {
        self.texts.join(" or ")
    }

    /// As an item of a list of conditions that must all be met.
    fn item(&self) -> String {
        match self.texts.as_slice() {
            [text] => text.clone(),
            texts => format!("one of: {}", texts.join("; ")),
        }
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

/// An attribute in words. A pattern with values must match all names where the attribute is needed,
/// and one where it must not be.
fn described(attribute: &Attribute, is_needed: bool) -> String {
    match attribute {
        Attribute::Role(name) => format!("the role `{name}`"),
        Attribute::Group(name) => format!("the group `{name}`"),
        Attribute::Anyone => "any name".to_owned(),
        Attribute::BackendRole(pattern) => format!("a role or group that matches `{pattern}`"),
        Attribute::BackendRoles(patterns) => {
            format!("roles or groups that match each of `{}`", patterns.join("`, `"))
        }
        Attribute::Name(pattern) => format!("a name that matches `{pattern}`"),
        Attribute::Address(pattern) => format!("an address that matches `{pattern}`"),
        Attribute::Where { attribute, user: Some(user), .. }
            if **attribute == Attribute::Anyone =>
        {
            format!("the name `{user}`")
        }
        Attribute::Where { attribute, user: Some(user), .. } => {
            format!("the name `{user}`, together with {}", described(attribute, is_needed))
        }
        Attribute::Where { attribute, pattern, names, user: None } => {
            let more = names.len().saturating_sub(MOST_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let which = match (names.len(), is_needed) {
                (0 | 1, _) => "",
                (_, true) => "each of ",
                (_, false) => "one of ",
            };
            let names: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
            let what = described(attribute, is_needed);
            format!(
                "{what}, where `{pattern}` with the caller's values matches {which}{}{more}",
                names.join(", ")
            )
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
