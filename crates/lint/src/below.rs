//! `deny` rules for a path, or for paths of the same depth, that leave deeper paths open: a `deny`
//! of `/internal`, `/internal*`, `/internal/{id}` or `/*.env` where `/**` is allowed.

use document::Warning;
use policy::model::{Effect, RuleId};
use policy::pattern::{Pattern, Segment};

use crate::overlap::overlap_but_for_paths;
use crate::related::RelatedRoles;
use crate::trie::{Node, NodeId, RoleRule, Trie};
use crate::warnings::{Budget, Warnings};

/// Warns of each `deny` rule for a path or a depth, where an `allow` rule for a wider path covers
/// deeper paths and no other rule is about these.
pub(crate) fn open_below(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = RelatedRoles::new(trie.policy);
    let mut budget = Budget::new(2_000_000, 2_000);
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
        let help = if *end == PathEnd::File {
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
    steps: &mut usize,
) -> Option<&'s RoleRule<'p>> {
    let mut search = Search { trie, deny, end, above: Vec::new(), is_denied: false, steps };
    search.walk(Trie::root(pattern), &pattern.segments);
    let Search { above, is_denied, .. } = search;
    let mut above = above.into_iter().map(|id| trie.rules.at(id));
    let allow = above.find(|allow| related.restricts(deny, allow.role_id, steps));
    allow.filter(|_| *steps > 0 && !is_denied)
}

/// How a path ends that other paths can be below: not in a slash, and not like that of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathEnd {
    /// It is `/` alone. Hardly anybody denies a method on the first page only.
    Root,
    /// A name.
    Name,
    /// The start of a name, such as `internal*`: the author thinks of everything that begins so.
    NameStart,
    /// Any segment.
    Any,
    /// The end of a name, or a part of it, such as `*.env`: the author thinks of files in all
    /// folders.
    File,
}

impl PathEnd {
    fn from_pattern(pattern: &Pattern) -> Option<Self> {
        let last = pattern.segments.last().filter(|_| pattern.absolute && !pattern.rest)?;
        match last {
            Segment::Literal(name) if name.is_empty() => {
                (pattern.segments.len() == 1).then_some(Self::Root)
            }
            Segment::Literal(name) => (!is_file(name)).then_some(Self::Name),
            Segment::Glob(glob) => match &*glob.0 {
                [start, .., end] if !start.is_empty() => end.is_empty().then_some(Self::NameStart),
                // `*` alone gets a warning of its own.
                pieces => pieces.iter().any(|piece| !piece.is_empty()).then_some(Self::File),
            },
            Segment::One(_) | Segment::User | Segment::UserId(_) => Some(Self::Any),
        }
    }
}

fn is_file(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty() && ending.starts_with(|letter: char| letter.is_ascii_alphabetic())
    })
}

/// The search for `allow` rules that cover a path and everything below it.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    deny: &'s RoleRule<'p>,
    end: PathEnd,
    above: Vec<RuleId>,
    /// Whether another rule is about deeper paths.
    is_denied: bool,
    steps: &'s mut usize,
}

impl<'p> Search<'_, 'p> {
    fn walk(&mut self, id: NodeId, segments: &'p [Segment]) {
        let node = self.trie.node(id);
        *self.steps = self.steps.saturating_sub(1 + node.open_ended.len());
        if *self.steps == 0 {
            return;
        }
        for id in &node.open_ended {
            let RoleRule { effect, rule, .. } = self.trie.rules.at(*id);
            let overlaps = overlap_but_for_paths(rule, self.deny.rule);
            self.is_denied |= *effect == Effect::Deny && overlaps;
            // An `allow` rule that begins at this very path makes an exception for it. A `deny` for
            // some methods of one path is usual, as a `DELETE` of a collection.
            if *effect == Effect::Allow
                && !segments.is_empty()
                && overlaps
                && (self.end != PathEnd::Name || self.deny.rule.actions.covers(&rule.actions))
            {
                self.above.push(*id);
            }
        }
        let Some((segment, further)) = segments.split_first() else {
            // A rule below `/internal*` or `/*.env` is hardly about all paths that begin or end so.
            self.is_denied |= !matches!(self.end, PathEnd::NameStart | PathEnd::File)
                && !(node.literals.is_empty()
                    && node.patterns.is_empty()
                    && node.open_ended.is_empty());
            return;
        };
        if self.end == PathEnd::File && further.is_empty() {
            self.is_denied |= self.is_denied_deeper(node, segment);
        }
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(id, literal)
        {
            self.walk(next, further);
        }
        for (pattern, next) in &node.patterns {
            *self.steps = self.steps.saturating_sub(1);
            if *self.steps > 0 && pattern.covers(segment) {
                self.walk(*next, further);
            }
        }
    }

    /// Whether a rule denies the same file in every folder below this node: that rule gets the
    /// warning.
    fn is_denied_deeper(&mut self, node: &Node<'p>, file: &Segment) -> bool {
        let any_folder = Segment::One("dir".into());
        let folders = node.patterns.iter().filter(|(pattern, _)| {
            matches!(pattern, Segment::One(_) | Segment::Glob(_)) && pattern.covers(&any_folder)
        });
        let files = folders
            .flat_map(|(_, folder)| &self.trie.node(*folder).patterns)
            .filter(|(pattern, _)| pattern.covers(file))
            .map(|(_, file)| self.trie.node(*file));
        let rules = files.flat_map(|file| file.exact.iter().chain(&file.open_ended));
        let rules: Vec<RuleId> = rules.take(*self.steps).copied().collect();
        *self.steps = self.steps.saturating_sub(node.patterns.len() + rules.len());
        rules.into_iter().map(|id| self.trie.rules.at(id)).any(|rule| {
            rule.effect == Effect::Deny && overlap_but_for_paths(rule.rule, self.deny.rule)
        })
    }
}
