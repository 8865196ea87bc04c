//! Compares matching globs in one pass with the meaning of each glob by itself.

use std::collections::BTreeSet;

use generator::Rng;

use super::*;

/// The globs of several nodes; each glob leads to a number of its own.
struct Set {
    globs: Vec<(u32, Glob)>,
    nodes: Vec<Globs>,
    set: GlobSet,
}

impl Set {
    fn new(nodes: &[Vec<Glob>]) -> Self {
        let all: Vec<Edge> = (0..)
            .map(NodeId)
            .zip(nodes.iter().flatten())
            .map(|(to, glob)| (glob.clone(), to))
            .collect();
        let mut left = all.iter().cloned();
        let mut builder = GlobsBuilder::default();
        let nodes = nodes
            .iter()
            .map(|globs| builder.add(left.by_ref().take(globs.len()).collect()))
            .collect();
        let globs = all.into_iter().map(|(glob, to)| (to.0, glob)).collect();
        Self { globs, nodes, set: builder.finish() }
    }

    /// The matches from the single pass and from trying one by one, in one list, with duplicates.
    fn found(&self, segment: &str, nodes: usize) -> Vec<u32> {
        let mut found = Vec::new();
        let each = self.nodes.iter().filter_map(|globs| {
            globs.match_cheap_or_defer(segment.as_bytes(), nodes, |to| found.push(to.0))
        });
        let starts: Vec<StepId> = each.collect();
        self.set.matching(segment.as_bytes(), &starts, |to| found.push(to.0));
        found.sort_unstable();
        found
    }

    fn wanted(&self, segment: &str) -> Vec<u32> {
        self.globs
            .iter()
            .filter(|(_, glob)| glob.matches(segment.as_bytes()))
            .map(|(to, _)| *to)
            .collect()
    }

    #[track_caller]
    fn agrees(&self, segment: &str) -> usize {
        let wanted = self.wanted(segment);
        for nodes in [1, MAX_TRIED + 1] {
            assert_eq!(
                self.found(segment, nodes),
                wanted,
                "`{segment}`, {nodes} nodes, {:?}",
                self.globs
            );
        }
        wanted.len()
    }
}

fn glob(text: &str) -> Glob {
    Glob(text.split('*').map(Into::into).collect())
}

/// All texts of one to `most` of these parts, without duplicates.
fn texts(parts: &[&str], most: usize) -> BTreeSet<String> {
    let mut texts = BTreeSet::from([String::new()]);
    for _ in 0..most {
        let longer: Vec<String> = texts
            .iter()
            .flat_map(|text| parts.iter().map(move |part| format!("{text}{part}")))
            .collect();
        texts.extend(longer);
    }
    texts.remove("");
    texts
}

fn globs_of(parts: &[&str], most: usize) -> Vec<Glob> {
    let texts = texts(parts, most);
    texts
        .iter()
        .filter(|text| text.contains('*') && !text.contains("**"))
        .map(|text| glob(text))
        .collect()
}

#[test]
fn every_small_glob_agrees_on_every_small_segment() {
    let mut matched = 0;
    for (parts, of_segments) in [
        (["*", "a", "b", "aa"].as_slice(), ["a", "b"].as_slice()),
        (&["*", "9", "%A9", "A"], &["9", "A", "%A9", "%99"]),
        (&["*", "%25", "25", "5"], &["%25", "2", "5", "%52"]),
    ] {
        let set = Set::new(&[globs_of(parts, 5)]);
        for segment in texts(of_segments, if of_segments.len() == 2 { 9 } else { 5 }) {
            matched += set.agrees(&segment);
        }
    }
    assert!(matched > 50_000, "{matched}");
}

/// Few and many globs, at one node and at several, with segments that are tried one by one and with
/// longer ones.
#[test]
fn some_globs_of_some_nodes_agree_on_hostile_segments() {
    let mut rng = Rng::new(1);
    let mut matched = 0;
    for round in 0..1_500 {
        let letters: &[&str] =
            [["a", "b"].as_slice(), &["a", "%AA", "A"], &["a", "b", "%B0", "0", "B"]][round % 3];
        let text = |rng: &mut Rng, most: usize| -> String {
            (0..rng.below(most + 1)).map(|_| *rng.pick(letters).unwrap()).collect()
        };
        let nodes: Vec<Vec<Glob>> = (0..1 + rng.below(if round % 5 == 0 { 40 } else { 3 }))
            .map(|_| {
                let mut globs = BTreeSet::new();
                let most = if rng.percent(30) { 60 } else { 6 };
                for _ in 0..1 + rng.below(most) {
                    let mut pieces = vec![text(&mut rng, 2)];
                    while rng.percent(50) {
                        let piece = text(&mut rng, 6);
                        pieces.push(if piece.is_empty() { "a".to_owned() } else { piece });
                    }
                    pieces.push(text(&mut rng, 2));
                    globs.insert(Glob(pieces.into_iter().map(Into::into).collect()));
                }
                globs.into_iter().collect()
            })
            .collect();
        let set = Set::new(&nodes);
        for _ in 0..30 {
            let unit = text(&mut rng, 4);
            let mut segment =
                unit.repeat(rng.below(40)) + &text(&mut rng, 12) + &unit.repeat(rng.below(4));
            if segment.is_empty() {
                segment.push('a');
            }
            matched += set.agrees(&segment);
        }
    }
    assert!(matched > 100_000, "{matched}");
}

/// The parser makes none of these; each must still match what it matches by itself.
#[test]
fn globs_that_are_not_canonical_are_matched_too() {
    let odd = [
        &["a"][..],
        &["a", "", "b"],
        &["a", "b"],
        &["", "%c3", ""],
        &["", "%", ""],
        &["%4", ""],
        &["", "", ""],
    ];
    let set = Set::new(&[odd
        .iter()
        .map(|pieces| Glob(pieces.iter().map(|piece| (*piece).into()).collect()))
        .collect()]);
    for segment in ["a", "ab", "axb", "%c3", "x%c3x", "%41", "%4", "%", "b"] {
        set.agrees(segment);
    }
}

#[test]
fn the_states_beyond_the_table_lead_where_the_table_would() {
    let mut rng = Rng::new(1);
    let pieces: BTreeSet<String> = (0..3_000)
        .map(|_| {
            (0..2 + rng.below(12))
                .map(|_| *rng.pick(&["a", "b", "c", "%20", "%C3", "e", "f"]).unwrap())
                .collect()
        })
        .collect();
    let set = Set::new(&[pieces.iter().map(|piece| glob(&format!("*{piece}*"))).collect()]);
    assert!(set.set.automaton.has_states_beyond_the_table());
    let all: Vec<&String> = pieces.iter().collect();
    let mut matched = 0;
    for _ in 0..60 {
        let mut segment = String::new();
        for _ in 0..8 {
            let piece = rng.pick(&all).unwrap();
            segment.push_str(piece.get(..rng.below(piece.len())).unwrap());
            segment.truncate(
                segment.rfind('%').filter(|at| at + 3 > segment.len()).unwrap_or(segment.len()),
            );
            segment.push_str(rng.pick(&all).unwrap());
        }
        matched += set.agrees(&segment);
    }
    assert!(matched > 1_000, "{matched}");
}
