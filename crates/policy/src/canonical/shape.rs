//! Dot segments, adjacent slashes and `;` parameters.

use super::encoding::reserved_decoded;
use super::error::PathError;

/// Whether a path has neither dot segments nor adjacent slashes.
pub(super) fn is_resolved(text: &[u8]) -> bool {
    !text.windows(2).any(|two| two == b"//") && !has_dots(text)
}

/// Whether a path has dot segments.
pub(super) fn has_dots(text: &[u8]) -> bool {
    segments(text).any(|segment| matches!(segment, b"." | b".."))
}

/// Writes the path without dot segments and adjacent slashes to `path`. `other` is overwritten.
///
/// # Errors
/// If it climbs above the root, begins with `//` once its dot segments are removed, or the result
/// depends on the order of the two steps.
pub(super) fn resolve(
    text: &[u8],
    path: &mut Vec<u8>,
    other: &mut Vec<u8>,
) -> Result<(), PathError> {
    without_dots(segments(text), path)?;
    has_no_authority(path)?;
    merge(path);
    without_dots(merged_segments(text), other)?;
    if path == other { Ok(()) } else { Err(PathError::AmbiguousSlashes) }
}

/// Returns an error for a path that begins with `//`: a parser of URL references (RFC 3986, 4.2)
/// takes the next segment for an authority, and starts the path after it.
pub(super) fn has_no_authority(text: &[u8]) -> Result<(), PathError> {
    if text.starts_with(b"//") { Err(PathError::Authority) } else { Ok(()) }
}

/// Returns an error for a path that ends in a dot segment. This path was cut from a longer path;
/// servers that resolve it before and after the cut get different paths.
pub(super) fn ends_apart_from_dots(text: &[u8]) -> Result<(), PathError> {
    match segments(text).next_back() {
        Some(b"." | b"..") => Err(PathError::AmbiguousEnd),
        _ => Ok(()),
    }
}

/// Merges adjacent slashes.
pub(super) fn merge(path: &mut Vec<u8>) {
    path.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
}

/// Writes the path without its `;` parameters. Encoded `;` are not seen.
pub(super) fn without_raw_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, raw_parameter, path);
}

/// Writes the path without its `;` parameters, including those that an encoded `;` starts.
pub(super) fn without_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, parameter, path);
}

/// Returns an error if a segment with a `;`, raw or encoded, comes directly before or after a dot
/// segment, or has dots before, between or after its `;`, which are a dot segment to a server that
/// treats `;` as a separator. `plain` is overwritten.
pub(super) fn parameters_apart_from_dots(
    text: &[u8],
    plain: &mut Vec<u8>,
) -> Result<(), PathError> {
    reserved_decoded(text, plain);
    let (mut dots_before, mut parameter_before) = (false, false);
    for segment in segments(plain).filter(|segment| !segment.is_empty()) {
        let dots = segment.split(|byte| *byte == b';').any(|part| matches!(part, b"." | b".."));
        let parameter = raw_parameter(segment).is_some();
        if (dots || dots_before) && (parameter || parameter_before) {
            return Err(PathError::AmbiguousParameter);
        }
        (dots_before, parameter_before) = (dots, parameter);
    }
    Ok(())
}

/// Returns an error if a segment of `decoded` is a dot segment and was none in `text`, from which
/// it was decoded.
pub(super) fn reveals_no_dots(text: &[u8], decoded: &[u8]) -> Result<(), PathError> {
    let mut pairs = segments(text).zip(segments(decoded));
    let reveals = pairs.any(|(before, after)| is_dotted(after) && !is_dotted(before));
    if reveals { Err(PathError::NestedEncoding) } else { Ok(()) }
}

/// Whether a segment is a dot segment, possibly with a `;` parameter after the dots.
fn is_dotted(segment: &[u8]) -> bool {
    matches!(segment.get(..parameter(segment).unwrap_or(segment.len())), Some(b"." | b".."))
}

/// Removes dot segments (RFC 3986, 5.2.4), except that climbing above the root is an error.
fn without_dots<'a>(
    segments: impl Iterator<Item = &'a [u8]>,
    path: &mut Vec<u8>,
) -> Result<(), PathError> {
    path.clear();
    let mut ends_in_dots = false;
    for segment in segments {
        ends_in_dots = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => path
                .truncate(path.iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?),
            _ => {
                path.push(b'/');
                path.extend_from_slice(segment);
            }
        }
    }
    if ends_in_dots {
        path.push(b'/');
    }
    Ok(())
}

/// The segments of the path with its adjacent slashes merged. Only the last may be empty.
fn merged_segments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut segments = segments(text).peekable();
    std::iter::from_fn(move || {
        loop {
            let segment = segments.next()?;
            if !segment.is_empty() || segments.peek().is_none() {
                return Some(segment);
            }
        }
    })
}

/// The segments of an absolute path, each after a slash.
fn segments(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.strip_prefix(b"/").unwrap_or(text).split(|byte| *byte == b'/')
}

fn cut_segments(text: &[u8], parameter: impl Fn(&[u8]) -> Option<usize>, path: &mut Vec<u8>) {
    path.clear();
    for segment in segments(text) {
        path.push(b'/');
        path.extend_from_slice(
            segment.get(..parameter(segment).unwrap_or(segment.len())).unwrap_or(segment),
        );
    }
}

/// The offset of a segment's parameters, which start at a raw or encoded `;`.
fn parameter(segment: &[u8]) -> Option<usize> {
    let encoded = segment.windows(3).position(|three| three == b"%3B");
    raw_parameter(segment).into_iter().chain(encoded).min()
}

fn raw_parameter(segment: &[u8]) -> Option<usize> {
    segment.iter().position(|byte| *byte == b';')
}
