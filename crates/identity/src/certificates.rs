//! Client certificates of a policy: from the names of a certificate to its user.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use policy::model::{self, NameTemplate, SourceId};
use serde_json::Value;

use crate::{Certificate, CredentialsError, Subject, is_name, with_prefix};

/// The users and groups of certificates.
pub(crate) struct Certificates {
    settings: model::Certificates,
    /// The places of entries without placeholders in the settings, by their names: users and
    /// groups.
    literals: [HashMap<Arc<str>, usize>; 2],
    /// The places of the other entries.
    patterns: [Vec<usize>; 2],
}

const USERS: usize = 0;
const GROUPS: usize = 1;

impl Certificates {
    pub(crate) fn compile(settings: &model::Certificates) -> Self {
        let users = settings.users.iter().map(|entry| &entry.name).collect::<Vec<_>>();
        let groups = settings.groups.iter().map(|entry| &entry.name).collect::<Vec<_>>();
        let literals = [&users, &groups].map(|names| {
            let literals = names.iter().enumerate().filter(|(_, name)| name.is_literal());
            literals.map(|(index, name)| (name.text.clone(), index)).collect()
        });
        let patterns = [&users, &groups].map(|names| {
            let patterns = names.iter().enumerate().filter(|(_, name)| !name.is_literal());
            patterns.map(|(index, _)| index).collect()
        });
        Self { literals, patterns, settings: settings.clone() }
    }

    /// The user of a certificate; `None` if no entry names it.
    ///
    /// # Errors
    /// If it cannot be read, or its names are two users.
    pub(crate) fn subject(
        &self,
        certificate: Certificate<'_>,
    ) -> Result<Option<Subject>, CredentialsError> {
        let names = certificate.names().map_err(|_| CredentialsError::MalformedCertificate)?;
        let mut users = self.users(&names);
        let (Some(user), second) = (users.pop(), users.pop()) else { return Ok(None) };
        if second.is_some() {
            return Err(CredentialsError::SeveralUsers);
        }
        let model::Certificates { user_prefix, group_prefix, .. } = &self.settings;
        let groups = self.groups(&names);
        Ok(Some(Subject {
            user: with_prefix(user_prefix, &user),
            issuer: None,
            source: Some(SourceId::CERTIFICATES),
            groups: groups.iter().map(|group| with_prefix(group_prefix, group)).collect(),
            roles: Vec::new(),
            claims: Value::Null,
            actor: None,
        }))
    }

    /// The different users of these names, without a prefix.
    pub(crate) fn users(&self, names: &[Cow<'_, str>]) -> Vec<String> {
        let mut users = Vec::new();
        for name in names {
            for entry in self.entries(USERS, name).filter_map(|at| self.settings.users.get(at)) {
                let values = entry.name.matches(name);
                add(&mut users, values.map(|values| entry.user.render(&values)));
            }
        }
        users
    }

    fn groups(&self, names: &[Cow<'_, str>]) -> Vec<String> {
        let mut groups = Vec::new();
        for name in names {
            for entry in self.entries(GROUPS, name).filter_map(|at| self.settings.groups.get(at)) {
                let Some(values) = entry.name.matches(name) else { continue };
                let rendered =
                    entry.groups.iter().map(|group: &NameTemplate| group.render(&values));
                rendered.for_each(|group| add(&mut groups, Some(group)));
            }
        }
        groups
    }

    /// The places of the entries that may match a name.
    fn entries(&self, kind: usize, name: &str) -> impl Iterator<Item = usize> {
        let literal = self.literals.get(kind).and_then(|literals| literals.get(name));
        literal.into_iter().chain(self.patterns.get(kind).into_iter().flatten()).copied()
    }
}

fn add(names: &mut Vec<String>, name: Option<String>) {
    names.extend(name.filter(|name| is_name(name) && !names.contains(name)));
}
