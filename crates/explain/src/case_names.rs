//! The names in a test case that are probably mistakes. A case that denies its caller passes also with a misspelt group,
//! and then tests nothing.

use std::borrow::Cow;

use authorizer::Cluster;
use document::closest;
use policy::cases::{Case, Credentials};
use policy::model::SourceId;

use crate::Explainer;
use crate::named::known_groups;
use crate::subjects::{mapped_backend_roles, subject_of_text};

/// The fewest characters of a word that can be misspelt: shorter ones, as in `team-a` and `team-b`, tell names apart.
const MIN_WORD: usize = 4;

impl<'a> Explainer<'a> {
    /// The names of a case that are probably mistakes, each in words.
    ///
    /// Of names that no caller of their source can have this is each that the policy, or the search cluster of the host, does
    /// not have. A token can bring any group and any role, and a case may be about a stranger: of these, it is those that
    /// look like a misspelt one that it has.
    #[must_use]
    pub fn doubtful_names(self, case: &Case) -> Vec<String> {
        let host = case.request.host.as_str();
        let cluster = self.cluster_of(host.as_bytes());
        let of_group = |group: &str, may_be_a_strangers: bool| {
            let unknown = self.unknown_names(host, None, (&[group.to_owned()], &[])).pop()?;
            (!may_be_a_strangers || is_misspelt(group, &self.groups_on(cluster))).then_some(unknown)
        };
        let of_role = |role: &str| {
            let unknown = self.unknown_names(host, None, (&[], &[role.to_owned()])).pop()?;
            is_misspelt(role, &self.roles_on(cluster)).then_some(unknown)
        };
        match &case.request.credentials {
            Credentials::User { name, groups } => {
                // Whoever expects 401, the answer to a wrong password, means a stranger.
                let user = Some(name.as_str()).filter(|_| case.expect.status != 401);
                let mut names = self.unknown_names(host, user, (&[], &[]));
                let groups = groups.iter().map(|group| (group, self.token_may_bring(host, name, group)));
                names.extend(
                    groups.filter_map(|(group, may_be_a_strangers)| of_group(group, may_be_a_strangers)),
                );
                names
            }
            Credentials::Claims(claims) => {
                let Ok(subject) = subject_of_text(self.authorizer.backend(host.as_bytes()), claims) else {
                    return Vec::new();
                };
                let groups = subject.groups.iter().filter_map(|group| of_group(group, true));
                groups.chain(subject.roles.iter().filter_map(|role| of_role(role))).collect()
            }
            Credentials::None | Credentials::Basic(_) | Credentials::Bearer(_) => Vec::new(),
        }
    }

    /// Whether a token of this user can bring this group.
    fn token_may_bring(self, host: &str, user: &str, group: &str) -> bool {
        let identity = self.identity_on(host.as_bytes());
        let source = identity.source_of(user);
        let mut issuers = identity.jwt.iter().enumerate();
        issuers.any(|(index, issuer)| {
            source.is_none_or(|source| source == SourceId::of_issuer(index))
                && issuer.claims.groups.is_some()
                && group.starts_with(&*issuer.group_prefix)
        })
    }

    fn groups_on(self, cluster: Option<&'a Cluster>) -> Vec<Cow<'a, str>> {
        match cluster {
            Some(cluster) => mapped_backend_roles(cluster).map(|pattern| pattern.text().into()).collect(),
            None => known_groups(self.policy()).into_iter().collect(),
        }
    }

    /// On a search cluster a role of a token is a backend role, like a group.
    fn roles_on(self, cluster: Option<&'a Cluster>) -> Vec<Cow<'a, str>> {
        match cluster {
            Some(_) => self.groups_on(cluster),
            None => self.policy().roles.iter().map(|role| (&*role.name).into()).collect(),
        }
    }
}

/// Whether a name is probably one of these, misspelt.
fn is_misspelt(name: &str, known: &[Cow<'_, str>]) -> bool {
    known.iter().any(|known| closest(name, [&**known]).is_some_and(|meant| !is_another(name, meant)))
}

/// Whether a name is a similar one on purpose: one of a series, such as `team-b` or `unit2` beside `team-a` and `unit1`, or one
/// with a word more.
fn is_another(name: &str, meant: &str) -> bool {
    let differing: Vec<_> = words(name).zip(words(meant)).filter(|(one, other)| one != other).collect();
    let is_short = |word: &str| word.chars().count() < MIN_WORD;
    words(name).count() != words(meant).count()
        || match differing.as_slice() {
            [] => digits(name).ne(digits(meant)),
            differing => differing.iter().all(|(one, other)| is_short(one) && is_short(other)),
        }
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty())
}

fn digits(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::is_misspelt;

    #[test]
    fn a_misspelt_name_is_told_from_another_one() {
        for (name, known, misspelt) in [
            ("edittors", "editors", true),
            ("Editors", "editors", true),
            ("on_leave", "on-leave", true),
            ("id:admn-eu", "id:admin-eu", true),
            ("team-b", "team-a", false),
            ("sales-fr", "sales-de", false),
            ("unit2", "unit1", false),
            ("logs-2026", "logs-2025", false),
            ("id:ci:data", "ci:data", false),
            ("strangers", "editors", false),
        ] {
            assert_eq!(is_misspelt(name, &[known.into()]), misspelt, "{name} {known}");
        }
    }
}
