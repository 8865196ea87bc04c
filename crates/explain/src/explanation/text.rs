//! Explanations in words, for a terminal.

use std::fmt::{Display, Formatter, Result};

use super::{
    ExplainedCaller, ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed,
    ExplainedRole, Explanation, MissingPrivilege, PermittingRole, RoleSource,
};
use crate::one_line::{OneLine, write_condition, write_lines};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.status, if self.status == 200 { "allowed" } else { "denied" })?;
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            write!(f, ": {} ({name})", OneLine(because))?;
        }
        write_lines(f, "because: ", &self.detail)?;
        self.fmt_request(f)?;
        self.fmt_caller(f)?;
        write_lines(f, "rule:    ", &self.rule)?;
        let decided_on = self.decided_on.as_ref().filter(|path| self.paths.first() != Some(path));
        write_lines(f, "         with the path read as ", decided_on)?;
        write_lines(f, "when:    ", &self.conditions)?;
        if !self.depends_on.is_empty() {
            let variables = self.depends_on.join(", ");
            write!(f, "\ndepends: {} (not given)", OneLine(variables))?;
        }
        write_lines(f, "missing: ", &self.missing)?;
        write_lines(f, "nearly:  ", &self.nearly)?;
        if let Some(cluster) = &self.cluster {
            write!(f, "{cluster}")?;
        }
        write_lines(f, "note:    ", &self.notes)?;
        for (name, value) in &self.set_headers {
            write!(f, "\nsets:    {name}: {}", OneLine(value))?;
        }
        for (key, value) in &self.metadata {
            write!(f, "\nsets:    metadata {key}: {}", OneLine(value))?;
        }
        if !self.remove_headers.is_empty() {
            write!(f, "\nremoves: {}", self.remove_headers.join(", "))?;
        }
        write!(f, "\npolicy:  {}", self.revision.policy)?;
        match self.revision.keys.as_deref().or(self.keys_note.as_deref()) {
            Some(keys) => write!(f, "\nkeys:    {keys}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    fn fmt_request(&self, f: &mut Formatter<'_>) -> Result {
        let host = self.host.as_deref().unwrap_or_default();
        write_request(f, (&self.method, host, &self.paths), self.cluster.as_deref())?;
        write_lines(f, "         must not be denied as ", &self.deny_only_paths)
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
        write_lines(f, "roles:   ", &self.caller.roles)
    }
}

/// Writes the method, the host and the interpretations of the path; nothing if there are none.
pub(crate) fn write_request(
    f: &mut Formatter<'_>,
    (method, host, paths): (&str, &str, &[String]),
    cluster: Option<&ExplainedCluster>,
) -> Result {
    let Some((canonical, more)) = paths.split_first() else { return Ok(()) };
    write!(f, "\nrequest: {}", OneLine(format_args!("{method} {host}{canonical}")))?;
    write_lines(f, "         may also be read as ", more)?;
    match cluster.and_then(|cluster| cluster.operation) {
        Some(name) => write!(f, "\n         the operation `{name}` of the search cluster"),
        None => Ok(()),
    }
}

impl ExplainedCaller {
    /// Writes the line of the caller, and a line for its actor. For a search cluster there are
    /// `backend_roles`, which are shown instead of the groups of the caller.
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
            Some([]) => {}
            Some(names) => write!(f, ", with the backend roles {}", OneLine(names.join(", ")))?,
            None if self.groups.is_empty() => {}
            None => write!(f, ", in {}", OneLine(self.groups.join(", ")))?,
        }
        let Some(actor) = &self.actor else { return Ok(()) };
        write!(f, "\nactor:   {}", OneLine(actor.user.as_deref().unwrap_or_default()))?;
        if !actor.groups.is_empty() {
            write!(f, ", in {}", OneLine(actor.groups.join(", ")))?;
        }
        Ok(())
    }
}

impl Display for ExplainedRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let from: Vec<String> = self.from.iter().map(ToString::to_string).collect();
        let missing = if self.is_missing { "; the cluster has no such role" } else { "" };
        write!(f, "{} ({}{missing})", self.name, from.join("; "))?;
        write_condition(f, self.when.as_deref())
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
        write_lines(f, "needs:   ", &self.needs)?;
        if self.operation.is_some() && self.needs.is_empty() {
            f.write_str("\nneeds:   nothing: every authenticated caller may")?;
        }
        write_lines(f, "granted: ", &self.granted)?;
        write_lines(f, "missing: ", &self.missing)?;
        if !self.permitted_in_part.is_empty() {
            write!(f, "\nin part: permitted on {}", OneLine(self.permitted_in_part.join(", ")))?;
        }
        write_lines(f, "filter:  ", &self.filters)?;
        for PermittingRole { name, mapped_from } in &self.permitting {
            let mapped_from = match mapped_from.as_slice() {
                [] => "nobody".to_owned(),
                callers => callers.join(", "),
            };
            write!(f, "\npermits: the role `{name}`, mapped from {mapped_from}")?;
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

impl Display for MissingPrivilege {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = if self.name.is_empty() { "the cluster" } else { &self.name };
        write!(f, "{} on {name} ({})", self.action, self.because)?;
        match self.granted_by.as_slice() {
            [] => Ok(()),
            roles => write!(f, ": granted by {}", roles.join(", ")),
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
        let query = self.query.iter().map(|query| format!("only documents that match {query}"));
        let mut parts: Vec<String> = query.collect();
        for (label, fields) in
            [("only the fields", &self.fields), ("masked the fields", &self.masked_fields)]
        {
            if !fields.is_empty() {
                parts.push(format!("{label} {}", fields.join(", ")));
            }
        }
        write!(f, "the role `{}` shows on {} {}", self.role, self.name, parts.join(", and "))
    }
}
