//! `rolegate passwd`: sets the password of a user in a file of `user:hash` lines.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

use identity::HashAlgorithm;
use policy::htpasswd;
use policy::model::BasicUser;
use policy::problem::Severity;

use super::hash_password::new_hash;
use crate::cli::PasswdArgs;
use crate::exit::Exit;
use crate::output::{Output, problem_lines};

/// Sets the password, and leaves the other lines as they are.
pub(crate) fn passwd(args: &PasswdArgs, output: &mut Output<'_>) -> Exit {
    let PasswdArgs { file, user, hashing } = args;
    let bytes = match runtime::files::contents(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            output.error(&format!("cannot read `{}`: {error}; a new file may be empty", file.display()));
            return Exit::Failed;
        }
    };
    let users = match read_users(file, &bytes) {
        Ok(users) => users,
        Err(problems) => {
            output.error(&problems);
            return Exit::Policy;
        }
    };
    let lines: Vec<u32> =
        users.iter().filter(|known| *known.name == **user).map(|known| known.at.line).collect();
    if lines.len() > 1 {
        let lines: Vec<_> = lines.iter().map(u32::to_string).collect();
        output.error(&format!("the user is in the lines {}: leave one of them", lines.join(", ")));
        return Exit::Policy;
    }
    if !is_user_name(file, user) {
        output.error(
            "a user name is not empty, has no `:` and no control character, and does not begin with `#`",
        );
        return Exit::Arguments;
    }
    let hash = match new_hash(None, hashing, usual_algorithm(&users, user), output) {
        Ok(hash) => hash,
        Err(exit) => return exit,
    };
    let replaced = replace_line(&bytes, lines.first().copied(), &format!("{user}:{hash}"));
    if let Err(error) = replace_file(file, &replaced) {
        output.error(&format!("cannot replace `{}`, which is unchanged: {error}", file.display()));
        return Exit::Failed;
    }
    output.line(if lines.is_empty() { "user added" } else { "password changed" });
    Exit::Success
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

/// How most of the other users' passwords are hashed; if there are none, this user's. Of algorithms that are equally
/// frequent, the first.
fn usual_algorithm(users: &[BasicUser], user: &str) -> Option<HashAlgorithm> {
    let (own, others): (Vec<_>, Vec<_>) = users.iter().partition(|known| *known.name == *user);
    let users = if others.is_empty() { own } else { others };
    let hashes = users.iter().filter_map(|known| known.password.as_ref());
    let algorithms: Vec<_> = hashes.filter_map(|hash| HashAlgorithm::from_hash(&hash.0)).collect();
    let mut counts = HashMap::<HashAlgorithm, usize>::new();
    for algorithm in &algorithms {
        *counts.entry(*algorithm).or_default() += 1;
    }
    algorithms.iter().rev().max_by_key(|algorithm| counts.get(algorithm)).copied()
}

/// Puts `line` in the place of the line with this number, counted from 1, or at the end.
fn replace_line(bytes: &[u8], number: Option<u32>, line: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len() + line.len() + 2);
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
            result.push(b'\n');
        }
        result.extend_from_slice(line.as_bytes());
        result.push(b'\n');
    }
    result
}

/// Replaces the contents of a file in one step, so that a server never reads half of it. Its mode and its owner stay, so that
/// who could read it still can.
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
