//! What the servers behind the proxy may make of a path, each of them leaving out a step or taking it.

use super::buffers::{Space, Texts};
use super::{PathError, encoding, shape};

/// The most bytes of all the texts that one path becomes: six times the longest path, which is what a path of that length
/// comes to that has parameters and characters encoded twice. One that is also cut in several places must be shorter.
///
/// The most expensive path takes 0.6 ms to read and to decide, as it did when only a fixed list of twelve was judged
/// (`hostile_paths` in the authorizer's examples, November 2026, 2 cores under load).
const MOST_BYTES: usize = 6 * super::LONGEST_UNUSUAL;

/// Writes to `ways` of `space` what a path may become: percent-decoded once or twice, cut at an encoded `?` or `#`, without
/// its `;` parameters, without its dot segments and adjacent slashes, in any order in which these make a difference. The
/// first is the path with its triplets normalised.
///
/// # Errors
/// When it is ambiguous, or becomes too much.
pub(super) fn write(path: &[u8], space: &mut Space) -> Result<(), PathError> {
    let Space { ways, way, made, other, .. } = space;
    ways.clear();
    encoding::normalise(path, way);
    ways.push(way);
    shape::parameters_apart_from_dots(way, made)?;
    shape::without_raw_parameters(way, made);
    ways.add(made);
    // Who resolves dots first and decodes then may take `%2e%2e` for a name, which a `..` after it removes.
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

/// Adds what each step makes of the texts from `next` on, and of what is added.
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
