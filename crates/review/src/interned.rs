//! The conditions of both policies, each once.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use condition::{Attribute, Condition, Constant, Expression};
use policy::pattern::PlaceholderIndices;

use crate::representatives::NO_PLACE;
use crate::worlds::{World, worlds};

/// Conditions by number.
#[derive(Default)]
pub(crate) struct Conditions {
    conditions: Vec<InternedCondition>,
    numbers: HashMap<String, usize>,
    /// The numbers of conditions, by the address of their expression. This is a cache, because the
    /// number of a condition is needed many times. It keeps each expression alive, so that no other
    /// expression can get the same address.
    numbers_by_address: HashMap<*const Expression, (usize, Arc<Expression>)>,
    /// The variables of all of them.
    attributes: BTreeSet<Attribute>,
    worlds: HashMap<Vec<usize>, Option<Rc<Vec<World>>>>,
}

struct InternedCondition {
    expression: Expression,
    text: String,
    /// Whether it reads a placeholder of a path.
    in_path: bool,
    /// Whether it reads a placeholder of a host.
    in_host: bool,
}

/// The variables of a caller that have other values under the new policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedVariables(pub(crate) Vec<Attribute>);

/// The segments of the path and the labels of the host that a rule's placeholders stand for.
pub(crate) struct Places {
    pub(crate) path: PlaceholderIndices,
    pub(crate) host: PlaceholderIndices,
}

impl Conditions {
    /// The number of a condition.
    pub(crate) fn add(&mut self, condition: &Condition) -> usize {
        let address = Arc::as_ptr(&condition.expression);
        if let Some((number, _)) = self.numbers_by_address.get(&address) {
            return *number;
        }
        // This text has the meaning of each named condition in place of its name. In the text as
        // written, the same name may mean something else in the other policy.
        let expression = Expression::clone(&condition.expression);
        let text = expression.to_string();
        let number = self.intern(expression, text);
        self.numbers_by_address.insert(address, (number, Arc::clone(&condition.expression)));
        number
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
            self.conditions.push(InternedCondition { expression, text, in_path, in_host });
        }
        number
    }

    /// Whether any condition reads this variable.
    pub(crate) fn read(&self, attribute: &Attribute) -> bool {
        self.attributes.contains(attribute)
    }

    pub(crate) fn have_placeholders(&self) -> bool {
        self.conditions.iter().any(|condition| condition.in_path || condition.in_host)
    }

    pub(crate) fn are_in_path(&self, numbers: &[usize]) -> bool {
        self.numbered(numbers).any(|condition| condition.in_path)
    }

    pub(crate) fn are_in_host(&self, numbers: &[usize]) -> bool {
        self.numbered(numbers).any(|condition| condition.in_host)
    }

    /// The numbers of the same conditions, with the places of a rule's placeholders instead of
    /// their names. For a rule of the new policy, `changed` has the variables with other values
    /// than under the old policy; they become variables of their own.
    pub(crate) fn at(
        &mut self,
        numbers: &[usize],
        places: &Places,
        changed: &ChangedVariables,
    ) -> Vec<usize> {
        let placed = numbers.iter().map(|number| self.placed_condition(*number, places, changed));
        let mut placed: Vec<usize> = placed.collect();
        placed.sort_unstable();
        placed.dedup();
        placed
    }

    fn placed_condition(
        &mut self,
        number: usize,
        places: &Places,
        changed: &ChangedVariables,
    ) -> usize {
        let Some(InternedCondition { expression, text, in_path, in_host }) =
            self.conditions.get(number)
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

    /// The texts of conditions. If several have the same text, each also names the places of its
    /// placeholders.
    pub(crate) fn texts(&self, numbers: &[usize]) -> Vec<String> {
        let conditions: Vec<&InternedCondition> = self.numbered(numbers).collect();
        let texts = conditions.iter().map(|InternedCondition { expression, text, .. }| {
            let is_unique = conditions.iter().filter(|c| c.text == *text).count() == 1;
            let places = if is_unique { BTreeSet::new() } else { places(expression) };
            if places.is_empty() {
                return text.clone();
            }
            format!("{text} ({})", places.into_iter().collect::<Vec<_>>().join(", "))
        });
        texts.collect()
    }

    fn numbered(&self, numbers: &[usize]) -> impl Iterator<Item = &InternedCondition> {
        numbers.iter().filter_map(|number| self.conditions.get(*number))
    }

    /// The worlds of conditions; `None` if there are too many.
    pub(crate) fn worlds(&mut self, numbers: &[usize]) -> Option<Rc<Vec<World>>> {
        if let Some(known) = self.worlds.get(numbers) {
            return known.clone();
        }
        let expressions: Vec<&Expression> =
            self.numbered(numbers).map(|condition| &condition.expression).collect();
        let enumerated = worlds(&expressions).map(Rc::new);
        self.worlds.insert(numbers.to_vec(), enumerated.clone());
        enumerated
    }
}

/// The variable for the value of an attribute under the new policy. It is a header with a name that
/// no policy can contain.
fn under_new_policy(attribute: &Attribute) -> Attribute {
    Attribute::Header(format!("{attribute} under the new policy").into())
}

/// Replaces the name of a placeholder by its place. Two rules with different names for the same
/// segment then share a variable. `None` if the part itself reads no placeholder.
fn placed(part: &Expression, places: &Places) -> Option<Expression> {
    match part {
        Expression::Attribute(attribute) => {
            let place = match *indices(attribute, places)? {
                [place] => format!("/{place}"),
                _ => NO_PLACE.to_owned(),
            };
            Some(Expression::Attribute(at_place(attribute, &place)))
        }
        Expression::IsPresent(attribute) => {
            let indices = indices(attribute, places)?;
            Some(Expression::Constant(Constant::Bool(!indices.is_empty())))
        }
        Expression::IsClaim(attribute, claim) => {
            let indices = indices(attribute, places)?;
            let equalities = indices.iter().map(|place| {
                Expression::IsClaim(at_place(attribute, &format!("/{place}")), claim.clone())
            });
            let all = equalities.reduce(|a, b| Expression::And(Box::new(a), Box::new(b)));
            Some(all.unwrap_or(Expression::Constant(Constant::Bool(true))))
        }
        _ => None,
    }
}

/// The indices of the segments or labels that a placeholder stands for.
fn indices(attribute: &Attribute, places: &Places) -> Option<Vec<usize>> {
    let (name, all) = match attribute {
        Attribute::PathPlaceholder(name) => (name, &places.path),
        Attribute::HostPlaceholder(name) => (name, &places.host),
        _ => return None,
    };
    let same = all.iter().filter(|(placeholder, _)| placeholder == name);
    Some(same.map(|(_, place)| *place).collect())
}

/// The places of the placeholders in a condition that [`placed`] made, in words.
fn places(expression: &Expression) -> BTreeSet<String> {
    let places = expression.attributes().into_iter().filter_map(|attribute| {
        let (kind, place) = match attribute {
            Attribute::PathPlaceholder(place) => ("segment", place),
            Attribute::HostPlaceholder(place) => ("label", place),
            _ => return None,
        };
        let index: usize = place.strip_prefix('/')?.parse().ok()?;
        Some(format!("{kind} {}", index + 1))
    });
    places.collect()
}

fn at_place(attribute: &Attribute, place: &str) -> Attribute {
    match attribute {
        Attribute::HostPlaceholder(_) => Attribute::HostPlaceholder(place.into()),
        _ => Attribute::PathPlaceholder(place.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use condition::{Condition, NamedConditions};

    use super::{ChangedVariables, Conditions, Places};

    fn parsed(text: &str, named: &NamedConditions) -> Condition {
        let text: Arc<str> = text.into();
        Condition::parse(&text, named).unwrap()
    }

    /// A change of the meaning of a name reads as what it is.
    #[test]
    fn a_name_with_two_meanings_is_shown_as_what_it_means() {
        let meanings = ["user == 'ann'", "user == 'bob'"];
        let mut conditions = Conditions::default();
        let offices = meanings.map(|meaning| {
            let mut named = NamedConditions::default();
            named.add("office".into(), &parsed(meaning, &named));
            conditions.add(&parsed("office", &named))
        });
        assert_eq!(conditions.texts(&offices), meanings);
    }

    #[test]
    fn a_condition_about_two_segments_is_shown_with_each() {
        let mut conditions = Conditions::default();
        let id = conditions.add(&parsed("path.id == 'x'", &NamedConditions::default()));
        let [second, third] = [1, 2].map(|index| {
            let places = Places { path: vec![("id".into(), index)], host: Vec::new() };
            conditions.at(&[id], &places, &ChangedVariables::default())[0]
        });
        assert_eq!(conditions.texts(&[second]), ["path.id == 'x'"]);
        let both = ["path.id == 'x' (segment 2)", "path.id == 'x' (segment 3)"];
        assert_eq!(conditions.texts(&[second, third]), both);
    }
}
