//! A file of users and password hashes in the format of Apache's `htpasswd`: one `user:hash` per
//! line.

use std::path::Path;

use crate::model::BasicUser;
use crate::parse::values;
use document::{Mark, Problem, Reader, Secret};

/// Parses such a file. Blank lines and lines that start with `#` are ignored; lines may end in
/// CRLF. The result may contain a user more than once. No problem shows the contents of a line.
#[must_use]
pub fn parse(file: &Path, bytes: &[u8]) -> (Vec<BasicUser>, Vec<Problem>) {
    let mut reader = Reader::new(file.into());
    let mut users = Vec::new();
    // A binary file gets a single message, not a message for each line.
    if bytes.contains(&0) {
        let help = "name a text file of `user:hash` lines, as `htpasswd -B` writes it";
        reader.error_help(Mark::START, "the file is not text", help);
        return (users, reader.finish());
    }
    for (number, line) in (1_u32..).zip(bytes.split(|byte| *byte == b'\n')) {
        let at = Mark { line: number, column: 1 };
        match std::str::from_utf8(line) {
            Ok(line) => users.extend(read_user(&mut reader, at, line)),
            Err(_) => reader.error(at, "the line is not UTF-8"),
        }
    }
    (users, reader.finish())
}

fn read_user(reader: &mut Reader, at: Mark, line: &str) -> Option<BasicUser> {
    let line = line.trim_start_matches('\u{feff}').trim_end();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let Some((name, hash)) = line.split_once(':') else {
        let help = "run `rolegate hash-password` for the hash";
        return reader.reject(at, "the line is not `user:hash`", help);
    };
    let has_name = values::is_user_name(reader, at, name);
    let at = at.right(name.chars().count() + 1);
    let has_hash = values::is_hash(reader, at, hash);
    let (password, at) = (Some(Secret(hash.into())), reader.place(at));
    (has_name && has_hash).then(|| BasicUser {
        name: name.into(),
        password,
        groups: Vec::new(),
        at,
    })
}
