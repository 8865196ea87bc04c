//! Explanations in words, for a terminal.

use std::fmt::{Display, Formatter, Result};

use crate::one_line::OneLine;

use super::{
    ExplainedCaller, ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed,
    ExplainedRole, Explanation, RoleSource,
};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.status, if self.status == 200 { "allowed" } else { "denied" })?;
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, ": {} ({name})", OneLine(because))?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "\nbecause: {}", OneLine(detail))?;
        }
        self.fmt_request(f)?;
        self.fmt_caller(f)?;
        if let Some(rule) = &self.rule {
            write!(f, "\nrule:    {}", OneLine(rule))?;
        }
        if let Some(path) = self.decided_on.as_ref().filter(|path| self.paths.first() != Some(path))
        {
            write!(f, "\n         with the path read as {}", OneLine(path))?;
        }
        for missing in &self.missing {
            write!(f, "\nmissing: {}", OneLine(missing))?;
        }
        for near in &self.nearly {
            write!(f, "\nnearly:  {}", OneLine(near))?;
        }
        if let Some(cluster) = &self.cluster {
            write!(f, "{cluster}")?;
        }
        for note in &self.notes {
            write!(f, "\nnote:    {}", OneLine(note))?;
        }
        for (name, value) in &self.set_headers {
            write!(f, "\nsets:    {name}: {}", OneLine(value))?;
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
        let Some((canonical, more)) = self.paths.split_first() else { return Ok(()) };
        let host = self.host.as_deref().unwrap_or_default();
        write!(f, "\nrequest: {}", OneLine(format_args!("{} {host}{canonical}", self.method)))?;
        for path in more {
            write!(f, "\n         may also be read as {}", OneLine(path))?;
        }
        if let Some(operation) = self.cluster.as_ref().and_then(|cluster| cluster.operation) {
            write!(f, "\n         the operation `{operation}` of the search cluster")?;
        }
        for path in &self.deny_only_paths {
            write!(f, "\n         must not be denied as {}", OneLine(path))?;
        }
        Ok(())
    }

    fn fmt_caller(&self, f: &mut Formatter<'_>) -> Result {
        if self.decided_on.is_none() {
            return Ok(());
        }
        let backend_roles = self.cluster.as_ref().map(|cluster| cluster.backend_roles.as_slice());
        f.write_str("\n")?;
        self.caller.fmt_line(f, "anonymous", backend_roles)?;
        if self.caller.roles.is_empty() {
            write!(f, "\nroles:   none")?;
        }
        self.caller.fmt_roles(f)
    }
}

impl ExplainedCaller {
    /// Writes the line of the caller. A caller on a search cluster has backend roles.
    pub(crate) fn fmt_line(
        &self,
        f: &mut Formatter<'_>,
        without_user: &str,
        backend_roles: Option<&[String]>,
    ) -> Result {
        write!(f, "caller:  {}", OneLine(self.user.as_deref().unwrap_or(without_user)))?;
        if let Some(issuer) = &self.issuer {
            write!(f, ", by a token of {}", OneLine(issuer))?;
        }
        match backend_roles {
            Some([]) => Ok(()),
            Some(names) => write!(f, ", with the backend roles {}", OneLine(names.join(", "))),
            None if self.groups.is_empty() => Ok(()),
            None => write!(f, ", in {}", OneLine(self.groups.join(", "))),
        }
    }

    pub(crate) fn fmt_roles(&self, f: &mut Formatter<'_>) -> Result {
        self.roles.iter().try_for_each(|role| write!(f, "\nroles:   {}", OneLine(role)))
    }
}

impl Display for ExplainedRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let from: Vec<String> = self.from.iter().map(ToString::to_string).collect();
        let missing = if self.is_missing { "; the cluster has no such role" } else { "" };
        write!(f, "{} ({}{missing})", self.name, from.join("; "))
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
            Self::OfCluster(source) => source.fmt(f),
        }
    }
}

impl Display for ExplainedCluster {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for need in &self.needs {
            write!(f, "\nneeds:   {}", OneLine(need))?;
        }
        if self.operation.is_some() && self.needs.is_empty() {
            f.write_str("\nneeds:   nothing: every authenticated caller may")?;
        }
        for grant in &self.granted {
            write!(f, "\ngranted: {}", OneLine(grant))?;
        }
        for missing in &self.missing {
            let name = if missing.name.is_empty() { "the cluster" } else { &missing.name };
            write!(f, "\nmissing: {} on {} ({})", missing.action, OneLine(name), missing.because)?;
            if !missing.granted_by.is_empty() {
                write!(f, ": granted by {}", missing.granted_by.join(", "))?;
            }
        }
        if !self.permitted_in_part.is_empty() {
            write!(f, "\nin part: permitted on {}", OneLine(self.permitted_in_part.join(", ")))?;
        }
        for filter in &self.filters {
            write!(f, "\nfilter:  {}", OneLine(filter))?;
        }
        for role in &self.permitting {
            write!(f, "\npermits: the role `{}`, mapped from ", role.name)?;
            match role.mapped_from.as_slice() {
                [] => f.write_str("nobody")?,
                from => f.write_str(&from.join(", "))?,
            }
        }
        if self.roles_left_out {
            f.write_str("\npermits: maybe other roles, too: there are too many to try each")?;
        }
        match self.inventory {
            Some(names) => write!(f, "\ncluster: {names} names in the inventory"),
            None => {
                f.write_str("\ncluster: no inventory, so it is not known what patterns stand for")
            }
        }
    }
}

impl Display for ExplainedNeed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} on ", self.actions.join(", "))?;
        match self.target {
            "cluster" => f.write_str("the cluster"),
            "new_index" => write!(f, "{}, if nothing has this name", self.on),
            "new_alias" => write!(f, "{}, the name of an alias", self.on),
            _ => f.write_str(&self.on),
        }?;
        if !self.stands_for.is_empty() {
            write!(f, ", which stands for {}", self.stands_for.join(", "))?;
        }
        if self.stands_for_more > 0 {
            write!(f, " and {} more", self.stands_for_more)?;
        }
        Ok(())
    }
}

impl Display for ExplainedGrant {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { actions, names, role, pattern, through } = self;
        let names = if names.is_empty() { "the cluster".to_owned() } else { names.join(", ") };
        write!(f, "{} on {names} by ", actions.join(", "))?;
        match pattern {
            Some(pattern) => write!(f, "`{pattern}` of the role `{role}`")?,
            None => write!(f, "the role `{role}`")?,
        }
        match through {
            Some(name) => write!(f, ", which matches {name}, an alias or data stream of it"),
            None => Ok(()),
        }
    }
}

impl Display for ExplainedFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "the role `{}` shows on {}", self.role, self.name)?;
        let mut separator = " only";
        if let Some(query) = &self.query {
            write!(f, "{separator} documents that match {query}")?;
            separator = ", and only";
        }
        if !self.fields.is_empty() {
            write!(f, "{separator} the fields {}", self.fields.join(", "))?;
            separator = ", and";
        }
        if !self.masked_fields.is_empty() {
            write!(
                f,
                "{} masked the fields {}",
                separator.trim_end_matches(" only"),
                self.masked_fields.join(", ")
            )?;
        }
        Ok(())
    }
}
