//! Texts with variables: `/people/${id}`.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use fastrand::Rng;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::variable::Variable;
use crate::failed::Failed;

/// A text with variables.
#[derive(Clone)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone)]
enum Part {
    Text(String),
    /// The variable with this index.
    Variable(usize),
}

/// The variables of a workload, each with the number of its values so far. Shared by the threads:
/// each number of a sequence is used only once.
#[derive(Debug)]
pub(crate) struct Variables(Vec<(Variable, AtomicI64)>);

/// The variables of a request. A variable has the same value throughout a request.
pub(crate) struct Scope<'a> {
    variables: &'a Variables,
    random: &'a mut Rng,
    values: Vec<Option<String>>,
}

impl Variables {
    pub(crate) fn new(variables: &[Variable]) -> Self {
        Self(variables.iter().map(|variable| (variable.clone(), AtomicI64::new(0))).collect())
    }

    /// The variables of the next request.
    pub(crate) fn scope<'a>(&'a self, random: &'a mut Rng) -> Scope<'a> {
        Scope { variables: self, random, values: vec![None; self.0.len()] }
    }
}

impl Scope<'_> {
    /// Makes each variable take a new value at its next use.
    pub(crate) fn forget(&mut self) {
        self.values.fill(None);
    }

    fn value(&mut self, index: usize) -> &str {
        let slot = self.values.get_mut(index);
        let (Some(slot), Some((variable, next))) = (slot, self.variables.0.get(index)) else {
            return "";
        };
        slot.get_or_insert_with(|| variable.values.value(next.fetch_add(1, Relaxed), self.random))
    }
}

impl Template {
    /// Parses a text. `${name}` is a variable; any other `$` is literal.
    pub(crate) fn parse(mut text: &str, variables: &Variables) -> Result<Self, Failed> {
        let mut parts = Vec::new();
        while let Some((before, after)) = text.split_once("${") {
            let (name, remainder) =
                after.split_once('}').ok_or_else(|| Failed::plan("a `${` without its `}`"))?;
            let index = variables.0.iter().position(|(variable, _)| variable.name == name);
            let index = index.ok_or_else(|| unknown(name, variables))?;
            parts.extend([Part::Text(before.to_owned()), Part::Variable(index)]);
            text = remainder;
        }
        parts.push(Part::Text(text.to_owned()));
        Ok(Self(parts))
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The text with the values of its variables.
    pub(crate) fn text(&self, scope: &mut Scope<'_>) -> String {
        let mut text = String::new();
        self.write(scope, &mut text);
        text
    }

    /// Appends the text with the values of its variables.
    pub(crate) fn write(&self, scope: &mut Scope<'_>, to: &mut String) {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.push_str(text),
                Part::Variable(index) => to.push_str(scope.value(*index)),
            }
        }
    }

    /// The text, with variable values percent-encoded where a path requires it (RFC 3986, 2.1).
    pub(crate) fn text_for_path(&self, scope: &mut Scope<'_>) -> String {
        let mut path = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Variable(index) => {
                    path.extend(utf8_percent_encode(scope.value(*index), ENCODED));
                }
            }
        }
        path
    }
}

/// The characters of a value that are encoded in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b',');

fn unknown(name: &str, variables: &Variables) -> Failed {
    let names = variables.0.iter().map(|(variable, _)| format!("`{}`", variable.name));
    let names = names.collect::<Vec<_>>().join(", ");
    let only = if names.is_empty() { "" } else { ", only " };
    Failed::plan(format!("`${{{name}}}`: there is no such variable{only}{names}"))
}

#[cfg(test)]
mod tests {
    use super::super::variable::Values;
    use super::*;

    fn variable(name: &str, values: Values) -> Variable {
        Variable { name: name.to_owned(), values }
    }

    #[test]
    fn a_variable_has_one_value_in_a_request_and_another_in_the_next() {
        let variables = Variables::new(&[variable("id", Values::Sequence { from: 7, step: -2 })]);
        let template = Template::parse("$5 ${id}/${id}", &variables).unwrap();
        let mut random = Rng::with_seed(1);
        assert_eq!(template.text(&mut variables.scope(&mut random)), "$5 7/7");
        let mut scope = variables.scope(&mut random);
        assert_eq!(template.text(&mut scope), "$5 5/5");
        scope.forget();
        assert_eq!(template.text(&mut scope), "$5 3/3");
    }

    #[test]
    fn a_path_stays_one() {
        let list = Values::List(vec!["a b/c?d".to_owned()]);
        let variables = Variables::new(&[variable("name", list)]);
        let template = Template::parse("/x?${name}", &variables).unwrap();
        assert_eq!(
            template.text_for_path(&mut variables.scope(&mut Rng::with_seed(1))),
            "/x?a%20b/c%3Fd"
        );
    }

    #[test]
    fn says_what_is_wrong() {
        let variables = Variables::new(&[variable("id", Values::Uuid)]);
        assert!(
            Template::parse("${id", &variables).err().unwrap().to_string().contains("without its")
        );
        assert!(
            Template::parse("${ib}", &variables).err().unwrap().to_string().contains("only `id`")
        );
    }
}
