//! The bearer tokens (RFC 6750) of the clients that may ask AuthZEN questions.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Fewer characters could be guessed.
const MIN_LENGTH: usize = 32;
/// Longer lines are no tokens: a key file may have been named by mistake.
const MAX_LENGTH: usize = 512;
const MAX_TOKENS: usize = 16;
const MAX_FILE: usize = 16 << 10;

/// The tokens in a file. The file is read again at an interval, and on request.
pub struct Tokens {
    file: PathBuf,
    active: Mutex<Active>,
    reload: Notify,
}

struct Active {
    digests: Vec<Digest>,
    /// Why the last reading failed; `None` if it succeeded. An error that repeats is logged once.
    error: Option<TokensError>,
}

/// Why a file of tokens cannot be used. The message shows no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`--authzen-tokens`: cannot use `{}`: {why}", file.display())]
pub struct TokensError {
    file: PathBuf,
    why: String,
}

impl Tokens {
    /// Reads the tokens in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has no token, too many tokens, or a line that is not a token
    /// of a permitted length.
    pub fn load(file: PathBuf) -> Result<Self, TokensError> {
        let digests = read(&file)?;
        let active = Mutex::new(Active { digests, error: None });
        Ok(Self { file, active, reload: Notify::new() })
    }

    /// Has the file read again soon.
    pub fn request_reload(&self) {
        self.reload.notify_one();
    }

    /// Reads the file again at this interval, and when it is requested. Never ends.
    pub(super) async fn keep_current(self: std::sync::Arc<Self>, interval: Duration) {
        loop {
            let _ = timeout(interval, self.reload.notified()).await;
            let this = std::sync::Arc::clone(&self);
            // Reading a file can block.
            let _ = tokio::task::spawn_blocking(move || this.reload()).await;
        }
    }

    fn reload(&self) {
        let read = read(&self.file);
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(digests) => {
                let is_new = !equal(&digests, &active.digests);
                if is_new || active.error.is_some() {
                    tracing::info!("the tokens of AuthZEN were loaded again");
                }
                *active = Active { digests, error: None };
            }
            Err(error) if active.error.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::error!(%error, "the last good tokens of AuthZEN stay in use");
                active.error = Some(error);
            }
        }
    }

    /// Whether a token is among these. This takes the same time for every wrong token of a length,
    /// so the time does not help to guess a token character by character.
    pub(super) fn has(&self, token: &[u8]) -> bool {
        let digest_of_token = digest(&SHA256, token);
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.digests.iter().fold(false, |found, known| {
            verify_slices_are_equal(known.as_ref(), digest_of_token.as_ref()).is_ok() | found
        })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("file", &self.file).finish_non_exhaustive()
    }
}

fn equal(some: &[Digest], others: &[Digest]) -> bool {
    some.iter().map(Digest::as_ref).eq(others.iter().map(Digest::as_ref))
}

fn read(file: &std::path::Path) -> Result<Vec<Digest>, TokensError> {
    let fail = |why: String| TokensError { file: file.to_owned(), why };
    let bytes = runtime::files::bytes(file, MAX_FILE).map_err(|error| fail(error.to_string()))?;
    parse(&bytes).map_err(fail)
}

fn parse(bytes: &[u8]) -> Result<Vec<Digest>, String> {
    let mut digests = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let token = line.strip_suffix(b"\r").unwrap_or(line);
        if token.is_empty() {
            continue;
        }
        let is_character = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        if !token.iter().all(is_character) {
            let characters = "letters, digits and `-._~+/=`";
            return Err(format!("line {number} is not a token, which has {characters} only"));
        }
        if token.len() < MIN_LENGTH || token.len() > MAX_LENGTH {
            let help = "`openssl rand -hex 32` prints one";
            let bounds = format!("{MIN_LENGTH} to {MAX_LENGTH} characters");
            return Err(format!("the token in line {number} does not have {bounds}: {help}"));
        }
        digests.push(digest(&SHA256, token));
    }
    match digests.len() {
        0 => Err("it has no token".to_owned()),
        1..=MAX_TOKENS => Ok(digests),
        _ => Err(format!("it has more than {MAX_TOKENS} tokens")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const TWO: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn only_whole_tokens_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, format!("{ONE}\r\n\n{TWO}")).unwrap();
        let tokens = Tokens::load(file.clone()).unwrap();
        assert!(tokens.has(ONE.as_bytes()) && tokens.has(TWO.as_bytes()));
        for other in
            ["", "\r", ONE.strip_prefix("0").unwrap(), &format!("{ONE} "), &ONE.to_uppercase()]
        {
            assert!(!tokens.has(other.as_bytes()), "{other}");
        }
        std::fs::write(&file, TWO).unwrap();
        tokens.reload();
        assert!(!tokens.has(ONE.as_bytes()) && tokens.has(TWO.as_bytes()));
        // The last good tokens stay.
        for wrong in ["", "short"] {
            std::fs::write(&file, wrong).unwrap();
            tokens.reload();
            assert!(tokens.has(TWO.as_bytes()) && !tokens.has(wrong.as_bytes()));
        }
        assert!(!format!("{tokens:?}").contains(TWO));
    }

    #[test]
    fn a_wrong_file_is_an_error_that_shows_no_token() {
        let many = format!("{ONE}\n").repeat(MAX_TOKENS + 1);
        let long = "a".repeat(MAX_LENGTH + 1);
        let secret = "hunter2";
        for (text, why) in [
            ("", "no token"),
            ("\n \n", "line 2 is not a token"),
            (secret, "line 1 does not have 32 to 512 characters"),
            ("-----BEGIN KEY-----", "line 1 is not a token"),
            (&long, "line 1 does not have"),
            (&many, "more than 16"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(why) && !error.contains(secret), "{error}");
        }
    }
}
