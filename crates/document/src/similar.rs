//! Finds the name that was probably meant by a misspelled name.

/// The maximum length of a name that is compared, in bytes: a comparison takes as many steps as the
/// product of both lengths.
const MAX_LENGTH: usize = 256;

/// The steps of a comparison in addition to the product of the lengths.
const STEPS_PER_COMPARISON: usize = 64;

/// The word that was probably meant by `word`.
#[must_use]
pub fn closest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    Suggestions { steps: usize::MAX }.closest(word, words)
}

/// Finds the words that were probably meant by several misspelled words, with a limit on the work
/// for all of them together: each misspelled word may be compared with every existing word.
#[derive(Clone, Debug)]
pub struct Suggestions {
    /// The number of steps that may still be taken.
    steps: usize,
}

impl Suggestions {
    /// With the limit on steps for an answer, on an admin page or of a command.
    #[must_use]
    pub const fn with_answer_limit() -> Self {
        Self { steps: 10_000_000 }
    }

    /// With the limit on steps for reading a file.
    #[must_use]
    pub const fn with_file_limit() -> Self {
        Self { steps: 100_000_000 }
    }

    /// The word that was probably meant by `word`. `None` also if the search needs more steps than
    /// the limit allows; later searches then find nothing either.
    pub fn closest<'w>(
        &mut self,
        word: &str,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Option<&'w str> {
        if word.len() > MAX_LENGTH {
            return None;
        }
        let lower = word.to_lowercase();
        let max_distance = match word.chars().count() {
            0..=3 => 1,
            4..=6 => 2,
            _ => 3,
        };
        let mut closest: Option<(usize, &str)> = None;
        for candidate in words {
            self.spend(1)?;
            let difference = candidate.len().abs_diff(word.len());
            if candidate == word || difference > 4 * max_distance || candidate.len() > MAX_LENGTH {
                continue;
            }
            self.spend(STEPS_PER_COMPARISON + word.len() * candidate.len())?;
            let lower_candidate = candidate.to_lowercase();
            let distance = strsim::damerau_levenshtein(&lower, &lower_candidate);
            // If more than one letter differs, the first must be equal: `time` is not a misspelled
            // `name`.
            if distance <= max_distance
                && distance < candidate.chars().count()
                && (distance <= 1 || lower.chars().next() == lower_candidate.chars().next())
                && closest.is_none_or(|(closest, _)| distance < closest)
            {
                closest = Some((distance, candidate));
            }
        }
        closest.map(|(_, candidate)| candidate)
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::{Suggestions, closest};

    #[test]
    fn the_first_of_the_closest_is_found() {
        assert_eq!(closest("edittors", ["auditors", "editors", "editor"]), Some("editors"));
        assert_eq!(closest("cat", ["bat", "rat"]), Some("bat"));
        assert_eq!(closest("editors", ["editors"]), None);
        assert_eq!((closest("time", ["name"]), closest("tiem", ["time"])), (None, Some("time")));
    }

    #[test]
    fn no_more_is_found_than_the_steps_allow() {
        let mut all = Suggestions::with_answer_limit();
        let known: Vec<String> = (0..1_000).map(|number| format!("{number:0200}")).collect();
        let known = || known.iter().map(String::as_str);
        let asked: Vec<String> = (0..1_000).map(|number| format!("{number:0199}x")).collect();
        let found = asked.iter().filter(|word| all.closest(word, known()).is_some()).count();
        assert!(found < 2, "{found}");
        assert_eq!(all.closest("cat", ["bat"]), None);
    }
}
