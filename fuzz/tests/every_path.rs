//! The invariant of paths on every short path; `make fuzz` goes on to longer ones.

use fuzz::{CHARACTERS, ESCAPES, every_path};

#[test]
fn every_interpretation_of_every_short_path_is_evaluated() {
    for (symbols, most) in [(CHARACTERS, 5), (ESCAPES, 4)] {
        let tally = every_path(symbols, most, 2, |_, _, _| ());
        assert_eq!(tally.wrong, 0, "of {} paths; {:#?}", tally.paths, tally.findings);
        // How many are judged changes only when what is refused does.
        assert!(tally.judged > 10_000 && tally.interpretations > 3 * tally.judged, "{tally:?}");
        assert!(tally.allowed > 10_000, "{tally:?}");
    }
}
