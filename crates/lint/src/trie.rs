//! All rules in a trie, by the segments of their paths.

use foldhash::{HashMap, HashMapExt};

use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::ids::{IdVec, id_types};
use policy::model::{Effect, Policy, Role, RoleId, Rule, RuleId};
use policy::pattern::{Pattern, Segment};

/// A rule of a role.
#[derive(Clone, Copy)]
pub(crate) struct Ruled<'p> {
    pub(crate) role: RoleId,
    pub(crate) named: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
}

id_types! {
    /// A node of the trie.
    pub(crate) struct NodeId;
}

/// A policy's rules by their paths.
pub(crate) struct Trie<'p> {
    pub(crate) rules: IdVec<RuleId, Ruled<'p>>,
    nodes: IdVec<NodeId, Node<'p>>,
    literals: HashMap<(NodeId, &'p str), NodeId>,
    /// The edges that are not literal; those of placeholders without their names.
    others: HashMap<(NodeId, Segment), NodeId>,
}

/// The node for a sequence of segments.
#[derive(Default)]
pub(crate) struct Node<'p> {
    pub(crate) literals: Vec<(&'p str, NodeId)>,
    /// The edges that are not literal.
    pub(crate) others: Vec<(&'p Segment, NodeId)>,
    /// The rules that end here.
    pub(crate) ends: Vec<RuleId>,
    /// The rules that match everything from here on.
    pub(crate) rests: Vec<RuleId>,
    /// The first rule that led here; `None` for a root.
    first: Option<RuleId>,
}

impl<'p> Trie<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let mut trie = Self {
            rules: IdVec::new(),
            nodes: vec![Node::default(), Node::default()].into(),
            literals: HashMap::new(),
            others: HashMap::new(),
        };
        for (role, named) in policy.roles.entries() {
            let allow = named.allow.iter().map(|rule| (rule, Effect::Allow));
            let deny = named.deny.iter().map(|rule| (rule, Effect::Deny));
            for (rule, effect) in allow.chain(deny) {
                trie.add(Ruled { role, named, rule, effect });
            }
        }
        trie
    }

    /// The start node for a pattern.
    pub(crate) fn root(pattern: &Pattern) -> NodeId {
        NodeId(u32::from(!pattern.absolute))
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node<'p> {
        self.nodes.at(id)
    }

    pub(crate) fn literal(&self, from: NodeId, segment: &'p str) -> Option<NodeId> {
        self.literals.get(&(from, segment)).copied()
    }

    fn add(&mut self, ruled: Ruled<'p>) {
        let id = self.rules.push(ruled);
        for pattern in &ruled.rule.resources {
            let mut end = Self::root(pattern);
            for segment in &pattern.segments {
                end = self.child(end, segment, id);
            }
            let node = self.nodes.at_mut(end);
            if pattern.rest { node.rests.push(id) } else { node.ends.push(id) }
        }
    }

    /// The node after a segment. It is added if there is none.
    fn child(&mut self, from: NodeId, segment: &'p Segment, rule: RuleId) -> NodeId {
        let next = self.nodes.next_id();
        let child = *match segment {
            Segment::Literal(literal) => self.literals.entry((from, literal)).or_insert(next),
            Segment::One(_) => self.others.entry((from, Segment::One("".into()))).or_insert(next),
            other => self.others.entry((from, other.clone())).or_insert(next),
        };
        if child == next {
            self.nodes.push(Node { first: Some(rule), ..Node::default() });
            let node = self.nodes.at_mut(from);
            match segment {
                Segment::Literal(literal) => node.literals.push((literal, next)),
                other => node.others.push((other, next)),
            }
        }
        child
    }

    /// Warns of sibling segments that differ only in case.
    pub(crate) fn case_variants(&self, warnings: &mut Warnings) {
        for node in &self.nodes {
            if !node
                .literals
                .iter()
                .any(|(literal, _)| literal.bytes().any(|byte| byte.is_ascii_uppercase()))
            {
                continue;
            }
            let mut seen: HashMap<String, (&str, NodeId)> = HashMap::new();
            for (literal, child) in &node.literals {
                match seen.get(&literal.to_lowercase()) {
                    Some((first, other)) => {
                        self.warn_of_variant(literal, *child, first, *other, warnings)
                    }
                    None => {
                        seen.insert(literal.to_lowercase(), (*literal, *child));
                    }
                }
            }
        }
    }

    /// Warns of a path that ends in a slash, if no rule with the same effect matches it without:
    /// most people who write `/admin/` mean all that is below. Only literal paths, so that one
    /// look-up is enough.
    pub(crate) fn trailing_slashes(&self, warnings: &mut Warnings) {
        for node in self.nodes.iter().filter(|node| node.first.is_some()) {
            let Some((_, slash)) = node.literals.iter().find(|(literal, _)| literal.is_empty())
            else {
                continue;
            };
            let has = |effect| {
                node.ends
                    .iter()
                    .chain(&node.rests)
                    .any(|other| self.rules.at(*other).effect == effect)
            };
            // Asked once, as both lists may be long.
            let (has_allow, has_deny) = (has(Effect::Allow), has(Effect::Deny));
            for id in &self.node(*slash).ends {
                let ruled = self.rules.at(*id);
                let is_without = match ruled.effect {
                    Effect::Allow => has_allow,
                    Effect::Deny => has_deny,
                };
                if is_without {
                    continue;
                }
                let message = format!("`{}` matches only the path with the slash", ruled.rule.name);
                let help = "write `/**` at the end for everything below, or leave the slash out; or add a rule without it";
                let at = ruled.rule.at.clone();
                warnings.push(Problem::warning(at, Warning::TrailingSlash, message).help(help));
            }
        }
    }

    fn warn_of_variant(
        &self,
        literal: &str,
        node: NodeId,
        first: &str,
        other: NodeId,
        warnings: &mut Warnings,
    ) {
        let rule = |node: NodeId| self.node(node).first.map(|id| self.rules.at(id));
        if let (Some(rule), Some(other)) = (rule(node), rule(other)) {
            let message =
                format!("`{literal}` differs from `{first}` only in case: they are two paths");
            let problem = Problem::warning(rule.rule.at.clone(), Warning::CaseVariant, message)
                .help(format!("write `{first}` if the same is meant"))
                .related(other.rule.at.clone(), format!("`{first}` is here"));
            warnings.push(problem);
        }
    }
}
