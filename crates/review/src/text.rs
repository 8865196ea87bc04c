//! A difference as text for people.

use std::fmt::{self, Display, Formatter};

use crate::callers::NameGlob;
use crate::conditions::{Attribute, Direction};
use crate::diff::{Cause, Change, ConditionChange, Diff, Who};
use crate::grants::{join, quote_names};
use crate::regions::{Methods, Region};
use crate::settings::SettingChange;

/// The maximum number of names in a list for people.
const MAX_NAMES: usize = 8;

impl Display for Diff {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no difference: everybody may do the same under both policies");
        }
        let mut lines: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        for direction in [Direction::Granted, Direction::Revoked] {
            let changes = self.changes.iter().filter(|change| change.direction == direction);
            lines.extend(changes.map(ToString::to_string));
        }
        lines.extend(self.settings.iter().map(|setting| format!("setting: {setting}")));
        f.write_str(&lines.join("\n"))
    }
}

impl Display for ConditionChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [old, new] = [&self.old, &self.new].map(|text| text.replace('\n', " "));
        write!(f, "condition `{}` changed from `{old}` to `{new}`", self.name)
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (verb, preposition) = match self.direction {
            Direction::Granted => ("granted", "to"),
            Direction::Revoked => ("revoked", "from"),
        };
        write!(f, "{verb}: {}{}", self.region, self.in_part_note())?;
        if self.to_anyone {
            f.write_str("\n  warning: anyone may do this, also without credentials")?;
        }
        if let Some(cases) = &self.cases {
            write!(f, "\n  {cases}")?;
        }
        write!(f, "\n  because: {}", self.because)?;
        self.who.iter().try_for_each(|who| write!(f, "\n  {preposition}: {who}"))
    }
}

impl Change {
    pub(crate) const fn in_part_note(&self) -> &'static str {
        match (self.region.in_part, self.direction) {
            (false, _) => "",
            (true, Direction::Granted) => " (some of it was allowed before)",
            (true, Direction::Revoked) => " (some of it was not allowed before)",
        }
    }
}

impl Display for Region {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let host = match self.hosts.hosts.as_slice() {
            [host] => host.to_string(),
            _ => String::new(),
        };
        let paths: Vec<String> = self.paths.iter().map(|path| format!("{host}{path}")).collect();
        write!(f, "{} {}", self.methods, paths.join(", "))?;
        if self.hosts.hosts.len() > 1 {
            write!(f, " on {}", join(&self.hosts.hosts, "or"))?;
        } else if self.hosts.hosts.is_empty() && self.hosts.hosts_matter {
            f.write_str(" on any host")?;
        }
        if !self.also_matching.is_empty() {
            write!(f, ", where it is also {}", join(&self.also_matching, "and"))?;
        }
        if !self.except_paths.is_empty() {
            write!(f, ", except {}", join(&self.except_paths, "and"))?;
        }
        if !self.hosts.except.is_empty() {
            write!(f, ", not on {}", join(&self.hosts.except, "or"))?;
        }
        Ok(())
    }
}

impl Display for Methods {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(names) => f.write_str(&names.join("|")),
            Self::AllBut(names) if names.is_empty() => f.write_str("*"),
            Self::AllBut(names) => write!(f, "* (but not {})", join(names, "or")),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let effect = match (self.is_new, self.denies) {
            (true, false) => "allows it now",
            (true, true) => "denies it now",
            (false, false) => "no longer allows it",
            (false, true) => "no longer denies it",
        };
        write!(f, "`{}: {}` {effect} ({})", self.role, self.rule, self.at)
    }
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source.describe_callers(self.users.as_deref(), MAX_NAMES))?;
        let mut separator = if self.users.is_some() { ", with" } else { " with" };
        for alternatives in &self.condition.needs {
            write!(f, "{separator} {}", any_of(alternatives))?;
            separator = " and";
        }
        for glob in &self.names_like {
            write!(f, ", {glob}")?;
        }
        if !self.except_users.is_empty() {
            let users = quote_names("user", &self.except_users, "and", MAX_NAMES);
            write!(f, ", except for {users}")?;
        }
        Ok(())
    }
}

impl Display for NameGlob {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is = if self.matches { "is" } else { "is not" };
        write!(f, "whose name {is} like `{}`", self.glob)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, " with `{}` before it", self.prefix) }
    }
}

impl Display for SettingChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.change)?;
        if self.old.is_some() || self.new.is_some() {
            let [old, new] = [&self.old, &self.new].map(|value| match value {
                Some(value) => format!("`{value}`"),
                None => "nothing".to_owned(),
            });
            write!(f, " from {old} to {new}")?;
        }
        match self.warning {
            Some(warning) => write!(f, " (warning: {warning})"),
            None => Ok(()),
        }
    }
}

/// The attributes as alternatives, roles first: a text such as "the roles `a` or `b` or the group
/// `c`".
fn any_of(attributes: &[Attribute]) -> String {
    let (mut roles, mut groups) = (Vec::new(), Vec::new());
    for attribute in attributes {
        match attribute {
            Attribute::Role(name) => roles.push(name.clone()),
            Attribute::Group(name) => groups.push(name.clone()),
        }
    }
    let kinds = [("role", roles), ("group", groups)].into_iter();
    let texts: Vec<String> = kinds
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| quote_names(kind, &names, "or", MAX_NAMES))
        .collect();
    texts.join(" or ")
}
