//! The names in a test case that are probably mistakes. A case that denies its caller passes also
//! with a misspelt group, and then tests nothing.

use std::borrow::Cow;
use std::sync::Arc;

use document::closest;
use policy::cases::{Case, Credentials};
use policy::model::SourceId;

use crate::Explainer;
use crate::named::known_groups;
use crate::subjects::{mapped_backend_roles, subject_of_text};

/// The fewest characters of a word that can be misspelt: shorter ones, as in `team-a` and `team-b`,
/// tell names apart.
const MIN_WORD: usize = 4;

impl Explainer<'_> {
    /// The names of a case that are probably mistakes, each in words.
    ///
    /// A token can bring any group and any role, and a case may be about a stranger. So of the
    /// names in a token, only those are mistakes that look like a misspelt name of the policy or
    /// the search cluster. Of other names, each that the policy or the cluster does not have is a
    /// mistake.
    #[must_use]
    pub fn doubtful_names(self, case: &Case) -> Vec<String> {
        let host = case.request.host.as_str();
        let cluster = self.cluster_of(host.as_bytes());
        let known_groups = || -> Vec<Cow<'_, str>> {
            match cluster {
                Some(cluster) => {
                    mapped_backend_roles(cluster).map(|pattern| pattern.text().into()).collect()
                }
                None => known_groups(self.policy()).into_iter().collect(),
            }
        };
        match &case.request.credentials {
            Credentials::User { name, groups } => {
                // Whoever expects 401, the answer to a wrong password, means a stranger.
                let user = Some(name.as_str()).filter(|_| case.expect.status != 401);
                let known_groups = known_groups();
                let is_mistake = |group: &&Arc<str>| {
                    !self.token_may_bring(host, name, group) || is_misspelt(group, &known_groups)
                };
                let groups: Vec<String> =
                    groups.iter().filter(is_mistake).map(ToString::to_string).collect();
                let mut names = self.unknown_names(host, user, (&[], &[]));
                names.extend(self.unknown_names(host, None, (&groups, &[])));
                names
            }
            Credentials::Claims(claims) => {
                let Ok(subject) = subject_of_text(self.authorizer.backend(host.as_bytes()), claims)
                else {
                    return Vec::new();
                };
                let known_groups = known_groups();
                // On a search cluster a role of a token is a backend role, like a group.
                let known_roles: Vec<Cow<'_, str>> = match cluster {
                    Some(_) => known_groups.clone(),
                    None => self.policy().roles.iter().map(|role| (&*role.name).into()).collect(),
                };
                let misspelt = |names: &[Arc<str>], known: &[Cow<'_, str>]| -> Vec<String> {
                    let misspelt = names.iter().filter(|name| is_misspelt(name, known));
                    misspelt.map(ToString::to_string).collect()
                };
                let groups = misspelt(&subject.groups, &known_groups);
                let roles = misspelt(&subject.roles, &known_roles);
                self.unknown_names(host, None, (&groups, &roles))
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
            source.is_none_or(|source| source == SourceId::from_issuer(index))
                && issuer.claims.groups.is_some()
                && group.starts_with(&*issuer.group_prefix)
        })
    }
}

/// Whether a name is probably one of these, misspelt.
fn is_misspelt(name: &str, known: &[Cow<'_, str>]) -> bool {
    known
        .iter()
        .any(|known| closest(name, [&**known]).is_some_and(|meant| !is_another(name, meant)))
}

/// Whether a name is similar on purpose: one of a series, such as `team-b` or `unit2` beside
/// `team-a` and `unit1`, or a name with a word more.
fn is_another(name: &str, meant: &str) -> bool {
    let differing: Vec<_> =
        words(name).zip(words(meant)).filter(|(one, other)| one != other).collect();
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
