//! `rolegate new-api-key`: adds an API key to a file of keys, and prints it.

use std::path::Path;

use document::{Place, Problem};
use identity::NewApiKey;
use policy::model::ApiKey;
use policy::{api_keys, written};

use super::edited_file::{EditedFile, with_line};
use crate::cli::NewApiKeyArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Adds the key, and leaves the other entries and comments as they are.
pub(crate) fn run(args: &NewApiKeyArgs, output: &Output) -> Result<Exit, CommandError> {
    let NewApiKeyArgs { user, groups, expires, file } = args;
    if ![user].into_iter().chain(groups).all(|name| is_name(name)) {
        return Err(CommandError::arguments(
            "the names of users and groups are not empty and have no control character",
        ));
    }
    if expires.as_deref().is_some_and(|text| api_keys::parse_expiry(text).is_none()) {
        return Err(CommandError::arguments(
            "`--expires` takes the last day in UTC, such as `2027-01-31`, or a time, such as \
             `2027-01-31T18:00:00Z`",
        ));
    }
    let expiry = expires.as_deref().and_then(api_keys::parse_expiry);
    if expiry.is_some_and(|expiry| expiry <= runtime::clock::now()) {
        return Err(CommandError::arguments(
            "`--expires` is in the past: the key would never work",
        ));
    }
    let new = NewApiKey::random().ok_or_else(|| {
        CommandError::failed("the system's random number generator failed, so there is no key")
    })?;
    let entry = written::api_key(&new.id, new.hash, (user, groups), expires.as_deref());
    let edited = EditedFile::lock(file, output)?;
    let bytes = with_entry(file, &edited.contents()?, &entry)?;
    edited.replace(&bytes)?;
    // The key is printed last, so that each printed key is in the file.
    output.line(&*new.key);
    Ok(Exit::Success)
}

/// The contents of a file of keys with another entry at the end.
fn with_entry(file: &Path, bytes: &[u8], entry: &str) -> Result<Vec<u8>, CommandError> {
    if bytes.split(|byte| *byte == b'\n').all(is_blank) {
        return Ok(with_line(&with_line(bytes, "keys:"), &format!("  {entry}")));
    }
    let before = read(file, bytes)?;
    let edited = match before.first() {
        Some(ApiKey { at, .. }) => {
            let indentation = indentation(bytes, at).ok_or_else(|| in_braces(file))?;
            with_line(bytes, &format!("{indentation}{entry}"))
        }
        None => with_line(&without_braces(bytes), &format!("  {entry}")),
    };
    // This fails if the user has another key with other groups.
    let after = read(file, &edited)?;
    let are_kept =
        before.iter().zip(&after).all(|(old, new)| (&old.id, old.hash) == (&new.id, new.hash));
    if are_kept && after.len() == before.len() + 1 { Ok(edited) } else { Err(in_braces(file)) }
}

/// The error for a file whose entries are between braces.
fn in_braces(file: &Path) -> CommandError {
    CommandError::policy(format_args!(
        "cannot add a key to `{}`, which is unchanged: write `keys:`, and below it each entry on \
         lines of its own",
        file.display()
    ))
}

/// The spaces from the start of the line to this place; `None` if there is anything else.
fn indentation(bytes: &[u8], at: &Place) -> Option<String> {
    let line = bytes.split(|byte| *byte == b'\n').nth((at.line as usize).checked_sub(1)?)?;
    let before = line.get(..(at.column as usize).checked_sub(1)?)?;
    let is_blank = before.iter().all(|byte| *byte == b' ');
    is_blank.then(|| String::from_utf8_lossy(before).into_owned())
}

fn read(file: &Path, bytes: &[u8]) -> Result<Vec<ApiKey>, Vec<Problem>> {
    let (keys, mut problems) = api_keys::parse(file, bytes);
    problems.retain(|problem| !problem.is_warning());
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// Whether a line is empty or a comment.
fn is_blank(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty() || line.starts_with(b"#")
}

/// The bytes without the `{}` of `keys: {}`.
fn without_braces(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines
        .flat_map(|line| {
            line.strip_prefix(b"keys: {}").map_or(vec![line], |end| vec![b"keys:", end])
        })
        .collect::<Vec<_>>()
        .concat()
}

/// Whether this can be the name of a user or a group.
fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.chars().any(char::is_control)
}
