//! The worlds that conditions distinguish. In a world, each condition is true, false, or without a
//! value. Only combinations of these that may occur are worlds.
//!
//! An *atom* is a part of a condition that `&&`, `||`, `!` and `?:` join. Most compare one *term*,
//! such as a header or a claim, with constants. A few values of the term are enough as
//! representatives: they give every combination of truths that its atoms can have. Other atoms are
//! *free*: they may have any truth. Terms are treated as independent of each other, except that
//! only objects have members. So some worlds may be impossible, but none is missing.

use std::collections::{BTreeSet, HashMap};

use condition::{Attribute, CachedPart, Comparison, Constant, Expression, Inputs};

use crate::representatives::{Constants, State, Universe, states};

/// The maximum number of combinations of classes of terms that are evaluated for a [`Group`].
const MAX_CASES: usize = 1 << 12;

/// The maximum number of worlds. Two worlds differ in the truth of a condition.
const MAX_WORLDS: usize = 1 << 9;

/// The maximum number of atoms of a term without representatives, where each atom may have any
/// truth.
const MAX_INDEPENDENT: usize = 8;

/// The truths of conditions (or of atoms) in a world, in their order. `None` is "cannot be
/// computed".
pub(crate) type World = Vec<Option<bool>>;

/// A condition, in terms of its atoms.
enum Formula {
    Known(bool),
    Atom(usize),
    Not(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    If(Box<[Self; 3]>),
}

/// In its atoms, a term is replaced by these: its value, and whether it is there.
const VALUE: Expression = Expression::Cached(0);
const PRESENCE: Expression = Expression::Cached(1);

/// Something that has a value in each world.
struct Term {
    /// `None` for a free atom.
    expression: Option<Expression>,
    universe: Universe,
    constants: Constants,
    /// Its atoms, as numbers and as expressions of [`VALUE`] and [`PRESENCE`].
    atoms: Vec<(usize, Expression)>,
}

/// Values of a term that its atoms do not distinguish.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// The truths of its atoms.
    truths: World,
    /// Whether it is an object, so that it can have members.
    is_object: bool,
    /// Whether neither the value nor its presence can be computed, as for a member of a value that
    /// is no object.
    is_orphan: bool,
}

#[derive(Default)]
struct Terms {
    terms: Vec<Term>,
    terms_by_key: HashMap<String, usize>,
    /// The term of each atom.
    atoms: Vec<usize>,
    atoms_by_key: HashMap<String, usize>,
}

/// All worlds of these conditions, each once; `None` if there are too many.
pub(crate) fn worlds(conditions: &[&Expression]) -> Option<Vec<World>> {
    let mut terms = Terms::default();
    let formulas: Vec<Formula> =
        conditions.iter().map(|condition| terms.formula(condition)).collect();
    let classes: Vec<Vec<Class>> = terms.terms.iter().map(classes).collect::<Option<_>>()?;
    let ancestors: Vec<Vec<usize>> = (0..classes.len()).map(|term| terms.ancestors(term)).collect();
    let mut worlds: BTreeSet<World> = BTreeSet::from([vec![None; conditions.len()]]);
    for group in terms.groups(&formulas, &ancestors) {
        let truths_of_group = worlds_of_group(&group, &formulas, &terms, &classes, &ancestors)?;
        if worlds.len().checked_mul(truths_of_group.len())? > MAX_WORLDS {
            return None;
        }
        worlds = worlds
            .iter()
            .flat_map(|world| {
                truths_of_group.iter().map(|truths| {
                    let mut world = world.clone();
                    for (condition, truth) in group.formulas.iter().zip(truths) {
                        if let Some(place) = world.get_mut(*condition) {
                            *place = *truth;
                        }
                    }
                    world
                })
            })
            .collect();
    }
    Some(worlds.into_iter().collect())
}

/// Conditions that share terms with each other, and with no other condition.
struct Group {
    formulas: Vec<usize>,
    terms: BTreeSet<usize>,
}

/// The truths of the conditions of a group.
fn worlds_of_group(
    group: &Group,
    formulas: &[Formula],
    terms: &Terms,
    classes: &[Vec<Class>],
    ancestors: &[Vec<usize>],
) -> Option<BTreeSet<World>> {
    let mut count: usize = 1;
    for term in &group.terms {
        count = count.checked_mul(classes.get(*term)?.len())?;
    }
    if count > MAX_CASES {
        return None;
    }
    let mut truths = BTreeSet::new();
    let mut atoms: World = vec![None; terms.atoms.len()];
    for number in 0..count {
        let mut quotient = number;
        let mut chosen: HashMap<usize, &Class> = HashMap::new();
        for term in &group.terms {
            let classes = classes.get(*term)?;
            let class = classes.get(quotient % classes.len())?;
            quotient /= classes.len();
            chosen.insert(*term, class);
            for ((atom, _), truth) in terms.terms.get(*term)?.atoms.iter().zip(&class.truths) {
                if let Some(place) = atoms.get_mut(*atom) {
                    *place = *truth;
                }
            }
        }
        let is_possible = chosen.iter().all(|(term, class)| {
            let mut above = ancestors.get(*term).into_iter().flatten();
            class.is_orphan
                || above.all(|ancestor| chosen.get(ancestor).is_none_or(|class| class.is_object))
        });
        if is_possible {
            let formulas = group.formulas.iter().filter_map(|formula| formulas.get(*formula));
            truths.insert(formulas.map(|formula| formula.truth(&atoms)).collect());
        }
    }
    Some(truths)
}

/// The classes of the values of a term; `None` if there are too many.
fn classes(term: &Term) -> Option<Vec<Class>> {
    let states = match &term.expression {
        Some(_) => states(&term.universe, &term.constants),
        None => None,
    };
    let Some(states) = states else {
        // Each atom is free.
        let truths: &[Option<bool>] = match term.universe {
            Universe::Truth => &[Some(true), Some(false)],
            _ => &[Some(true), Some(false), None],
        };
        if term.atoms.len() > MAX_INDEPENDENT {
            return None;
        }
        let mut all: Vec<World> = vec![Vec::new()];
        for _ in &term.atoms {
            all = all
                .iter()
                .flat_map(|world| truths.iter().map(|truth| [&**world, &[*truth]].concat()))
                .collect();
        }
        // Nothing is known about the value, so it may be an object. If no atom can be computed, it
        // may also be a member of a value that is no object.
        let classes = all.into_iter().map(|truths| {
            let is_orphan = truths.iter().all(Option::is_none);
            Class { truths, is_object: true, is_orphan }
        });
        return Some(classes.collect());
    };
    let classes: BTreeSet<Class> = states
        .into_iter()
        .map(|State { value, presence }| {
            let is_object = matches!(&value, Ok(Constant::Claim(claim)) if claim.is_object());
            let is_orphan = value.is_err() && presence.is_err();
            let cached = [value, presence.map(Constant::Bool)].map(CachedPart::from);
            let inputs = Inputs { cached: &cached, ..Inputs::default() };
            let truths = term.atoms.iter().map(|(_, atom)| condition::holds(atom, &inputs));
            Class { truths: truths.collect(), is_object, is_orphan }
        })
        .collect();
    Some(classes.into_iter().collect())
}

impl Formula {
    /// The truth, given those of all atoms. Errors are combined as in CEL (*Logical Operators*).
    fn truth(&self, atoms: &[Option<bool>]) -> Option<bool> {
        match self {
            Self::Known(truth) => Some(*truth),
            Self::Atom(atom) => atoms.get(*atom).copied().flatten(),
            Self::Not(operand) => operand.truth(atoms).map(|truth| !truth),
            Self::And(operands) => {
                joined(operands.each_ref().map(|operand| operand.truth(atoms)), false)
            }
            Self::Or(operands) => {
                joined(operands.each_ref().map(|operand| operand.truth(atoms)), true)
            }
            Self::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                if condition.truth(atoms)? { then.truth(atoms) } else { otherwise.truth(atoms) }
            }
        }
    }

    fn collect_atoms(&self, found: &mut BTreeSet<usize>) {
        match self {
            Self::Known(_) => {}
            Self::Atom(atom) => _ = found.insert(*atom),
            Self::Not(operand) => operand.collect_atoms(found),
            Self::And(operands) | Self::Or(operands) => {
                operands.iter().for_each(|operand| operand.collect_atoms(found));
            }
            Self::If(parts) => parts.iter().for_each(|part| part.collect_atoms(found)),
        }
    }
}

fn joined([left, right]: [Option<bool>; 2], deciding: bool) -> Option<bool> {
    if left == Some(deciding) || right == Some(deciding) {
        return Some(deciding);
    }
    left.and(right)
}

impl Terms {
    fn formula(&mut self, expression: &Expression) -> Formula {
        match expression {
            Expression::Constant(Constant::Bool(truth)) => Formula::Known(*truth),
            Expression::Not(operand) => Formula::Not(Box::new(self.formula(operand))),
            Expression::And(left, right) => {
                Formula::And(Box::new([self.formula(left), self.formula(right)]))
            }
            Expression::Or(left, right) => {
                Formula::Or(Box::new([self.formula(left), self.formula(right)]))
            }
            Expression::Conditional(parts) => {
                Formula::If(Box::new(parts.each_ref().map(|part| self.formula(part))))
            }
            Expression::Compare(Comparison::NotEqual, left, right) => {
                let equal = Expression::Compare(Comparison::Equal, left.clone(), right.clone());
                Formula::Not(Box::new(self.formula(&equal)))
            }
            _ => Formula::Atom(self.atom(expression)),
        }
    }

    fn atom(&mut self, expression: &Expression) -> usize {
        let key = format!("{expression:?}");
        if let Some(atom) = self.atoms_by_key.get(&key) {
            return *atom;
        }
        let next = self.atoms.len();
        let term = match self.compared_term(expression) {
            Some((term, atom)) => {
                if let Some(term) = self.terms.get_mut(term) {
                    term.atoms.push((next, atom));
                }
                term
            }
            None => {
                let is_computable = match expression {
                    Expression::IsClaim(..) => true,
                    Expression::In(item, list) => {
                        matches!(**item, Expression::Constant(_))
                            && matches!(
                                **list,
                                Expression::Attribute(Attribute::Roles | Attribute::Groups)
                            )
                    }
                    _ => false,
                };
                let universe = if is_computable { Universe::Truth } else { Universe::Any };
                let atoms = vec![(next, VALUE)];
                self.terms.push(Term {
                    expression: None,
                    universe,
                    constants: Constants::default(),
                    atoms,
                });
                self.terms.len() - 1
            }
        };
        self.atoms.push(term);
        self.atoms_by_key.insert(key, next);
        next
    }

    /// The only term in an atom, and the atom with [`VALUE`] or [`PRESENCE`] in its place.
    fn compared_term(&mut self, atom: &Expression) -> Option<(usize, Expression)> {
        Some(match atom {
            Expression::Compare(comparison, left, right) => match (&**left, &**right) {
                (Expression::Constant(_), Expression::Constant(_)) => return None,
                (term, Expression::Constant(constant)) => {
                    let is_ordered = *comparison != Comparison::Equal;
                    let term = self.term(term, |constants| constants.add(constant, is_ordered))?;
                    (term, Expression::Compare(*comparison, Box::new(VALUE), right.clone()))
                }
                (Expression::Constant(constant), term) => {
                    let is_ordered = *comparison != Comparison::Equal;
                    let term = self.term(term, |constants| constants.add(constant, is_ordered))?;
                    (term, Expression::Compare(*comparison, left.clone(), Box::new(VALUE)))
                }
                _ => return None,
            },
            Expression::In(term, list) => {
                let Expression::Constant(Constant::List(items)) = &**list else { return None };
                let term = self
                    .term(term, |constants| items.iter().all(|item| constants.add(item, false)))?;
                (term, Expression::In(Box::new(VALUE), list.clone()))
            }
            Expression::TextTest(test, term, part) => {
                let Expression::Constant(Constant::Text(text)) = &**part else { return None };
                let term = self.term(term, |constants| constants.add_part(*test, text))?;
                (term, Expression::TextTest(*test, Box::new(VALUE), part.clone()))
            }
            Expression::ContainsIp(network, term) => {
                let term = self.term(term, |constants| constants.add_network(*network))?;
                (term, Expression::ContainsIp(*network, Box::new(VALUE)))
            }
            Expression::HasMember(object, name) => {
                let member = Expression::Member(object.clone(), name.clone());
                (self.term(&member, |_| true)?, PRESENCE)
            }
            Expression::IsPresent(attribute) => {
                let attribute = Expression::Attribute(attribute.clone());
                (self.term(&attribute, |_| true)?, PRESENCE)
            }
            Expression::Attribute(_) | Expression::Member(..) => {
                (self.term(atom, |_| true)?, VALUE)
            }
            _ => return None,
        })
    }

    /// The number of a term. `add` adds the constants that the term is compared with. It returns
    /// false if a constant has no representatives.
    fn term(
        &mut self,
        expression: &Expression,
        add: impl FnOnce(&mut Constants) -> bool,
    ) -> Option<usize> {
        let universe = Universe::of_term(expression)?;
        let mut constants = Constants::default();
        if !add(&mut constants) {
            return None;
        }
        let next = self.terms.len();
        let term = *self.terms_by_key.entry(format!("{expression:?}")).or_insert(next);
        if term == next {
            let expression = Some(expression.clone());
            self.terms.push(Term {
                expression,
                universe,
                constants: Constants::default(),
                atoms: Vec::new(),
            });
        }
        self.terms.get_mut(term)?.constants.merge(constants);
        Some(term)
    }

    /// The terms of which a term is a member.
    fn ancestors(&self, term: usize) -> Vec<usize> {
        let mut above = Vec::new();
        let mut expression = self.terms.get(term).and_then(|term| term.expression.as_ref());
        while let Some(Expression::Member(object, _)) = expression {
            above.extend(self.terms_by_key.get(&format!("{object:?}")));
            expression = Some(object);
        }
        above
    }

    fn groups(&self, formulas: &[Formula], ancestors: &[Vec<usize>]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (number, formula) in formulas.iter().enumerate() {
            let mut atoms = BTreeSet::new();
            formula.collect_atoms(&mut atoms);
            let mut terms: BTreeSet<usize> =
                atoms.iter().filter_map(|atom| self.atoms.get(*atom)).copied().collect();
            let above: Vec<usize> =
                terms.iter().filter_map(|term| ancestors.get(*term)).flatten().copied().collect();
            terms.extend(above);
            let mut merged = Group { formulas: vec![number], terms };
            let (same, other): (Vec<Group>, Vec<Group>) =
                groups.into_iter().partition(|group| !group.terms.is_disjoint(&merged.terms));
            groups = other;
            for group in same {
                merged.formulas.extend(group.formulas);
                merged.terms.extend(group.terms);
            }
            groups.push(merged);
        }
        groups
    }
}
