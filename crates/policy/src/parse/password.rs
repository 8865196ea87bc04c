//! Checks of user names and password hashes that need no hashing. Neither is ever shown.

use document::{Mark, Reader, Warning};

/// Whether a hash looks like one. Its algorithm may still be unsupported; the password verifier checks that.
pub(crate) fn check(reader: &mut Reader, at: Mark, hash: &str) -> bool {
    if hash.starts_with(char::is_whitespace) {
        reader.error_help(at, "a space comes before the hash of the password", "leave the space out");
        return false;
    }
    if !is_like_a_hash(hash) {
        reader.error_help(
            at,
            "the password is not a hash",
            "run `rolegate hash-password` and write what it prints",
        );
        return false;
    }
    if hash.starts_with("{SHA}") {
        let help = "run `rolegate hash-password` and write what it prints";
        reader.warning_help(
            at,
            Warning::WeakHash,
            "`{SHA}` is a fast hash without a salt: who reads it finds the password",
            help,
        );
    }
    true
}

/// `$name$…` (crypt and PHC strings) or `{NAME}…` (RFC 2307, 5.3).
fn is_like_a_hash(hash: &str) -> bool {
    let word = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let of = |start: char, end: char| {
        let named = hash.strip_prefix(start).and_then(|hash| hash.split_once(end));
        named.is_some_and(|(name, rest)| word(name) && !rest.is_empty())
    };
    (of('$', '$') || of('{', '}')) && hash.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether this can be the user of a Basic header (RFC 7617, 2). It is not shown, because a password may follow the
/// colon.
pub(crate) fn is_user_name(reader: &mut Reader, at: Mark, name: &str) -> bool {
    let fault = if name.is_empty() {
        "a user name is empty"
    } else if name.contains(':') {
        "a user name has a `:` in it, which ends the name in a Basic header"
    } else if name.chars().any(char::is_control) {
        "a user name has a control character in it"
    } else {
        return true;
    };
    reader.error(at, fault);
    false
}
