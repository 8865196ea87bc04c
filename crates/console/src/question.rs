//! What a form asks: to explain a request, or to list the rules of a user, a role or a path.

use form_urlencoded::Serializer;
use runtime::Denial;

/// The fields of both forms, as a query has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) explained: ExplainedFields,
    pub(crate) rules: RuleFields,
    /// Whether the page loads itself again.
    pub(crate) refresh: bool,
}

/// The request to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExplainedFields {
    pub(crate) method: String,
    pub(crate) host: String,
    /// A path or a URL.
    pub(crate) path: String,
    /// Empty for a request without credentials.
    pub(crate) user: String,
    /// Empty for the source that the name can come from.
    pub(crate) issuer: String,
    /// Separated by commas.
    pub(crate) groups: String,
    pub(crate) roles: String,
}

/// Which rules to list. What is empty does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleFields {
    pub(crate) of_user: String,
    pub(crate) of_role: String,
    pub(crate) on_path: String,
}

impl Question {
    /// Reads a query; fields that are not known do not count.
    pub(crate) fn read(query: &str) -> Self {
        let mut question = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "refresh" {
                question.refresh = true;
            } else if let Some(field) = question.field(&name) {
                value.trim().clone_into(field);
            }
        }
        question
    }

    fn field(&mut self, name: &str) -> Option<&mut String> {
        let Self { explained, rules, .. } = self;
        Some(match name {
            "method" => &mut explained.method,
            "host" => &mut explained.host,
            "path" => &mut explained.path,
            "user" => &mut explained.user,
            "issuer" => &mut explained.issuer,
            "groups" => &mut explained.groups,
            "roles" => &mut explained.roles,
            "of_user" => &mut rules.of_user,
            "of_role" => &mut rules.of_role,
            "on_path" => &mut rules.on_path,
            _ => return None,
        })
    }
}

impl ExplainedFields {
    /// The request of a denial. Whoever had invalid credentials is asked about as if they had been valid.
    pub(crate) fn of(denial: &Denial) -> Self {
        let user = denial.user.as_ref().or(denial.attempted_user.as_ref());
        Self {
            method: denial.method.clone(),
            host: denial.host.clone(),
            path: denial.path.clone(),
            user: user.cloned().unwrap_or_default(),
            issuer: denial.issuer.clone().unwrap_or_default(),
            groups: denial.groups.join(", "),
            roles: denial.roles.join(", "),
        }
    }

    /// The address of the page with this form filled in.
    pub(crate) fn link(&self) -> String {
        let Self { method, host, path, user, issuer, groups, roles } = self;
        let names = ["method", "host", "path", "user", "issuer", "groups", "roles"];
        let fields = names.into_iter().zip([method, host, path, user, issuer, groups, roles]);
        let mut query = Serializer::new(String::new());
        query.extend_pairs(fields.filter(|(_, value)| !value.is_empty()));
        format!("/console?{}#explain", query.finish())
    }
}

impl RuleFields {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The names of a list that commas separate.
pub(crate) fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_was_written() {
        let denial = Denial {
            method: "GET".to_owned(),
            host: "a.example:8080".to_owned(),
            path: "/a b/%2e?x=<&y=\"".to_owned(),
            attempted_user: Some("o'neil&co".to_owned()),
            roles: vec!["a".to_owned(), "b".to_owned()],
            ..Denial::default()
        };
        let fields = ExplainedFields::of(&denial);
        let link = fields.link();
        let query = link.strip_prefix("/console?").and_then(|link| link.strip_suffix("#explain")).unwrap();
        assert_eq!(Question::read(query).explained, fields);
        assert_eq!(names(&fields.roles), ["a", "b"]);
    }

    #[test]
    fn unknown_fields_and_spaces_do_not_count() {
        let question = Question::read("of_user=+ada+&password=x&refresh");
        assert_eq!(question.rules.of_user, "ada");
        assert!(question.refresh && question.explained == ExplainedFields::default());
    }
}
