//! The fields of the forms: to list some of the last denials, to explain a request, and to list the
//! rules of a user, a role or a path.

use form_urlencoded::Serializer;
use runtime::Denial;

/// The fields of the forms, as a query has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) denials: DenialFields,
    pub(crate) explained: ExplainedFields,
    pub(crate) rules: RuleFields,
    /// Whether the page reloads by itself.
    pub(crate) refresh: bool,
}

/// The denials to list. Empty fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DenialFields {
    pub(crate) id: String,
    pub(crate) user: String,
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
    /// If empty, the prefix of the user name tells the source.
    pub(crate) issuer: String,
    /// Separated by commas.
    pub(crate) groups: String,
    pub(crate) roles: String,
}

/// The rules to list. Empty fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleFields {
    pub(crate) of_user: String,
    pub(crate) of_role: String,
    pub(crate) on_path: String,
}

impl Question {
    /// Parses a query. Unknown fields are ignored.
    pub(crate) fn parse(query: &str) -> Self {
        let mut question = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "refresh" {
                question.refresh = true;
            } else if let Some((_, text)) =
                question.fields().into_iter().find(|(field, _)| *field == name)
            {
                value.trim().clone_into(text);
            }
        }
        question
    }

    /// The address of the page with these fields.
    pub(crate) fn link(mut self) -> String {
        let mut query = Serializer::new(String::new());
        if self.refresh {
            query.append_key_only("refresh");
        }
        query.extend_pairs(self.fields().into_iter().filter(|(_, value)| !value.is_empty()));
        match query.finish() {
            query if query.is_empty() => "/console".to_owned(),
            query => format!("/console?{query}"),
        }
    }

    /// All text fields, with their names.
    fn fields(&mut self) -> [(&'static str, &mut String); 12] {
        let Self { denials, explained, rules, .. } = self;
        [
            ("denied_id", &mut denials.id),
            ("denied_user", &mut denials.user),
            ("method", &mut explained.method),
            ("host", &mut explained.host),
            ("path", &mut explained.path),
            ("user", &mut explained.user),
            ("issuer", &mut explained.issuer),
            ("groups", &mut explained.groups),
            ("roles", &mut explained.roles),
            ("of_user", &mut rules.of_user),
            ("of_role", &mut rules.of_role),
            ("on_path", &mut rules.on_path),
        ]
    }
}

impl DenialFields {
    /// Whether to list a denial.
    pub(crate) fn matches(&self, denial: &Denial) -> bool {
        let mut users = [&denial.user, &denial.attempted_user].into_iter().flatten();
        [&denial.request_id, &denial.x_request_id].iter().any(|id| id.contains(&self.id))
            && (self.user.is_empty() || users.any(|user| user.contains(&self.user)))
    }
}

impl ExplainedFields {
    /// The request of a denial. Invalid credentials are explained as if they were valid.
    pub(crate) fn from_denial(denial: &Denial) -> Self {
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
        let fields = ExplainedFields::from_denial(&denial);
        let denials = DenialFields { id: "a b".to_owned(), user: "&".to_owned() };
        let question =
            Question { denials, explained: fields.clone(), refresh: true, ..Question::default() };
        let link = question.clone().link();
        assert_eq!(Question::parse(link.strip_prefix("/console?").unwrap()), question);
        assert_eq!(Question::default().link(), "/console");
        assert_eq!(names(&fields.roles), ["a", "b"]);
    }

    #[test]
    fn denials_are_found_by_either_id_and_either_user() {
        let denial = Denial {
            request_id: "abc-1".to_owned(),
            x_request_id: "def-2".to_owned(),
            attempted_user: Some("bob".to_owned()),
            ..Denial::default()
        };
        for (id, user, is_taken) in [
            ("", "", true),
            ("abc", "", true),
            ("def-2", "bo", true),
            ("abc-2", "", false),
            ("abc", "ann", false),
        ] {
            let fields = DenialFields { id: id.to_owned(), user: user.to_owned() };
            assert_eq!(fields.matches(&denial), is_taken, "{id} {user}");
        }
        assert!(DenialFields::default().matches(&Denial::default()), "without a user");
    }

    #[test]
    fn unknown_fields_and_spaces_do_not_count() {
        let question = Question::parse("of_user=+ada+&password=x&refresh");
        assert_eq!(question.rules.of_user, "ada");
        assert!(question.refresh && question.explained == ExplainedFields::default());
    }
}
