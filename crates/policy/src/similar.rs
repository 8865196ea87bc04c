//! Finds the name that was probably meant by a misspelled one.

/// The maximum length of a name that is compared, in bytes: a comparison takes as many steps as the product of both lengths.
const MAX_LENGTH: usize = 256;

/// The one of these words that was probably meant by `word`.
#[must_use]
pub fn closest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let lower = word.to_lowercase();
    let most = match word.chars().count() {
        0..=3 => 1,
        4..=6 => 2,
        _ => 3,
    };
    words
        .into_iter()
        .filter(|known| {
            *known != word && known.len().abs_diff(word.len()) <= 4 * most && known.len() <= MAX_LENGTH
        })
        .map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= most && *distance < known.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
