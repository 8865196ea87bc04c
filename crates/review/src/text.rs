//! A difference as text for people.

use std::fmt::{self, Display, Formatter};

use crate::callers::{CallerSource, NameLike};
use crate::conditions::{Attribute, Condition, Direction};
use crate::diff::{Cause, Change, Diff, Who};
use crate::regions::{Methods, Region};
use crate::settings::SettingChange;

/// The maximum number of names in a list for people.
const MAX_NAMES: usize = 8;

impl Display for Diff {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no difference: everybody may do the same under both policies");
        }
        let mut separator = "";
        for direction in [Direction::Granted, Direction::Revoked] {
            for change in self.changes.iter().filter(|change| change.direction == direction) {
                write!(f, "{separator}{change}")?;
                separator = "\n";
            }
        }
        for setting in &self.settings {
            write!(f, "{separator}setting: {setting}")?;
            separator = "\n";
        }
        Ok(())
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (what, to) = match self.direction {
            Direction::Granted => ("granted", "to"),
            Direction::Revoked => ("revoked", "from"),
        };
        write!(f, "{what}: {}", self.region)?;
        if self.region.in_part {
            f.write_str(match self.direction {
                Direction::Granted => " (some of it was allowed before)",
                Direction::Revoked => " (some of it was not allowed before)",
            })?;
        }
        if self.to_anyone {
            f.write_str("\n  warning: anyone may do this, also without credentials")?;
        }
        write!(f, "\n  because: {}", self.because)?;
        for who in &self.who {
            write!(f, "\n  {to}: {who}")?;
        }
        Ok(())
    }
}

impl Display for Region {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.methods)?;
        let host = match self.hosts.hosts.as_slice() {
            [host] => host.to_string(),
            _ => String::new(),
        };
        let paths: Vec<String> = self.paths.iter().map(|path| format!("{host}{path}")).collect();
        write!(f, "{}", paths.join(", "))?;
        if self.hosts.hosts.len() > 1 {
            write!(f, " on {}", joined(&self.hosts.hosts, "or"))?;
        }
        if !self.also_matching.is_empty() {
            write!(f, ", where it is also {}", joined(&self.also_matching, "and"))?;
        }
        if !self.except_paths.is_empty() {
            write!(f, ", except {}", joined(&self.except_paths, "and"))?;
        }
        if !self.hosts.except.is_empty() {
            write!(f, ", not on {}", joined(&self.hosts.except, "or"))?;
        }
        Ok(())
    }
}

impl Display for Methods {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(names) => f.write_str(&names.join("|")),
            Self::AllBut(names) if names.is_empty() => f.write_str("*"),
            Self::AllBut(names) => write!(f, "* (but not {})", joined(names, "or")),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let does = match (self.is_new, self.denies) {
            (true, false) => "allows it now",
            (true, true) => "denies it now",
            (false, false) => "no longer allows it",
            (false, true) => "no longer denies it",
        };
        write!(f, "`{}: {}` {does} ({})", self.role, self.rule, self.at)
    }
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
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
        let Condition { needs } = &self.condition;
        let mut separator = if self.users.is_some() { ", with" } else { " with" };
        for needed in needs {
            write!(f, "{separator} {}", any_of(needed))?;
            separator = " and";
        }
        for like in &self.names_like {
            write!(f, ", {like}")?;
        }
        if !self.except_users.is_empty() {
            write!(f, ", except for {}", the("user", &self.except_users, "and"))?;
        }
        Ok(())
    }
}

impl Display for NameLike {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is = if self.matches { "is" } else { "is not" };
        write!(f, "whose name {is} like `{}`", self.glob)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, " with `{}` before it", self.prefix) }
    }
}

impl Display for SettingChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.change)?;
        let shown = |value: &Option<String>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
        };
        if self.old.is_some() || self.new.is_some() {
            write!(f, " from {} to {}", shown(&self.old), shown(&self.new))?;
        }
        if let Some(warning) = self.warning {
            write!(f, " (warning: {warning})")?;
        }
        Ok(())
    }
}

fn joined(all: &[impl ToString], last: &str) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    match all.as_slice() {
        [before @ .., end] if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => all.concat(),
    }
}

/// The role `a`, or the roles `a` or `b`, or the group `c`.
fn any_of(attributes: &[Attribute]) -> String {
    let (mut roles, mut groups) = (Vec::new(), Vec::new());
    for attribute in attributes {
        match attribute {
            Attribute::Role(name) => roles.push(name.clone()),
            Attribute::Group(name) => groups.push(name.clone()),
        }
    }
    let kinds = [("role", roles), ("group", groups)];
    let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
    kinds.map(|(kind, names)| the(kind, names, "or")).collect::<Vec<_>>().join(" or ")
}

/// `the user `a``, `the users `a`, `b` and `c``, `the users `a`, … and 92 more`.
fn the(kind: &str, names: &[String], last: &str) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = names.len().saturating_sub(MAX_NAMES);
    let mut quoted: Vec<String> =
        names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    if more > 0 {
        quoted.push(format!("{more} more"));
    }
    format!("the {kind}{plural} {}", joined(&quoted, last))
}
