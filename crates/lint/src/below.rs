//! `deny` rules for one path, or for paths of one depth, that leave open what is below: a `deny` of
//! `/internal`, `/internal*`, `/internal/{id}` or `/*.env` where `/**` is allowed.

use crate::overlap::overlap_but_for_paths;
use crate::related::Related;
use crate::trie::{Node, NodeId, Ruled, Trie};
use crate::warnings::{Budget, Warnings};
use document::{Problem, Warning};
use policy::model::{Effect, Policy, RuleId};
use policy::pattern::{Pattern, Segment};

/// Warns of each `deny` rule for one path or one depth, where an `allow` rule from further above
/// covers what is below and no other rule is about that.
pub(crate) fn open(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = Related::new(policy);
    let mut budget = Budget::new(2_000_000, 2_000);
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        let mut open: Vec<(&Pattern, End, &Ruled<'_>)> = Vec::new();
        for pattern in &ruled.rule.resources {
            let Some(end) = End::of(pattern) else { continue };
            let allow =
                budget.spend(|left| find_open(trie, ruled, pattern, end, &mut related, left));
            open.extend(allow.map(|allow| (pattern, end, allow)));
        }
        if let Some(((pattern, end, allow), others)) = open.split_first() {
            warnings.push(warning(ruled, pattern, *end, allow, others.len()));
        }
    }
}

/// An `allow` rule that leaves open the paths below a pattern of a `deny` rule.
fn find_open<'s, 'p>(
    trie: &'s Trie<'p>,
    ruled: &'s Ruled<'p>,
    pattern: &'p Pattern,
    end: End,
    related: &mut Related<'_>,
    left: &mut usize,
) -> Option<&'s Ruled<'p>> {
    let mut search = Search { trie, ruled, end, above: Vec::new(), is_denied: false, left };
    search.walk(Trie::root(pattern), &pattern.segments);
    let (above, is_denied) = (search.above, search.is_denied);
    let mut above = above.iter().map(|id| trie.rules.at(*id));
    let allow = above.find(|allow| related.are_together(ruled, allow.role, left));
    allow.filter(|_| *left > 0 && !is_denied)
}

fn warning(
    ruled: &Ruled<'_>,
    pattern: &Pattern,
    end: End,
    allow: &Ruled<'_>,
    others: usize,
) -> Problem {
    let path: String = pattern.segments.iter().map(|segment| format!("/{segment}")).collect();
    let by = &allow.rule.name;
    let mut message =
        format!("`{}` does not deny what is below `{path}`, which `{by}` allows", ruled.rule.name);
    if others > 0 {
        message.push_str(&format!("; {others} more of its patterns are like this"));
    }
    let help = if end == End::File {
        "a pattern of one segment covers one depth, and `**` is only at the end of a path: write a pattern for \
         each depth, or allow fewer paths"
            .to_owned()
    } else {
        format!("write `{}/**` for the path and everything below", path.trim_end_matches('/'))
    };
    Problem::warning(ruled.rule.at.clone(), Warning::OpenBelow, message)
        .help(help)
        .related(allow.rule.at.clone(), format!("`{by}` of the role `{}`", allow.named.name))
}

/// How a path ends that others can be below: not in a slash, and not like that of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is `/` alone. Hardly anybody denies a method on the first page only.
    Root,
    /// A name.
    Name,
    /// The start of a name, such as `internal*`: the author thinks of everything that begins so.
    Start,
    /// Any one segment.
    Any,
    /// The end of a name, or a part of it, such as `*.env`: the author thinks of files in all
    /// folders.
    File,
}

impl End {
    fn of(pattern: &Pattern) -> Option<Self> {
        let last = pattern.segments.last().filter(|_| pattern.absolute && !pattern.rest)?;
        let of_glob = |pieces: &[Box<str>]| match pieces {
            [first, .., end] if !first.is_empty() => end.is_empty().then_some(Self::Start),
            // `*` alone gets a warning of its own.
            pieces => pieces.iter().any(|piece| !piece.is_empty()).then_some(Self::File),
        };
        match last {
            Segment::Literal(last) if last.is_empty() => {
                (pattern.segments.len() == 1).then_some(Self::Root)
            }
            Segment::Literal(last) => (!is_file(last)).then_some(Self::Name),
            Segment::Glob(glob) => of_glob(&glob.0),
            Segment::One(_) | Segment::User | Segment::UserId(_) => Some(Self::Any),
        }
    }
}

fn is_file(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(name, end)| {
        !name.is_empty() && end.starts_with(|first: char| first.is_ascii_alphabetic())
    })
}

/// The search for `allow` rules that cover a path and everything below it.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    ruled: &'s Ruled<'p>,
    end: End,
    above: Vec<RuleId>,
    /// Whether another rule is about what is below the path.
    is_denied: bool,
    left: &'s mut usize,
}

impl<'p> Search<'_, 'p> {
    fn walk(&mut self, id: NodeId, segments: &'p [Segment]) {
        let node = self.trie.node(id);
        *self.left = self.left.saturating_sub(1 + node.rests.len());
        if *self.left == 0 {
            return;
        }
        for rest in &node.rests {
            let other = self.trie.rules.at(*rest);
            match other.effect {
                Effect::Deny => {
                    self.is_denied |= overlap_but_for_paths(other.rule, self.ruled.rule)
                }
                // One that begins at this very path has an exception of its own for it.
                Effect::Allow if segments.is_empty() => {}
                Effect::Allow => {
                    // A rule for some methods of one path is usual, as a `DELETE` of a collection.
                    let all = self.end != End::Name
                        || self.ruled.rule.actions.covers(&other.rule.actions);
                    if all && overlap_but_for_paths(other.rule, self.ruled.rule) {
                        self.above.push(*rest);
                    }
                }
            }
        }
        let Some((segment, further)) = segments.split_first() else {
            // Of what begins or ends alike, a rule is hardly about all.
            self.is_denied |= !matches!(self.end, End::Start | End::File)
                && (!node.literals.is_empty() || !node.others.is_empty() || !node.rests.is_empty());
            return;
        };
        if self.end == End::File && further.is_empty() {
            self.is_denied |= self.is_denied_deeper(node, segment);
        }
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(id, literal)
        {
            self.walk(next, further);
        }
        for (other, next) in &node.others {
            *self.left = self.left.saturating_sub(1);
            if *self.left > 0 && other.covers(segment) {
                self.walk(*next, further);
            }
        }
    }

    /// Whether a rule denies the same file in every folder below this node: that one tells what is
    /// still open.
    fn is_denied_deeper(&mut self, node: &Node<'p>, file: &Segment) -> bool {
        let any = |(other, _): &&(&Segment, NodeId)| {
            matches!(other, Segment::One(_) | Segment::Glob(_))
                && other.covers(&Segment::One("dir".into()))
        };
        let folders = node.others.iter().filter(any);
        let files: Vec<RuleId> = folders
            .flat_map(|(_, folder)| &self.trie.node(*folder).others)
            .filter(|(other, _)| other.covers(file))
            .flat_map(|(_, file)| {
                self.trie.node(*file).ends.iter().chain(&self.trie.node(*file).rests)
            })
            .take(*self.left)
            .copied()
            .collect();
        *self.left = self.left.saturating_sub(node.others.len() + files.len());
        files.into_iter().map(|id| self.trie.rules.at(id)).any(|other| {
            other.effect == Effect::Deny && overlap_but_for_paths(other.rule, self.ruled.rule)
        })
    }
}
