//! The interpretations that backends may give to a path, depending on which steps each of them takes or leaves out.

use super::buffers::{Space, Texts};
use super::{PathError, encoding, shape};

/// The limit on the total bytes of all texts that one path becomes: six times the longest path. A path of that length
/// with parameters and doubly encoded characters needs this much. A path that is also cut in several places must be
/// shorter.
///
/// The most expensive path takes 0.6 ms to interpret and evaluate, no more than with the earlier fixed list of twelve
/// interpretations (`hostile_paths` in the authorizer's examples, November 2026, 2 cores under load).
const MOST_BYTES: usize = 6 * super::LONGEST_UNUSUAL;

/// Writes to `ways` of `space` what a path may become: percent-decoded once or twice, cut at an encoded `?` or `#`,
/// without `;` parameters, without dot segments and adjacent slashes, in every order that makes a difference. The first
/// entry is the path with its triplets normalised.
///
/// # Errors
/// If it is ambiguous, or its interpretations are over [`MOST_BYTES`].
pub(super) fn write(path: &[u8], space: &mut Space) -> Result<(), PathError> {
    let Space { ways, way, made, other, .. } = space;
    ways.clear();
    encoding::normalise(path, way);
    ways.push(way);
    shape::parameters_apart_from_dots(way, made)?;
    shape::without_raw_parameters(way, made);
    ways.add(made);
    // A server that resolves dot segments before decoding may treat `%2e%2e` as a name, which a `..` after it removes.
    if shape::has_dots(path) && encoding::has_encoded_dots(path) {
        shape::resolve(path, made, other)?;
        encoding::normalise(made, way);
        ways.add(way);
        shape::without_raw_parameters(way, made);
        ways.add(made);
    }
    take_steps(ways, 0, [way, made, other])?;
    let decoded_once = ways.len();
    for at in 0..decoded_once {
        ways.copy(at, way);
        if !encoding::once_more(way, made, other)? {
            continue;
        }
        shape::parameters_apart_from_dots(made, other)?;
        ways.add(made);
    }
    take_steps(ways, decoded_once, [way, made, other])
}

/// Applies each step to the texts from `next` on, including those that this adds.
fn take_steps(
    ways: &mut Texts,
    mut next: usize,
    [way, made, other]: [&mut Vec<u8>; 3],
) -> Result<(), PathError> {
    while next < ways.len() {
        ways.copy(next, way);
        next += 1;
        shape::has_no_authority(way)?;
        for mark in [b"%3F", b"%23"] {
            if let Some(before) = encoding::before(way, mark) {
                shape::ends_apart_from_dots(before)?;
                ways.add(before);
            }
        }
        shape::without_parameters(way, made);
        ways.add(made);
        if !shape::is_resolved(way) {
            shape::resolve(way, made, other)?;
            ways.add(made);
        }
        if ways.size() > MOST_BYTES {
            return Err(PathError::TooLong);
        }
    }
    Ok(())
}
