//! Texts with values of the subject: `${user.name}`, `${attr.internal.department}`.
//!
//! OpenSearch inserts a value as it is. So a user named `*` has every index of the role
//! `own_index`, and a quote in an attribute ends the text of a query. Here values are literal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pattern::{Pattern, Symbol};

/// The values of variables: `user.name`, `user.roles`, `user.securityRoles`, `attr.…`.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// Whether the version of the plugin supports defaults (`${NAME:-DEFAULT}`).
    has_defaults: bool,
}

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    text: Arc<str>,
    variables: Arc<[Variable]>,
    end: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Variable {
    name: String,
    default: Option<String>,
    /// The text between the variable before and this variable.
    before: String,
    is_in_json_string: bool,
    /// The offset of the variable in the text, in bytes.
    offset: usize,
}

/// Why a template is not supported, with the offset in bytes.
pub(crate) type TemplateError = (usize, &'static str);

impl Variables {
    /// Sets a value. Names may be written with `_` instead of `.`.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        self.values.insert(name.replace('.', "_"), value.clone());
        self.values.insert(name.to_owned(), value);
    }

    /// Sets a list of names, which a query may contain as `[${user.roles}]`.
    pub fn set_list<'v>(&mut self, name: &str, values: impl IntoIterator<Item = &'v str>) {
        let quoted: Vec<String> =
            values.into_iter().map(|value| format!("\"{}\"", json_escaped(value))).collect();
        self.set(name, quoted.join(","));
    }

    /// The bytes of the values on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        self.values
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>())
            .sum()
    }

    /// The value of a variable, or else its default. `None` if it has neither. Also `None`, even if
    /// there is a value, if a default is written and the version does not support defaults.
    fn value<'v>(&'v self, Variable { name, default, .. }: &'v Variable) -> Option<&'v str> {
        let is_supported = default.is_none() || self.has_defaults;
        self.values.get(name).or(default.as_ref()).filter(|_| is_supported).map(String::as_str)
    }

    /// The same values, for a version that supports defaults or one that does not.
    #[must_use]
    pub fn with_defaults(self, has_defaults: bool) -> Self {
        Self { has_defaults, ..self }
    }
}

impl Template {
    pub(super) fn is_template(text: &str) -> bool {
        text.contains("${")
    }

    /// Reads `${NAME}` and `${NAME:-DEFAULT}`.
    pub(crate) fn parse(text: &Arc<str>) -> Result<Self, TemplateError> {
        let (mut variables, mut end, mut is_in_json_string) = (Vec::new(), &**text, false);
        while let Some((before, after)) = end.split_once("${") {
            let offset = text.len() - after.len() - 2;
            if before.ends_with('$') {
                return Err((offset, "`$${` is not supported"));
            }
            let Some((inner, next)) = after.split_once('}') else {
                return Err((offset, "`${` is not closed by `}`"));
            };
            if inner.contains("${") {
                return Err((offset, "a variable within a variable is not supported"));
            }
            is_in_json_string = ends_in_string(is_in_json_string, before);
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name.to_owned(), Some(default.to_owned())),
                None => (inner.to_owned(), None),
            };
            let before = before.to_owned();
            variables.push(Variable { name, default, before, is_in_json_string, offset });
            end = next;
        }
        Ok(Self { text: text.clone(), variables: variables.into(), end: end.into() })
    }

    /// The text as configured.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As a pattern of index names, in which values are literal; `None` if a value is missing.
    #[must_use]
    pub fn pattern(&self, variables: &Variables) -> Option<Pattern> {
        let mut symbols = Vec::new();
        for variable in &*self.variables {
            symbols.extend(crate::pattern::symbols(&variable.before));
            symbols.extend(variables.value(variable)?.bytes().map(Symbol::Byte));
        }
        symbols.extend(crate::pattern::symbols(&self.end));
        Some(Pattern::from_symbols(self.text.clone(), symbols))
    }

    /// The pattern by which the plugin hides documents: it reads a value with `*` or `?` as a
    /// pattern, and a text between slashes as a regular expression. `None` if the plugin matches
    /// the same names as [`Self::pattern`].
    ///
    /// A permission grants only the names that the literal pattern matches. But it hides documents
    /// of all names that this wider pattern matches.
    #[must_use]
    pub(crate) fn hiding_pattern(&self, variables: &Variables) -> Option<Pattern> {
        let (mut is_pattern, mut is_anything) = (false, false);
        for variable in &*self.variables {
            let value = match variable.default {
                // rolegate does not know whether this version of the plugin uses the default.
                Some(_) => "*",
                None => variables.value(variable).unwrap_or_default(),
            };
            is_pattern |= value.contains(['*', '?']);
            // The values of several variables together may have a slash at both ends. A `$` may
            // begin a variable, which the plugin replaces, too.
            is_anything |= value.contains(['/', '$']);
        }
        match (is_anything, is_pattern) {
            (true, _) => Some(Pattern::from_symbols(self.text.clone(), vec![Symbol::AnyText])),
            (false, true) => Some(self.pattern_for_any_values()),
            (false, false) => None,
        }
    }

    /// The variables without a default that no caller can have, each with its offset in bytes.
    pub(super) fn unknown_variables(&self) -> impl Iterator<Item = (usize, &str)> {
        let unknown = self
            .variables
            .iter()
            .filter(|variable| variable.default.is_none() && !is_known_variable(&variable.name));
        unknown.map(|variable| (variable.offset, &*variable.name))
    }

    /// The pattern of all names that the template matches with any values.
    pub(crate) fn pattern_for_any_values(&self) -> Pattern {
        let mut symbols = Vec::new();
        for variable in &*self.variables {
            symbols.extend(crate::pattern::symbols(&variable.before));
            symbols.push(Symbol::AnyText);
        }
        symbols.extend(crate::pattern::symbols(&self.end));
        Pattern::from_symbols(self.text.clone(), symbols)
    }

    /// The user name with which the template matches a name, if that is its only variable.
    pub(crate) fn user_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let [variable] = &*self.variables else { return None };
        let is_user =
            matches!(&*variable.name, "user.name" | "user_name") && variable.default.is_none();
        let is_literal = !variable.before.contains(['*', '?']) && !self.end.contains(['*', '?']);
        let user = name.strip_prefix(&*variable.before)?.strip_suffix(&*self.end)?;
        (is_user && is_literal).then_some(user)
    }

    /// As a query in JSON; `None` if a value is missing, or the result would not be JSON.
    #[must_use]
    pub fn query(&self, variables: &Variables) -> Option<String> {
        let mut query = String::new();
        for variable in &*self.variables {
            let value = variables.value(variable)?;
            query.push_str(&variable.before);
            if variable.is_in_json_string {
                query.push_str(&json_escaped(value));
                continue;
            }
            let values: Vec<serde_json::Value> =
                serde_json::from_str(&format!("[{value}]")).ok()?;
            if values.iter().any(|value| value.is_array() || value.is_object()) {
                return None;
            }
            query.push_str(value);
        }
        query.push_str(&self.end);
        serde_json::from_str::<serde::de::IgnoredAny>(&query).ok().map(|_| query)
    }
}

/// Whether a caller can have this variable.
fn is_known_variable(name: &str) -> bool {
    let users = ["user.name", "user.roles", "user.securityRoles"];
    let attributes = ["attr.jwt.", "attr.internal.", "attr_jwt_", "attr_internal_"];
    users.iter().any(|user| name == *user || name == user.replace('.', "_"))
        || attributes.iter().any(|start| name.len() > start.len() && name.starts_with(start))
}

/// Whether JSON text that starts in a string, or outside of it, ends in a string.
fn ends_in_string(mut in_string: bool, text: &str) -> bool {
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    in_string
}

/// The text as it is between the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::default();
        variables.set("user.name", "ann*");
        variables.set("attr.internal.quote", "a\"}b");
        variables.set("attr.internal.level", "7");
        variables.set("attr.internal.object", "{\"match_all\":{}}");
        variables.set_list("user.roles", ["one", "t\"wo"]);
        variables
    }

    fn template(text: &str) -> Template {
        Template::parse(&text.into()).unwrap()
    }

    #[test]
    fn a_value_in_a_pattern_is_literal() {
        for text in ["${user.name}-*", "${user_name}-*"] {
            let pattern = template(text).pattern(&variables()).unwrap();
            assert!(pattern.matches("ann*-1"));
            assert!(!pattern.matches("anna-1"));
        }
        let alone = template("${user.name}").pattern(&variables()).unwrap();
        assert!(alone.matches("ann*") && !alone.matches("anna"));
    }

    #[test]
    fn a_missing_value_matches_nothing_unless_a_default_counts() {
        assert!(template("${attr.jwt.team}-*").pattern(&variables()).is_none());
        let team = template("${attr.jwt.team:-none}-*");
        assert!(team.pattern(&variables()).is_none(), "older versions know no defaults");
        let pattern = team.pattern(&variables().with_defaults(true)).unwrap();
        assert!(pattern.matches("none-1"));
    }

    #[test]
    fn what_a_permission_hides_is_matched_as_widely_as_the_plugin_may() {
        let mut variables = variables();
        variables.set("attr.internal.plain", "hr");
        variables.set("attr.internal.regex", "/h.*/");
        let hiding = |text: &str| template(text).hiding_pattern(&variables);
        assert!(hiding("${attr.internal.plain}-*").is_none());
        assert!(hiding("${attr.internal.none}-*").is_none());
        assert!(hiding("${user.name}-*").unwrap().matches("anna-1"));
        assert!(!hiding("${user.name}-*").unwrap().matches("anna"));
        assert!(hiding("${attr.internal.regex}").unwrap().matches("hr-1"));
        assert!(hiding("${attr.internal.plain:-x}-1").unwrap().matches("y-1"));
    }

    #[test]
    fn a_value_cannot_change_a_query() {
        let query = |text| template(text).query(&variables());
        assert_eq!(
            query(r#"{"term":{"a":"${attr.internal.quote}"}}"#).unwrap(),
            r#"{"term":{"a":"a\"}b"}}"#
        );
        assert_eq!(
            query(r#"{"terms":{"a":[${user.roles}]}}"#).unwrap(),
            r#"{"terms":{"a":["one","t\"wo"]}}"#
        );
        assert_eq!(
            query(r#"{"term":{"a":${attr.internal.level}}}"#).unwrap(),
            r#"{"term":{"a":7}}"#
        );
        assert_eq!(query(r#"{"bool":{"must":${attr.internal.object}}}"#), None);
        assert_eq!(query(r#"{"term":{"a":${attr.internal.quote}}}"#), None);
        assert_eq!(query(r#"{"term":{"a":"${attr.jwt.none}"}}"#), None);
        assert_eq!(query(r#"not JSON ${user.name}"#), None);
    }

    #[test]
    fn what_is_not_supported_is_an_error_at_its_place() {
        for (text, offset) in [("a${b", 1), ("${a:-${b}}", 0), ("a$${b}", 2)] {
            assert_eq!(Template::parse(&text.into()).unwrap_err().0, offset, "{text}");
        }
    }
}
