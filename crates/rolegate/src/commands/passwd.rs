//! `rolegate passwd`: sets the password of a user in a file of `user:hash` lines.

use std::collections::HashMap;
use std::path::Path;

use document::Problem;
use identity::HashAlgorithm;
use policy::htpasswd;
use policy::model::BasicUser;

use super::edited_file::{self, EditedFile, is_missing, line_ending, with_line};
use super::hash_password::{new_hash, with_default_cost};
use crate::cli::{Algorithm, PasswdArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Sets the password, and leaves the other lines as they are.
pub(crate) fn run(args: &PasswdArgs, output: &Output) -> Result<Exit, CommandError> {
    let PasswdArgs { file, user, hashing } = args;
    let users = if is_missing(file)? { Vec::new() } else { UsersFile::read(file, user)?.users };
    if !is_user_name(file, user) {
        return Err(CommandError::arguments(
            "a user name is not empty, has no `:` and no control character, and does not begin \
             with `#`",
        ));
    }
    let hash = new_hash(None, hashing, usual_algorithm(&users, user), output)?;
    let edited = EditedFile::lock(file, output)?;
    // Somebody else may have changed the file while the password was typed.
    let UsersFile { bytes, line, .. } = UsersFile::read(&edited.path, user)?;
    edited.replace(&replace_line(&bytes, line, &format!("{user}:{hash}")))?;
    output.line(if line.is_some() { "password changed" } else { "user added" });
    Ok(Exit::Success)
}

struct UsersFile {
    bytes: Vec<u8>,
    users: Vec<BasicUser>,
    /// The number of the user's line, from 1; `None` if there is none.
    line: Option<u32>,
}

impl UsersFile {
    fn read(file: &Path, user: &str) -> Result<Self, CommandError> {
        let bytes = edited_file::contents(file)?;
        let users = read_users(file, &bytes)?;
        let lines: Vec<u32> =
            users.iter().filter(|u| *u.name == *user).map(|user| user.at.line).collect();
        if lines.len() > 1 {
            let lines: Vec<_> = lines.iter().map(u32::to_string).collect();
            return Err(CommandError::policy(format_args!(
                "the user is in the lines {}: leave one of them",
                lines.join(", ")
            )));
        }
        Ok(Self { bytes, users, line: lines.first().copied() })
    }
}

/// The users of a file with these bytes, or its errors.
fn read_users(file: &Path, bytes: &[u8]) -> Result<Vec<BasicUser>, Vec<Problem>> {
    let (users, mut problems) = htpasswd::parse(file, bytes);
    problems.retain(|problem| !problem.is_warning());
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

/// Whether a user in the file can have this name. The parser says so: it reads a line with the name
/// and a made-up hash.
fn is_user_name(file: &Path, user: &str) -> bool {
    let users = read_users(file, format!("{user}:$6$x$y\n").as_bytes());
    users.is_ok_and(|users| users.iter().map(|user| &*user.name).eq([user]))
}

/// How this user's password is hashed; for a new user, the most frequent algorithm of the file, and
/// of equally frequent algorithms the first.
fn usual_algorithm(users: &[BasicUser], user: &str) -> Option<HashAlgorithm> {
    let is_new = users.iter().all(|u| *u.name != *user);
    let users = users.iter().filter(|u| is_new || *u.name == *user);
    let hashes = users.filter_map(|user| user.password.as_ref());
    let algorithms: Vec<_> = hashes.filter_map(|hash| strong_algorithm(&hash.0)).collect();
    let mut counts = HashMap::<HashAlgorithm, usize>::new();
    for algorithm in &algorithms {
        *counts.entry(*algorithm).or_default() += 1;
    }
    algorithms.iter().rev().max_by_key(|algorithm| counts.get(algorithm)).copied()
}

/// How a stored hash was made. If the hash is weak or slow, the cost is the default cost; `None` if
/// `--algorithm` does not have its algorithm. Always `None` for SHA-256-crypt.
fn strong_algorithm(hash: &str) -> Option<HashAlgorithm> {
    let (algorithm, is_weak_or_slow) = HashAlgorithm::from_hash(hash)?;
    let choice = match algorithm {
        HashAlgorithm::Argon2id { .. } => Some(Algorithm::Argon2id),
        HashAlgorithm::Bcrypt { .. } => Some(Algorithm::Bcrypt),
        HashAlgorithm::Pbkdf2Sha256 { .. } => Some(Algorithm::Pbkdf2Sha256),
        HashAlgorithm::Pbkdf2Sha512 { .. } | HashAlgorithm::Sha512Crypt { .. } => None,
        HashAlgorithm::Sha256Crypt { .. } => return None,
    };
    if is_weak_or_slow { choice.map(with_default_cost) } else { Some(algorithm) }
}

/// Puts `line` in the place of the line with this number, counted from 1, or at the end.
fn replace_line(bytes: &[u8], number: Option<u32>, line: &str) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    match number.and_then(|number| lines.get_mut((number as usize).checked_sub(1)?)) {
        Some(old) => {
            *old = format!("{line}{}", line_ending(old)).into_bytes();
            lines.concat()
        }
        None => with_line(bytes, line),
    }
}
