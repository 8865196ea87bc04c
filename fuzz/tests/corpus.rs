//! Every target on the files of its corpus and on mutations of them, the same in each run.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the corpus is on the disk")]

use std::path::Path;

/// Mutations of each target's corpus.
const MUTATIONS: u32 = 5_000;

#[test]
fn no_target_fails_on_its_corpus_or_mutations_of_it() {
    for (name, run) in fuzz::TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "corpus/{name} is empty");
        for seed in &seeds {
            run(seed);
        }
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for _ in 0..MUTATIONS {
            run(&mutated(&seeds, &mut random));
        }
    }
}

#[test]
fn every_target_has_a_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    for (name, _) in fuzz::TARGETS {
        assert!(folder.join(format!("{name}.rs")).is_file(), "targets/{name}.rs is missing");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), fuzz::TARGETS.len());
    let script =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("run")).unwrap();
    let list = script.split_once("targets=(path ").unwrap().1.split_once(')').unwrap().0;
    let listed: Vec<_> = std::iter::once("path")
        .chain(list.split(' '))
        .filter(|name| *name != "every_path")
        .collect();
    assert_eq!(listed, fuzz::TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A seed with a few bytes changed, removed, duplicated, or copied from another seed.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = one_of(seeds, random).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let until = (at + random.below(8)).min(bytes.len());
        let other = one_of(seeds, random);
        let piece = other.iter().skip(random.below(other.len() + 1)).take(random.below(24));
        match random.below(5) {
            0 => drop(bytes.drain(at..until)),
            1 => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
            2 => drop(bytes.splice(at..until, piece.copied())),
            3 => bytes.extend_from_within(at..until),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
    bytes
}

fn one_of<'a>(seeds: &'a [Vec<u8>], random: &mut Random) -> &'a Vec<u8> {
    seeds.get(random.below(seeds.len())).unwrap()
}

/// xorshift64*: the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap();
        high % limit.max(1)
    }
}
