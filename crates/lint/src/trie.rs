//! A trie of all rules of a policy, by the segments of their paths.

use document::{Problem, Warning};
use foldhash::{HashMap, HashMapExt};
use policy::canonical;
use policy::ids::{IdVec, id_types};
use policy::model::{Effect, Policy, Role, RoleId, Rule, RuleId};
use policy::pattern::{Pattern, Segment};

use crate::warnings::Warnings;

/// A rule of a role.
#[derive(Clone, Copy)]
pub(crate) struct RoleRule<'p> {
    pub(crate) role_id: RoleId,
    pub(crate) role: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
}

id_types! {
    /// A node of the trie.
    pub(crate) struct NodeId;
}

/// A policy's rules by their paths.
pub(crate) struct Trie<'p> {
    pub(crate) policy: &'p Policy,
    pub(crate) rules: IdVec<RuleId, RoleRule<'p>>,
    nodes: IdVec<NodeId, Node<'p>>,
    literals: HashMap<(NodeId, &'p str), NodeId>,
    /// The edges that are not literal. Placeholders such as `{id}` are stored without their names.
    non_literals: HashMap<(NodeId, Segment), NodeId>,
}

/// The node for a sequence of segments.
#[derive(Default)]
pub(crate) struct Node<'p> {
    pub(crate) literals: Vec<(&'p str, NodeId)>,
    /// The edges that are not literal.
    pub(crate) non_literals: Vec<(&'p Segment, NodeId)>,
    /// The rules that end here.
    pub(crate) exact: Vec<RuleId>,
    /// The rules that match everything from here on (`/**`).
    pub(crate) open_ended: Vec<RuleId>,
    /// The rule for which the node was added; `None` for a root.
    added_for: Option<RuleId>,
}

impl RoleRule<'_> {
    /// A warning about this rule.
    pub(crate) fn warning(&self, kind: Warning, message: String, help: &str) -> Problem {
        Problem::warning(self.rule.at.clone(), kind, message).help(help)
    }

    /// Adds this rule to a warning about another rule.
    pub(crate) fn relate_to(&self, problem: Problem) -> Problem {
        let note = format!("`{}` of the role `{}`", self.rule.name, self.role.name);
        problem.related(self.rule.at.clone(), note)
    }
}

impl<'p> Trie<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let mut trie = Self {
            policy,
            rules: IdVec::new(),
            // The two roots.
            nodes: vec![Node::default(), Node::default()].into(),
            literals: HashMap::new(),
            non_literals: HashMap::new(),
        };
        for (role_id, role) in policy.roles.entries() {
            let allow = role.allow.iter().map(|rule| (rule, Effect::Allow));
            let deny = role.deny.iter().map(|rule| (rule, Effect::Deny));
            for (rule, effect) in allow.chain(deny) {
                trie.add(RoleRule { role_id, role, rule, effect });
            }
        }
        trie
    }

    /// The root for a pattern: node 0 for absolute paths, node 1 for the `*` of `OPTIONS *`.
    pub(crate) fn root(pattern: &Pattern) -> NodeId {
        NodeId(u32::from(!pattern.absolute))
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node<'p> {
        self.nodes.at(id)
    }

    pub(crate) fn literal(&self, from: NodeId, segment: &'p str) -> Option<NodeId> {
        self.literals.get(&(from, segment)).copied()
    }

    /// The rules under `deny`.
    pub(crate) fn denials(&self) -> impl Iterator<Item = &RoleRule<'p>> {
        self.rules.iter().filter(|rule| rule.effect == Effect::Deny)
    }

    fn add(&mut self, rule: RoleRule<'p>) {
        let id = self.rules.push(rule);
        for pattern in &rule.rule.resources {
            let mut end = Self::root(pattern);
            for segment in &pattern.segments {
                end = self.child(end, segment, id);
            }
            let node = self.nodes.at_mut(end);
            if pattern.open_ended { node.open_ended.push(id) } else { node.exact.push(id) }
        }
    }

    /// The node after a segment, which is added if it does not exist.
    fn child(&mut self, from: NodeId, segment: &'p Segment, rule: RuleId) -> NodeId {
        let next = self.nodes.next_id();
        let child = *match segment {
            Segment::Literal(literal) => self.literals.entry((from, literal)).or_insert(next),
            Segment::Any(_) => {
                self.non_literals.entry((from, Segment::Any("".into()))).or_insert(next)
            }
            segment => self.non_literals.entry((from, segment.clone())).or_insert(next),
        };
        if child == next {
            self.nodes.push(Node { added_for: Some(rule), ..Node::default() });
            let node = self.nodes.at_mut(from);
            match segment {
                Segment::Literal(literal) => node.literals.push((literal, next)),
                segment => node.non_literals.push((segment, next)),
            }
        }
        child
    }

    /// Warns of sibling segments that differ only in case.
    pub(crate) fn case_variants(&self, warnings: &mut Warnings) {
        for node in &self.nodes {
            // A triplet of a character that is not ASCII has an upper-case digit: `%C3%A4`.
            let mut literals = node.literals.iter();
            if !literals.any(|(text, _)| text.contains(|c: char| c.is_ascii_uppercase())) {
                continue;
            }
            let mut first_by_lowercase: HashMap<String, (String, NodeId)> = HashMap::new();
            for (literal, child) in &node.literals {
                let text = canonical::readable(literal);
                let (first, first_child) = first_by_lowercase
                    .entry(text.to_lowercase())
                    .or_insert_with(|| (text.clone(), *child));
                if *first_child == *child {
                    continue;
                }
                if let [Some(rule), Some(first_rule)] = [*child, *first_child]
                    .map(|node| self.node(node).added_for.map(|id| self.rules.at(id).rule))
                {
                    let message =
                        format!("`{text}` differs from `{first}` only in case: they are two paths");
                    let problem = Problem::warning(rule.at.clone(), Warning::CaseVariant, message)
                        .help(format!("write `{first}` if the same is meant"))
                        .related(first_rule.at.clone(), format!("`{first}` is here"));
                    warnings.push(problem);
                }
            }
        }
    }

    /// Warns of a path that ends in a slash, if no rule with the same effect ends at the path
    /// without the slash: most people who write `/admin/` mean everything below. Rules that match
    /// the path by another pattern are not searched.
    pub(crate) fn trailing_slashes(&self, warnings: &mut Warnings) {
        // Not the roots: `/` is no path with a slash at its end.
        for node in self.nodes.iter().filter(|node| node.added_for.is_some()) {
            let Some((_, slash)) = node.literals.iter().find(|(literal, _)| literal.is_empty())
            else {
                continue;
            };
            // Once per node and not per rule, because the lists may be long.
            let [has_allow, has_deny] = [Effect::Allow, Effect::Deny].map(|effect| {
                let mut rules = node.exact.iter().chain(&node.open_ended);
                rules.any(|id| self.rules.at(*id).effect == effect)
            });
            for rule in self.node(*slash).exact.iter().map(|id| self.rules.at(*id)) {
                let has_rule_without_slash = match rule.effect {
                    Effect::Allow => has_allow,
                    Effect::Deny => has_deny,
                };
                if !has_rule_without_slash {
                    let message =
                        format!("`{}` matches only the path with the slash", rule.rule.name);
                    let help = "write `/**` at the end for everything below, or leave the slash \
                                out; or add a rule without it";
                    warnings.push(rule.warning(Warning::TrailingSlash, message, help));
                }
            }
        }
    }
}
