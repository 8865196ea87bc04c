//! Explanations in words, for a terminal.

use std::fmt::{Display, Formatter, Result};

use super::{ExplainedRole, Explanation, RoleSource};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.status, if self.status == 200 { "allowed" } else { "denied" })?;
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, ": {because} ({name})")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "\nbecause: {detail}")?;
        }
        self.fmt_request(f)?;
        self.fmt_caller(f)?;
        if let Some(rule) = &self.rule {
            write!(f, "\nrule:    {rule}")?;
        }
        if let Some(path) = self.decided_on.as_ref().filter(|path| self.paths.first() != Some(path)) {
            write!(f, "\n         with the path read as {path}")?;
        }
        for rule in &self.missing {
            write!(f, "\nmissing: the role `{}`, by {rule}", rule.role)?;
        }
        for near in &self.nearly {
            write!(f, "\nnearly:  {near}")?;
        }
        for note in &self.notes {
            write!(f, "\nnote:    {note}")?;
        }
        for (name, value) in &self.set_headers {
            write!(f, "\nsets:    {name}: {value}")?;
        }
        if !self.remove_headers.is_empty() {
            write!(f, "\nremoves: {}", self.remove_headers.join(", "))?;
        }
        write!(f, "\npolicy:  {}", self.revision.policy)?;
        match self.revision.keys.as_deref().or(self.without_keys.as_deref()) {
            Some(keys) => write!(f, "\nkeys:    {keys}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    fn fmt_request(&self, f: &mut Formatter<'_>) -> Result {
        let Some((canonical, others)) = self.paths.split_first() else { return Ok(()) };
        write!(f, "\nrequest: {} {}{canonical}", self.method, self.host.as_deref().unwrap_or_default())?;
        for path in others {
            write!(f, "\n         may also be read as {path}")?;
        }
        for path in &self.deny_only_paths {
            write!(f, "\n         must not be denied as {path}")?;
        }
        Ok(())
    }

    fn fmt_caller(&self, f: &mut Formatter<'_>) -> Result {
        if self.decided_on.is_none() {
            return Ok(());
        }
        write!(f, "\ncaller:  {}", self.user.as_deref().unwrap_or("anonymous"))?;
        if let Some(issuer) = &self.issuer {
            write!(f, ", by a token of {issuer}")?;
        }
        if !self.groups.is_empty() {
            write!(f, ", in {}", self.groups.join(", "))?;
        }
        if self.roles.is_empty() {
            write!(f, "\nroles:   none")?;
        }
        for role in &self.roles {
            write!(f, "\nroles:   {role}")?;
        }
        Ok(())
    }
}

impl Display for ExplainedRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let from: Vec<String> = self.from.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.name, from.join("; "))
    }
}

impl Display for RoleSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Everyone => f.write_str("every caller has it"),
            Self::EveryoneAuthenticated => f.write_str("every authenticated caller has it"),
            Self::GrantedToUser(user) => write!(f, "granted to the user `{user}`"),
            Self::GrantedToGroup(group) => write!(f, "granted to the group `{group}`"),
            Self::CarriedByToken => f.write_str("carried by the token"),
            Self::Given => f.write_str("given by `--role`"),
            Self::ExtendedBy(role) => write!(f, "extended by `{role}`"),
        }
    }
}
