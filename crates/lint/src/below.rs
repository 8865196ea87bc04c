//! `deny` rules for a path, or for paths of the same depth, that leave deeper paths open: a `deny`
//! of `/internal`, `/internal*`, `/internal/{id}` or `/*.env` where `/**` is allowed.

use document::Warning;
use policy::model::{Effect, RuleId};
use policy::pattern::{Pattern, Segment};

use crate::overlap::share_method_and_host;
use crate::related::RelatedRoles;
use crate::trie::{Node, NodeId, RoleRule, Trie};
use crate::warnings::{Budget, Steps, Warnings};

/// Warns of each `deny` rule for a path, or for paths of the same depth, if an `allow` rule also
/// covers deeper paths, and no other rule shows that this is intended.
pub(crate) fn open_below(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = RelatedRoles::new(trie.policy);
    let mut budget = Budget { total: Steps(2_000_000), max_per_rule: 2_000 };
    for deny in trie.denials() {
        let mut open: Vec<(&Pattern, PathEnd, &RoleRule<'_>)> = Vec::new();
        for pattern in &deny.rule.resources {
            let Some(end) = PathEnd::from_pattern(pattern) else { continue };
            let allow =
                budget.spend(|steps| find_open(trie, deny, pattern, end, &mut related, steps));
            open.extend(allow.map(|allow| (pattern, end, allow)));
        }
        let Some((pattern, end, allow)) = open.first() else { continue };
        let path: String = pattern.segments.iter().map(|segment| format!("/{segment}")).collect();
        let mut message = format!(
            "`{}` does not deny what is below `{path}`, which `{}` allows",
            deny.rule.name, allow.rule.name
        );
        if open.len() > 1 {
            message.push_str(&format!("; {} more of its patterns are like this", open.len() - 1));
        }
        let help = if *end == PathEnd::NameEnd {
            "a pattern of one segment covers one depth, and `**` is only at the end of a path: \
             write a pattern for each depth, or allow fewer paths"
        } else {
            &format!("write `{}/**` for the path and everything below", path.trim_end_matches('/'))
        };
        warnings.push(allow.relate_to(deny.warning(Warning::OpenBelow, message, help)));
    }
}

/// An `allow` rule that leaves open the paths below a pattern of a `deny` rule.
fn find_open<'s, 'p>(
    trie: &'s Trie<'p>,
    deny: &'s RoleRule<'p>,
    pattern: &'p Pattern,
    end: PathEnd,
    related: &mut RelatedRoles<'_>,
    steps: &mut Steps,
) -> Option<&'s RoleRule<'p>> {
    let mut search =
        Search { trie, deny, end, wider_allows: Vec::new(), is_intended: false, steps };
    search.walk(Trie::root(pattern), &pattern.segments);
    let Search { wider_allows, is_intended, .. } = search;
    let mut wider_allows = wider_allows.into_iter().map(|id| trie.rules.at(id));
    let allow = wider_allows.find(|allow| related.restricts(deny, allow.role_id, steps));
    allow.filter(|_| steps.are_left() && !is_intended)
}

/// The end of a path that may have paths below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathEnd {
    /// The path is `/`.
    Root,
    /// A name.
    Name,
    /// The start of a name, such as `internal*`: the author means everything with this prefix.
    NameStart,
    /// Any segment.
    Any,
    /// The end or a part of a name, such as `*.env`: the author means such files in every folder.
    NameEnd,
}

impl PathEnd {
    /// `None` for a path that hardly has paths below it: it ends in a slash (except `/`), in a file
    /// name such as `a.html`, or in a glob with both a start and an end, such as `a*b`.
    fn from_pattern(pattern: &Pattern) -> Option<Self> {
        let last = pattern.segments.last().filter(|_| pattern.absolute && !pattern.open_ended)?;
        match last {
            Segment::Literal(name) if name.is_empty() => {
                (pattern.segments.len() == 1).then_some(Self::Root)
            }
            Segment::Literal(name) => (!has_extension(name)).then_some(Self::Name),
            // The pieces between the `*`s: `["internal", ""]` for `internal*`, `["", ".env"]` for
            // `*.env`.
            Segment::Glob(glob) => match &*glob.0 {
                [start, .., end] if !start.is_empty() => end.is_empty().then_some(Self::NameStart),
                // `*` alone gets another warning ([`Warning::SingleSegment`]).
                pieces => pieces.iter().any(|piece| !piece.is_empty()).then_some(Self::NameEnd),
            },
            Segment::Any(_) | Segment::User | Segment::UserId(_) => Some(Self::Any),
        }
    }
}

fn has_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty() && ending.starts_with(|letter: char| letter.is_ascii_alphabetic())
    })
}

/// The search for `allow` rules that cover a path and everything below it.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    deny: &'s RoleRule<'p>,
    end: PathEnd,
    wider_allows: Vec<RuleId>,
    /// Whether there is no warning: a `deny` rule covers the deeper paths, or another rule shows
    /// that the author has considered them.
    is_intended: bool,
    steps: &'s mut Steps,
}

impl<'p> Search<'_, 'p> {
    fn walk(&mut self, id: NodeId, segments: &'p [Segment]) {
        let node = self.trie.node(id);
        if !self.steps.take(1 + node.open_ended.len()) {
            return;
        }
        for id in &node.open_ended {
            let RoleRule { effect, rule, .. } = self.trie.rules.at(*id);
            let overlaps = share_method_and_host(rule, self.deny.rule);
            self.is_intended |= *effect == Effect::Deny && overlaps;
            if *effect == Effect::Allow
                && overlaps
                // For an `allow` of `/internal/**`, a `deny` of `/internal` is an exception.
                && !segments.is_empty()
                // To deny some methods on one named path is common, such as `DELETE` of a
                // collection. For another `PathEnd` it is probably a mistake, whatever the methods.
                && (self.end != PathEnd::Name || self.deny.rule.actions.covers(&rule.actions))
            {
                self.wider_allows.push(*id);
            }
        }
        let Some((segment, further)) = segments.split_first() else {
            // A rule below `/internal/{id}` shows that the author has considered deeper paths. A
            // rule below `/internal*` or `/*.env` does not: it probably covers only some of the
            // names that match.
            let has_children = !node.literals.is_empty() || !node.non_literals.is_empty();
            self.is_intended |= (has_children || !node.open_ended.is_empty())
                && !matches!(self.end, PathEnd::NameStart | PathEnd::NameEnd);
            return;
        };
        if self.end == PathEnd::NameEnd && further.is_empty() {
            self.is_intended |= self.is_denied_deeper(node, segment);
        }
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(id, literal)
        {
            self.walk(next, further);
        }
        for (wider, next) in &node.non_literals {
            if self.steps.take(1) && wider.covers(segment) {
                self.walk(*next, further);
            }
        }
    }

    /// Whether a rule denies the same file one level deeper, in every folder, such as
    /// `/{dir}/*.env` for `/*.env`. Then only that rule gets the warning.
    fn is_denied_deeper(&mut self, node: &Node<'p>, file: &Segment) -> bool {
        let any_folder = Segment::Any("dir".into());
        let folders = node.non_literals.iter().filter(|(folder, _)| {
            matches!(folder, Segment::Any(_) | Segment::Glob(_)) && folder.covers(&any_folder)
        });
        let files = folders
            .flat_map(|(_, folder)| &self.trie.node(*folder).non_literals)
            .filter(|(wider, _)| wider.covers(file))
            .map(|(_, file)| self.trie.node(*file));
        let rules = files.flat_map(|file| file.exact.iter().chain(&file.open_ended));
        let rules: Vec<RuleId> = rules.take(self.steps.0).copied().collect();
        self.steps.take(node.non_literals.len() + rules.len());
        rules.into_iter().map(|id| self.trie.rules.at(id)).any(|rule| {
            rule.effect == Effect::Deny && share_method_and_host(rule.rule, self.deny.rule)
        })
    }
}
