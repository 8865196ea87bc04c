//! The conditions of both policies, each once.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use condition::{Attribute, Condition, Constant, Expression};
use policy::pattern::PlaceholderIndices;

use crate::representatives::NO_PLACE;
use crate::worlds::{World, worlds};

/// Conditions by number.
#[derive(Default)]
pub(crate) struct Conditions {
    conditions: Vec<Interned>,
    numbers: HashMap<String, usize>,
    /// The variables of all of them.
    attributes: BTreeSet<Attribute>,
    worlds: HashMap<Vec<usize>, Option<Rc<Vec<World>>>>,
}

struct Interned {
    expression: Expression,
    text: String,
    in_path: bool,
    in_host: bool,
}

/// The variables of a caller that have other values under the new policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedVariables(pub(crate) Vec<Attribute>);

/// The placeholders of a rule that matches.
pub(crate) struct Places {
    pub(crate) path: PlaceholderIndices,
    pub(crate) host: PlaceholderIndices,
}

impl Conditions {
    /// The number of a condition.
    pub(crate) fn add(&mut self, condition: &Condition) -> usize {
        self.intern((*condition.expression).clone(), text(condition))
    }

    fn intern(&mut self, expression: Expression, text: String) -> usize {
        let next = self.conditions.len();
        let number = *self.numbers.entry(format!("{expression:?}")).or_insert(next);
        if number == next {
            let attributes = expression.attributes();
            let in_path =
                attributes.iter().any(|read| matches!(read, Attribute::PathPlaceholder(_)));
            let in_host =
                attributes.iter().any(|read| matches!(read, Attribute::HostPlaceholder(_)));
            self.attributes.extend(attributes.into_iter().cloned());
            self.conditions.push(Interned { expression, text, in_path, in_host });
        }
        number
    }

    /// Whether any of all conditions reads this variable.
    pub(crate) fn read(&self, attribute: &Attribute) -> bool {
        self.attributes.contains(attribute)
    }

    pub(crate) fn have_placeholders(&self) -> bool {
        self.conditions.iter().any(|condition| condition.in_path || condition.in_host)
    }

    pub(crate) fn are_in_path(&self, numbers: &[usize]) -> bool {
        self.these(numbers).any(|condition| condition.in_path)
    }

    pub(crate) fn are_in_host(&self, numbers: &[usize]) -> bool {
        self.these(numbers).any(|condition| condition.in_host)
    }

    /// The same conditions, for the rule with these placeholders. `changed` has the variables with
    /// other values, if it is a rule of the new policy.
    pub(crate) fn at(
        &mut self,
        numbers: &[usize],
        places: &Places,
        changed: &ChangedVariables,
    ) -> Vec<usize> {
        let mut found: Vec<usize> =
            numbers.iter().map(|number| self.one_at(*number, places, changed)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn one_at(&mut self, number: usize, places: &Places, changed: &ChangedVariables) -> usize {
        let Some(Interned { expression, text, in_path, in_host }) = self.conditions.get(number)
        else {
            return number;
        };
        let is_changed =
            expression.attributes().into_iter().any(|attribute| changed.0.contains(attribute));
        if !in_path && !in_host && !is_changed {
            return number;
        }
        let placed = expression.replaced(&mut |part| placed(part, places));
        if !is_changed {
            let text = text.clone();
            return self.intern(placed, text);
        }
        let renamed = placed.replaced(&mut |part| match part {
            Expression::Attribute(attribute) if changed.0.contains(attribute) => {
                Some(Expression::Attribute(under_new_policy(attribute)))
            }
            _ => None,
        });
        let text = format!("{text} (under the new policy)");
        self.intern(renamed, text)
    }

    /// The texts of conditions.
    pub(crate) fn texts(&self, numbers: &[usize]) -> Vec<String> {
        self.these(numbers).map(|condition| condition.text.clone()).collect()
    }

    fn these(&self, numbers: &[usize]) -> impl Iterator<Item = &Interned> {
        numbers.iter().filter_map(|number| self.conditions.get(*number))
    }

    /// The worlds of conditions; `None` if there are too many.
    pub(crate) fn worlds(&mut self, numbers: &[usize]) -> Option<Rc<Vec<World>>> {
        if let Some(known) = self.worlds.get(numbers) {
            return known.clone();
        }
        let expressions: Vec<&Expression> =
            self.these(numbers).map(|condition| &condition.expression).collect();
        let enumerated = worlds(&expressions).map(Rc::new);
        self.worlds.insert(numbers.to_vec(), enumerated.clone());
        enumerated
    }
}

/// A variable of its own: no policy can name it.
fn under_new_policy(attribute: &Attribute) -> Attribute {
    Attribute::Header(format!("{attribute} under the new policy").into())
}

/// A placeholder by its place, so that two rules that name the same segment share a variable.
fn placed(part: &Expression, places: &Places) -> Option<Expression> {
    match part {
        Expression::Attribute(attribute) => {
            let place = match *found(attribute, places)? {
                [place] => format!("/{place}"),
                _ => NO_PLACE.to_owned(),
            };
            Some(Expression::Attribute(at_place(attribute, &place)))
        }
        Expression::IsPresent(attribute) => {
            let indices = found(attribute, places)?;
            Some(Expression::Constant(Constant::Bool(!indices.is_empty())))
        }
        Expression::IsClaim(attribute, claim) => {
            let indices = found(attribute, places)?;
            let equal = |place: &usize| {
                Expression::IsClaim(at_place(attribute, &format!("/{place}")), claim.clone())
            };
            let equalities = indices
                .iter()
                .map(equal)
                .reduce(|all, next| Expression::And(Box::new(all), Box::new(next)));
            Some(equalities.unwrap_or(Expression::Constant(Constant::Bool(true))))
        }
        _ => None,
    }
}

/// The places of a placeholder.
fn found(attribute: &Attribute, places: &Places) -> Option<Vec<usize>> {
    let (name, all) = match attribute {
        Attribute::PathPlaceholder(name) => (name, &places.path),
        Attribute::HostPlaceholder(name) => (name, &places.host),
        _ => return None,
    };
    let same = all.iter().filter(|(placeholder, _)| placeholder == name);
    Some(same.map(|(_, place)| *place).collect())
}

fn at_place(attribute: &Attribute, place: &str) -> Attribute {
    match attribute {
        Attribute::HostPlaceholder(_) => Attribute::HostPlaceholder(place.into()),
        _ => Attribute::PathPlaceholder(place.into()),
    }
}

/// A condition as a policy states it, with the claims that its placeholders stand for.
fn text(condition: &Condition) -> String {
    let mut claims = Vec::new();
    let mut expression = &*condition.expression;
    while let Expression::And(left, right) = expression
        && let Expression::IsClaim(
            Attribute::PathPlaceholder(name) | Attribute::HostPlaceholder(name),
            _,
        ) = &**left
    {
        claims.push(format!("{{{name}}}"));
        expression = right;
    }
    claims.push(condition.text.to_string());
    claims.dedup();
    claims.join(" && ")
}
