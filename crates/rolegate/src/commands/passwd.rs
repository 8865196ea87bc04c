//! `rolegate passwd`: sets the password of a user in a file of `user:hash` lines.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

use document::Problem;
use identity::HashAlgorithm;
use policy::htpasswd;
use policy::model::BasicUser;

use super::hash_password::{new_hash, with_default_cost};
use crate::cli::{Algorithm, PasswdArgs};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// Sets the password, and leaves the other lines as they are.
pub(crate) fn run(args: &PasswdArgs, output: &Output) -> Result<Exit, CommandError> {
    let PasswdArgs { file, user, hashing } = args;
    let UsersFile { users, .. } = UsersFile::read(file, user)?;
    if !is_user_name(file, user) {
        let message = "a user name is not empty, has no `:` and no control character, and does not begin with `#`";
        return Err(CommandError::Arguments(message.to_owned()));
    }
    let hash = new_hash(None, hashing, usual_algorithm(&users, user), output)?;
    let fail = |error: io::Error| {
        CommandError::Failed(format!(
            "cannot replace `{}`, which is unchanged: {error}",
            file.display()
        ))
    };
    // Somebody else may have changed the file while the password was typed.
    let _locked = lock_folder(file).map_err(fail)?;
    let UsersFile { bytes, line, .. } = UsersFile::read(file, user)?;
    replace_file(file, &replace_line(&bytes, line, &format!("{user}:{hash}"))).map_err(fail)?;
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
        let bytes = runtime::files::contents(file).map_err(|error| {
            let help = if file.exists() { "" } else { ": create it first, empty" };
            CommandError::Failed(format!("cannot read `{}`: {error}{help}", file.display()))
        })?;
        let users = read_users(file, &bytes)?;
        let lines: Vec<u32> =
            users.iter().filter(|known| *known.name == *user).map(|known| known.at.line).collect();
        if lines.len() > 1 {
            let lines: Vec<_> = lines.iter().map(u32::to_string).collect();
            return Err(CommandError::Policy(format!(
                "the user is in the lines {}: leave one of them",
                lines.join(", ")
            )));
        }
        Ok(Self { bytes, users, line: lines.first().copied() })
    }
}

/// Locks the folder of a file against other `rolegate passwd`. The file itself is replaced by
/// another one.
fn lock_folder(file: &Path) -> io::Result<fs::File> {
    let file = fs::canonicalize(file)?;
    let folder = fs::File::open(file.parent().unwrap_or(Path::new("/")))?;
    folder.lock()?;
    Ok(folder)
}

/// The users of such a file, or its errors.
fn read_users(file: &Path, bytes: &[u8]) -> Result<Vec<BasicUser>, Vec<Problem>> {
    let (users, mut problems) = htpasswd::parse(file, bytes);
    problems.retain(|problem| !problem.is_warning());
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

/// Whether a line of this user would be read as such.
fn is_user_name(file: &Path, user: &str) -> bool {
    let users = read_users(file, format!("{user}:$6$x$y\n").as_bytes());
    users.is_ok_and(|users| users.iter().map(|read| &*read.name).eq([user]))
}

/// How this user's password is hashed; of a new user, how most of the others are. Of algorithms
/// that are equally frequent, the first.
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
        (HashAlgorithm::Pbkdf2Sha256 { .. }, true) => {
            Some(with_default_cost(Algorithm::Pbkdf2Sha256))
        }
        (HashAlgorithm::Argon2id { .. }, true) => Some(with_default_cost(Algorithm::Argon2id)),
        (HashAlgorithm::Pbkdf2Sha512 { .. } | HashAlgorithm::Sha512Crypt { .. }, true) => None,
    }
}

/// Puts `line` in the place of the line with this number, counted from 1, or at the end.
fn replace_line(bytes: &[u8], number: Option<u32>, line: &str) -> Vec<u8> {
    let ending_of = |line: &[u8]| if line.ends_with(b"\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    match number.and_then(|number| lines.get_mut((number as usize).checked_sub(1)?)) {
        Some(old) => *old = format!("{line}{}", ending_of(old)).into_bytes(),
        None => {
            let ending = lines.first().map_or("\n", |first| ending_of(first));
            if let Some(last) = lines.last_mut().filter(|last| !last.ends_with(b"\n")) {
                last.extend_from_slice(ending.as_bytes());
            }
            lines.push(format!("{line}{ending}").into_bytes());
        }
    }
    lines.concat()
}

/// Replaces the contents of a file in one step, so that a server never reads half of it. Its mode
/// and its owner stay.
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
