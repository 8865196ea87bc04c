//! `rolegate passwd`: sets the password of a user in a file of `user:hash` lines.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

use document::Severity;
use identity::HashAlgorithm;
use policy::htpasswd;
use policy::model::BasicUser;

use super::hash_password::{new_hash, with_default_cost};
use crate::cli::{Algorithm, PasswdArgs};
use crate::exit::Exit;
use crate::output::{Output, problem_lines};

/// Sets the password, and leaves the other lines as they are.
pub(crate) fn passwd(args: &PasswdArgs, output: &mut Output<'_>) -> Exit {
    match set_password(args, output) {
        Ok(done) => {
            output.line(done);
            Exit::Success
        }
        Err(exit) => exit,
    }
}

fn set_password(args: &PasswdArgs, output: &mut Output<'_>) -> Result<&'static str, Exit> {
    let PasswdArgs { file, user, hashing } = args;
    let UsersFile { users, .. } = UsersFile::read(file, user, output)?;
    if !is_user_name(file, user) {
        output.error(
            "a user name is not empty, has no `:` and no control character, and does not begin with `#`",
        );
        return Err(Exit::Arguments);
    }
    let hash = new_hash(None, hashing, usual_algorithm(&users, user), output)?;
    let fail = |output: &mut Output<'_>, error: io::Error| {
        output.error(&format!("cannot replace `{}`, which is unchanged: {error}", file.display()));
        Exit::Failed
    };
    // Somebody else may have changed the file while the password was typed.
    let _locked = lock_folder(file).map_err(|error| fail(output, error))?;
    let UsersFile { bytes, line, .. } = UsersFile::read(file, user, output)?;
    let replaced = replace_line(&bytes, line, &format!("{user}:{hash}"));
    replace_file(file, &replaced).map_err(|error| fail(output, error))?;
    Ok(if line.is_some() { "password changed" } else { "user added" })
}

struct UsersFile {
    bytes: Vec<u8>,
    users: Vec<BasicUser>,
    /// The number of the user's line, from 1; `None` if there is none.
    line: Option<u32>,
}

impl UsersFile {
    /// # Errors
    /// The exit code, after a message.
    fn read(file: &Path, user: &str, output: &mut Output<'_>) -> Result<Self, Exit> {
        let bytes = runtime::files::contents(file).map_err(|error| {
            let help = if file.exists() { "" } else { ": create it first, empty" };
            output.error(&format!("cannot read `{}`: {error}{help}", file.display()));
            Exit::Failed
        })?;
        let users = read_users(file, &bytes).map_err(|problems| {
            output.error(&problems);
            Exit::Policy
        })?;
        let lines: Vec<u32> =
            users.iter().filter(|known| *known.name == *user).map(|known| known.at.line).collect();
        if lines.len() > 1 {
            let lines: Vec<_> = lines.iter().map(u32::to_string).collect();
            output.error(&format!("the user is in the lines {}: leave one of them", lines.join(", ")));
            return Err(Exit::Policy);
        }
        Ok(Self { bytes, users, line: lines.first().copied() })
    }
}

/// Locks the folder of a file against other `rolegate passwd`. The file itself is replaced by another one.
fn lock_folder(file: &Path) -> io::Result<fs::File> {
    let file = fs::canonicalize(file)?;
    let folder = fs::File::open(file.parent().unwrap_or(Path::new("/")))?;
    folder.lock()?;
    Ok(folder)
}

/// The users of such a file, or its problems.
fn read_users(file: &Path, bytes: &[u8]) -> Result<Vec<BasicUser>, String> {
    let (users, problems) = htpasswd::parse(file, bytes);
    let errors: Vec<_> = problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect();
    if errors.is_empty() { Ok(users) } else { Err(problem_lines(&errors)) }
}

/// Whether a line of this user would be read as such.
fn is_user_name(file: &Path, user: &str) -> bool {
    let users = read_users(file, format!("{user}:$6$x$y\n").as_bytes());
    users.is_ok_and(|users| users.iter().map(|read| &*read.name).eq([user]))
}

/// How this user's password is hashed; of a new user, how most of the others are. Of algorithms that are equally frequent, the
/// first.
fn usual_algorithm(users: &[BasicUser], user: &str) -> Option<HashAlgorithm> {
    let (own, others): (Vec<_>, Vec<_>) = users.iter().partition(|known| *known.name == *user);
    let users = if own.is_empty() { others } else { own };
    let hashes = users.iter().filter_map(|known| known.password.as_ref());
    let algorithms: Vec<_> = hashes.filter_map(|hash| strong_algorithm(&hash.0)).collect();
    let mut counts = HashMap::<HashAlgorithm, usize>::new();
    for algorithm in &algorithms {
        *counts.entry(*algorithm).or_default() += 1;
    }
    algorithms.iter().rev().max_by_key(|algorithm| counts.get(algorithm)).copied()
}

/// How a stored hash was made, with the default cost if its own is weak.
fn strong_algorithm(hash: &str) -> Option<HashAlgorithm> {
    match HashAlgorithm::from_hash(hash)? {
        (algorithm, false) => Some(algorithm),
        (HashAlgorithm::Bcrypt { .. }, true) => Some(with_default_cost(Algorithm::Bcrypt)),
        (HashAlgorithm::Pbkdf2Sha256 { .. }, true) => Some(with_default_cost(Algorithm::Pbkdf2Sha256)),
        (HashAlgorithm::Argon2id { .. }, true) => Some(with_default_cost(Algorithm::Argon2id)),
        (HashAlgorithm::Pbkdf2Sha512 { .. } | HashAlgorithm::Sha512Crypt { .. }, true) => None,
    }
}

/// Puts `line` in the place of the line with this number, counted from 1, or at the end.
fn replace_line(bytes: &[u8], number: Option<u32>, line: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len() + line.len() + 2);
    let usual_ending: &[u8] = if bytes.windows(2).any(|pair| pair == b"\r\n") { b"\r\n" } else { b"\n" };
    for (each, old) in (1_u32..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        if Some(each) == number {
            result.extend_from_slice(line.as_bytes());
            let ending: &[u8] = if old.ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
            result.extend_from_slice(ending);
        } else {
            result.extend_from_slice(old);
        }
    }
    if number.is_none() {
        if !result.is_empty() && !result.ends_with(b"\n") {
            result.extend_from_slice(usual_ending);
        }
        result.extend_from_slice(line.as_bytes());
        result.extend_from_slice(usual_ending);
    }
    result
}

/// Replaces the contents of a file in one step, so that a server never reads half of it. Its mode and its owner stay.
fn replace_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // Not the link to it.
    let file = fs::canonicalize(file)?;
    let before = fs::metadata(&file)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".passwd-").tempfile_in(folder)?;
    new.write_all(bytes)?;
    let created = new.as_file().metadata()?;
    if (created.uid(), created.gid()) != (before.uid(), before.gid()) {
        fchown(new.as_file(), Some(before.uid()), Some(before.gid())).map_err(|error| {
            io::Error::new(error.kind(), format!("run it as the owner of the file: {error}"))
        })?;
    }
    new.as_file().set_permissions(before.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}
