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
    /// Whether defaults (`${NAME:-DEFAULT}`) count. Older versions of the plugin know none.
    has_defaults: bool,
}

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    text: Arc<str>,
    pieces: Arc<[Piece]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Piece {
    Literal(String),
    Variable(Variable),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Variable {
    name: String,
    default: Option<String>,
    is_in_json_string: bool,
    /// Its offset in the text, in bytes.
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

    /// The memory that the values take on the heap, in bytes.
    pub(crate) fn heap_size(&self) -> usize {
        let entry =
            |(name, value): (&String, &String)| name.len() + value.len() + 2 * size_of::<String>();
        self.values.iter().map(entry).sum()
    }

    fn value<'v>(&'v self, Variable { name, default, .. }: &'v Variable) -> Option<&'v str> {
        let may_count = default.is_none() || self.has_defaults;
        self.values.get(name).or(default.as_ref()).filter(|_| may_count).map(String::as_str)
    }

    /// The same, where the plugin knows defaults.
    #[must_use]
    pub fn with_defaults(self, has_defaults: bool) -> Self {
        Self { has_defaults, ..self }
    }
}

impl Template {
    /// Whether a text has variables.
    pub(super) fn is_template(text: &str) -> bool {
        text.contains("${")
    }

    /// Reads `${NAME}` and `${NAME:-DEFAULT}`.
    pub(crate) fn parse(text: &Arc<str>) -> Result<Self, TemplateError> {
        let (mut pieces, mut rest, mut is_in_json_string) = (Vec::new(), &**text, false);
        while let Some((literal, after)) = rest.split_once("${") {
            let offset = text.len() - after.len() - 2;
            if literal.ends_with('$') {
                return Err((offset, "`$${` is not supported"));
            }
            let Some((inner, next)) = after.split_once('}') else {
                return Err((offset, "`${` is not closed by `}`"));
            };
            if inner.contains("${") {
                return Err((offset, "a variable within a variable is not supported"));
            }
            is_in_json_string = ends_in_string(is_in_json_string, literal);
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (inner, None),
            };
            pieces.push(Piece::Literal(literal.to_owned()));
            pieces.push(Piece::Variable(Variable {
                name: name.to_owned(),
                default,
                is_in_json_string,
                offset,
            }));
            rest = next;
        }
        pieces.push(Piece::Literal(rest.to_owned()));
        Ok(Self { text: text.clone(), pieces: pieces.into() })
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
        for piece in &*self.pieces {
            match piece {
                Piece::Literal(text) => symbols.extend(crate::pattern::symbols(text)),
                Piece::Variable(variable) => {
                    symbols.extend(variables.value(variable)?.bytes().map(Symbol::Byte));
                }
            }
        }
        Some(Pattern::from_symbols(self.text.clone(), symbols))
    }

    /// The pattern of all names that the plugin may match: it takes a value with `*` or `?` for a
    /// pattern, and a text between slashes for a regular expression. `None` if it is
    /// [`Self::pattern`].
    ///
    /// A permission grants by the literal pattern, which matches fewer names, and hides by this
    /// one.
    #[must_use]
    pub(crate) fn widened(&self, variables: &Variables) -> Option<Pattern> {
        let values = self.variables().map(|variable| match variable.default {
            // A default may count or not, whatever the settings say: the version is not known.
            Some(_) => "*",
            None => variables.value(variable).unwrap_or_default(),
        });
        let (mut is_pattern, mut is_anything) = (false, false);
        for value in values {
            is_pattern |= value.contains(['*', '?']);
            is_anything |= value.contains(['/', '$']);
        }
        match (is_anything, is_pattern) {
            (true, _) => Some(Pattern::from_symbols(self.text.clone(), vec![Symbol::Many])),
            (false, true) => Some(self.widest()),
            (false, false) => None,
        }
    }

    fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Variable(variable) => Some(variable),
        })
    }

    /// The variables without a default that no caller can have, each with its offset in bytes.
    pub(super) fn unknown_variables(&self) -> impl Iterator<Item = (usize, &str)> {
        let known = ["user.name", "user.roles", "user.securityRoles"];
        let sources = ["attr.jwt.", "attr.internal.", "attr_jwt_", "attr_internal_"];
        let is_known = move |name: &str| {
            known.iter().any(|known| name == *known || name == known.replace('.', "_"))
                || sources
                    .iter()
                    .any(|source| name.len() > source.len() && name.starts_with(source))
        };
        let unknown =
            self.variables().filter(move |one| one.default.is_none() && !is_known(&one.name));
        unknown.map(|variable| (variable.offset, &*variable.name))
    }

    /// The pattern of all names that it may match with some values.
    pub(crate) fn widest(&self) -> Pattern {
        let mut symbols = Vec::new();
        for piece in &*self.pieces {
            match piece {
                Piece::Literal(text) => symbols.extend(crate::pattern::symbols(text)),
                Piece::Variable(_) => symbols.push(Symbol::Many),
            }
        }
        Pattern::from_symbols(self.text.clone(), symbols)
    }

    /// The user name with which it matches a name, if that is its only variable.
    pub(crate) fn user_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let [Piece::Literal(before), Piece::Variable(variable), Piece::Literal(after)] =
            &*self.pieces
        else {
            return None;
        };
        let is_user =
            matches!(&*variable.name, "user.name" | "user_name") && variable.default.is_none();
        let is_literal = ![before, after].iter().any(|text| text.contains(['*', '?']));
        let user = name.strip_prefix(&**before)?.strip_suffix(&**after)?;
        (is_user && is_literal).then_some(user)
    }

    /// As a query in JSON; `None` if a value is missing, or the result would not be JSON.
    #[must_use]
    pub fn query(&self, variables: &Variables) -> Option<String> {
        let mut out = String::new();
        for piece in &*self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Variable(variable) => {
                    let value = variables.value(variable)?;
                    if variable.is_in_json_string {
                        out.push_str(&json_escaped(value));
                    } else {
                        let values: Vec<serde_json::Value> =
                            serde_json::from_str(&format!("[{value}]")).ok()?;
                        let is_scalar =
                            |value: &serde_json::Value| !value.is_array() && !value.is_object();
                        values.iter().all(is_scalar).then(|| out.push_str(value))?;
                    }
                }
            }
        }
        serde_json::from_str::<serde::de::IgnoredAny>(&out).ok().map(|_| out)
    }
}

/// Whether JSON text that starts inside of a string, or outside, ends inside of one.
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
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
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
        let widened = |text: &str| template(text).widened(&variables);
        assert_eq!(widened("${attr.internal.plain}-*"), None);
        assert_eq!(widened("${attr.internal.none}-*"), None);
        assert!(widened("${user.name}-*").unwrap().matches("anna-1"));
        assert!(!widened("${user.name}-*").unwrap().matches("anna"));
        assert!(widened("${attr.internal.regex}").unwrap().matches("hr-1"));
        assert!(widened("${attr.internal.plain:-x}-1").unwrap().matches("y-1"));
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
