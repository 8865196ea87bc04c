//! A file of users and password hashes in the format of Apache's `htpasswd`: one `user:hash` per line.

use std::path::Path;

use crate::model::BasicUser;
use crate::parse::password;
use document::{Mark, Problem, Reader, Secret};

/// Parses such a file. Blank lines and lines that start with `#` are ignored; lines may end in CRLF. The result may
/// contain a user more than once. No problem shows the contents of a line.
#[must_use]
pub fn parse(file: &Path, bytes: &[u8]) -> (Vec<BasicUser>, Vec<Problem>) {
    let mut reader = Reader::new(file.into());
    let mut users = Vec::new();
    if let Some(format) = other_format(bytes) {
        let help = "name a text file of `user:hash` lines, as `htpasswd -B` writes it";
        reader.error_help(Mark { line: 1, column: 1 }, format!("the file is {format}"), help);
        return (users, reader.finish());
    }
    for (number, line) in (1_u32..).zip(bytes.split(|byte| *byte == b'\n')) {
        let at = Mark { line: number, column: 1 };
        match std::str::from_utf8(line) {
            Ok(line) => users.extend(user(&mut reader, at, line)),
            Err(_) => reader.error(at, "the line is not UTF-8"),
        }
    }
    (users, reader.finish())
}

/// What the file is, if it is not text: one message then, and not one for each of its lines.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    let formats: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "compressed (gzip)"),
        (b"\xfd7zXZ\0", "compressed (xz)"),
        (b"\x28\xb5\x2f\xfd", "compressed (zstd)"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"SQLite format 3\0", "an SQLite database"),
    ];
    let utf16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
    if utf16.iter().any(|mark| bytes.starts_with(mark)) {
        return Some("in UTF-16, and not in UTF-8");
    }
    let known = formats.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, format)| *format);
    known.or_else(|| bytes.contains(&0).then_some("binary, and not text"))
}

fn user(reader: &mut Reader, at: Mark, line: &str) -> Option<BasicUser> {
    let line = line.trim_start_matches('\u{feff}').trim_end();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let Some((name, hash)) = line.split_once(':') else {
        reader.error_help(at, "the line is not `user:hash`", "run `rolegate hash-password` for the hash");
        return None;
    };
    let named = password::is_user_name(reader, at, name);
    let at = at.right(name.chars().count() + 1);
    let hashed = password::check(reader, at, hash);
    let password = Some(Secret(hash.into()));
    (named && hashed).then(|| BasicUser {
        name: name.into(),
        password,
        groups: Vec::new(),
        at: reader.place(at),
    })
}
