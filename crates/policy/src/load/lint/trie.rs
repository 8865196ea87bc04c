//! All rules in a trie, by the segments of their paths.

use foldhash::{HashMap, HashMapExt};

use crate::load::lint::Warnings;
use crate::model::{Effect, Policy, Role, Rule};
use crate::pattern::{Glob, Pattern, Segment};
use crate::problem::Problem;

/// A rule of a role.
#[derive(Clone, Copy)]
pub(crate) struct Ruled<'p> {
    pub(crate) role: u32,
    pub(crate) named: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
}

/// The index of a node.
pub(crate) type Step = usize;

/// A policy's rules by their paths.
pub(crate) struct Trie<'p> {
    pub(crate) rules: Vec<Ruled<'p>>,
    nodes: Vec<Node<'p>>,
    literals: HashMap<(Step, &'p str), Step>,
    others: HashMap<(Step, Other<'p>), Step>,
}

/// A segment that is not literal, by what it matches.
#[derive(PartialEq, Eq, Hash)]
enum Other<'p> {
    One,
    Owner,
    Glob(&'p Glob),
}

/// The node for a sequence of segments.
#[derive(Default)]
pub(crate) struct Node<'p> {
    pub(crate) literals: Vec<(&'p str, Step)>,
    /// The edges that are not literal.
    pub(crate) others: Vec<(&'p Segment, Step)>,
    /// The rules that end here.
    pub(crate) ends: Vec<usize>,
    /// The rules that match everything from here on.
    pub(crate) rests: Vec<usize>,
    /// The first rule that led here.
    first: usize,
}

impl<'p> Trie<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let mut trie = Self {
            rules: Vec::new(),
            nodes: vec![Node::default(), Node::default()],
            literals: HashMap::new(),
            others: HashMap::new(),
        };
        for (role, named) in (0_u32..).zip(&policy.roles) {
            let allow = named.allow.iter().map(|rule| (rule, Effect::Allow));
            let deny = named.deny.iter().map(|rule| (rule, Effect::Deny));
            for (rule, effect) in allow.chain(deny) {
                trie.add(Ruled { role, named, rule, effect });
            }
        }
        trie
    }

    /// The start node for a pattern.
    pub(crate) fn root(pattern: &Pattern) -> Step {
        usize::from(!pattern.absolute)
    }

    pub(crate) fn node(&self, step: Step) -> Option<&Node<'p>> {
        self.nodes.get(step)
    }

    pub(crate) fn literal(&self, from: Step, segment: &'p str) -> Option<Step> {
        self.literals.get(&(from, segment)).copied()
    }

    fn add(&mut self, ruled: Ruled<'p>) {
        let number = self.rules.len();
        self.rules.push(ruled);
        for pattern in &ruled.rule.resources {
            let mut step = Self::root(pattern);
            for segment in &pattern.segments {
                step = self.step(step, segment, number);
            }
            if let Some(node) = self.nodes.get_mut(step) {
                if pattern.rest { node.rests.push(number) } else { node.ends.push(number) }
            }
        }
    }

    /// The node after a segment. It is added if there is none.
    fn step(&mut self, from: Step, segment: &'p Segment, rule: usize) -> Step {
        let next = self.nodes.len();
        let known = match segment {
            Segment::Literal(literal) => self.literals.entry((from, literal)).or_insert(next),
            Segment::One(_) => self.others.entry((from, Other::One)).or_insert(next),
            Segment::Owner => self.others.entry((from, Other::Owner)).or_insert(next),
            Segment::Glob(glob) => self.others.entry((from, Other::Glob(glob))).or_insert(next),
        };
        let known = *known;
        if known == next {
            self.nodes.push(Node { first: rule, ..Node::default() });
            if let Some(node) = self.nodes.get_mut(from) {
                match segment {
                    Segment::Literal(literal) => node.literals.push((literal, next)),
                    other => node.others.push((other, next)),
                }
            }
        }
        known
    }

    /// Warns of sibling segments that differ only in case.
    pub(crate) fn case_variants(&self, warnings: &mut Warnings<'_>) {
        for node in &self.nodes {
            if !node.literals.iter().any(|(it, _)| it.bytes().any(|byte| byte.is_ascii_uppercase())) {
                continue;
            }
            let mut seen: HashMap<String, (&str, Step)> = HashMap::new();
            for (literal, step) in &node.literals {
                match seen.get(&literal.to_lowercase()) {
                    Some((first, other)) => self.warn_of_variant(literal, *step, first, *other, warnings),
                    None => {
                        seen.insert(literal.to_lowercase(), (*literal, *step));
                    }
                }
            }
        }
    }

    fn warn_of_variant(
        &self,
        literal: &str,
        step: Step,
        first: &str,
        other: Step,
        warnings: &mut Warnings<'_>,
    ) {
        let rule = |step: Step| self.node(step).and_then(|node| self.rules.get(node.first));
        if let (Some(rule), Some(other)) = (rule(step), rule(other)) {
            let message = format!("`{literal}` differs from `{first}` only in case: they are two paths");
            let problem = Problem::warning(rule.rule.at.clone(), message)
                .help(format!("write `{first}` if the same is meant"))
                .related(other.rule.at.clone(), format!("`{first}` is here"));
            warnings.push(problem);
        }
    }
}
