//! `rolegate hash-password`: hashes a password for a policy.

use std::io::{self, BufRead, IsTerminal, Read};
use std::num::NonZeroU32;

use identity::{HashAlgorithm, HashPasswordError};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use crate::cli::{Algorithm, Format, HashArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Rounds of PBKDF2 with HMAC-SHA-256, as recommended by OWASP's password storage cheat sheet.
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).unwrap();
/// The cost of bcrypt: about a tenth of a second per hash.
const BCRYPT_COST: u32 = 11;
/// Maximum length of the line that is read, in bytes. A longer line is no password, and endless input must not take
/// all memory.
const MAX_LINE: u64 = 64 << 10;

/// Prints the hash of a password.
pub(crate) fn hash_password(args: &HashArgs, output: &mut Output<'_>) -> Exit {
    let password = match &args.password {
        Some(password) => {
            output.error("warning: other users can see a password in the arguments, and shells record it");
            password.clone()
        }
        None => match read_password(output) {
            Ok(password) => password,
            Err(error) => {
                output.error(&format!("cannot read the password: {error}"));
                return Exit::Failed;
            }
        },
    };
    match identity::hash_password(&password, with_parameters(args.algorithm)) {
        Ok(hash) => {
            match args.output {
                Format::Text => output.line(&hash),
                Format::Json => output.json(&json!({ "hash": hash })),
            }
            Exit::Success
        }
        Err(error) => {
            output.error(&error.to_string());
            match error {
                HashPasswordError::Unusable | HashPasswordError::TooLongForBcrypt => Exit::Arguments,
                HashPasswordError::Parameters | HashPasswordError::NoRandomness => Exit::Failed,
            }
        }
    }
}

fn with_parameters(algorithm: Algorithm) -> HashAlgorithm {
    match algorithm {
        Algorithm::Argon2id => HashAlgorithm::default(),
        Algorithm::Bcrypt => HashAlgorithm::Bcrypt { cost: BCRYPT_COST },
        Algorithm::Pbkdf2Sha256 => HashAlgorithm::Pbkdf2Sha256 { rounds: PBKDF2_ROUNDS },
    }
}

/// Reads the first line of standard input, without its line ending. A terminal does not show what is typed, so there it is
/// typed twice: the hash of a mistyped password locks its user out, and nobody can see why.
fn read_password(output: &mut Output<'_>) -> io::Result<String> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let _silence = Silence::new();
    let mut ask = |prompt| {
        output.prompt(prompt);
        let line = read_line();
        output.prompt("\n");
        line
    };
    let password = ask("password: ")?;
    if password.is_empty() || ask("password again: ")? == password {
        return Ok(password);
    }
    Err(io::Error::other("the two that were typed differ"))
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    let size = io::stdin().lock().take(MAX_LINE).read_line(&mut line)?;
    if u64::try_from(size).is_ok_and(|size| size >= MAX_LINE) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the line is longer than 64 KiB"));
    }
    let end = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(end);
    Ok(line)
}

/// Switches off the echo of a terminal until this is dropped.
struct Silence {
    before: Option<Termios>,
}

impl Silence {
    fn new() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &modes);
        }
        Self { before }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
