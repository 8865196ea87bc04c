//! The invariant of paths on every short path; `make fuzz` also checks longer ones.

use fuzz::{CHARACTERS, ESCAPES, every_path};

#[test]
fn every_interpretation_of_every_short_path_is_evaluated() {
    for (symbols, max_symbols) in [(CHARACTERS, 5), (ESCAPES, 4)] {
        let tally = every_path(symbols, max_symbols, 2, |_, _, _| ());
        assert_eq!(tally.wrong, 0, "of {} paths; {:#?}", tally.paths, tally.findings);
        // The number of valid paths changes only if other paths are denied as invalid.
        assert!(tally.valid > 10_000 && tally.interpretations > 3 * tally.valid, "{tally:?}");
        assert!(tally.allowed > 10_000, "{tally:?}");
    }
}
