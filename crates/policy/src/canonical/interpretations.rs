//! The interpretations of a path by different backends, each of which takes some of the decoding
//! and resolving steps and omits others.

use super::buffers::{Buffers, Texts};
use super::error::PathError;
use super::{encoding, shape};

/// The longest path with several interpretations, in bytes. Length costs the client nothing,
/// but a dozen or more interpretations are each built and evaluated: 5 to 15 ms for 60 KiB, the
/// longest path that Envoy accepts (November 2026, 2 cores under load, `hostile_paths` in the
/// authorizer's examples). Other servers accept 8 KiB as well.
pub(super) const MAX_LENGTH: usize = 8 << 10;

/// The limit on the total bytes of all texts that a path becomes: six times the longest path. A
/// path of that length with parameters and doubly encoded characters needs this much. A path that
/// is also cut in several places must be shorter.
///
/// The most expensive path takes 0.6 ms to interpret and evaluate, no more than with the earlier
/// fixed list of twelve interpretations (`hostile_paths` in the authorizer's examples, November
/// 2026, 2 cores under load).
const MAX_BYTES: usize = 6 * MAX_LENGTH;
const _: () = assert!(MAX_BYTES == 48 << 10, "the documents say 48 KiB");

/// Writes to `candidates` each text that a path may become: percent-decoded once or twice, cut at
/// an encoded `?` or `#`, without `;` parameters, without dot segments and adjacent slashes, in
/// every order that makes a difference. The first entry is the path with its triplets normalised.
///
/// # Errors
/// If it is ambiguous, or its interpretations are over [`MAX_BYTES`].
pub(super) fn write_candidates(path: &[u8], buffers: &mut Buffers) -> Result<(), PathError> {
    let Buffers { candidates, current, result, scratch, .. } = buffers;
    candidates.clear();
    encoding::normalise(path, current);
    candidates.push(current);
    shape::reject_parameters_near_dots(current, result)?;
    shape::without_raw_parameters(current, result);
    candidates.push_new(result);
    // A server that removes dot segments before it decodes may treat `%2e%2e` as a name, which a
    // later `..` removes.
    if shape::has_dots(path) && encoding::has_encoded_dots(path) {
        shape::resolve(path, result, scratch)?;
        encoding::normalise(result, current);
        candidates.push_new(current);
        shape::without_raw_parameters(current, result);
        candidates.push_new(result);
    }
    take_steps(candidates, 0, [current, result, scratch])?;
    let decoded_once = candidates.len();
    for at in 0..decoded_once {
        candidates.copy(at, current);
        if !encoding::decode_again(current, result, scratch)? {
            continue;
        }
        shape::reject_revealed_dots(current, result)?;
        shape::reject_parameters_near_dots(result, scratch)?;
        candidates.push_new(result);
    }
    take_steps(candidates, decoded_once, [current, result, scratch])
}

/// Applies each step to the texts from index `next` on, including the texts that the steps add.
fn take_steps(
    candidates: &mut Texts,
    mut next: usize,
    [current, result, scratch]: [&mut Vec<u8>; 3],
) -> Result<(), PathError> {
    while next < candidates.len() {
        candidates.copy(next, current);
        next += 1;
        shape::reject_authority(current)?;
        for end in [b"%3F", b"%23"] {
            if let Some(before) = encoding::before(current, end) {
                shape::reject_dots_at_end(before)?;
                candidates.push_new(before);
            }
        }
        shape::without_parameters(current, result);
        candidates.push_new(result);
        if !shape::is_resolved(current) {
            shape::resolve(current, result, scratch)?;
            candidates.push_new(result);
        }
        if candidates.size() > MAX_BYTES {
            return Err(PathError::TooLong);
        }
    }
    Ok(())
}
