//! `rolegate hash-password`: hashes a password for a policy.

use std::io::{self, BufRead, IsTerminal, Read};
use std::mem::discriminant;
use std::num::NonZeroU32;

use identity::{HashAlgorithm, HashPasswordError};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use crate::cli::{Algorithm, Format, HashArgs, HashingArgs};
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
    let password = args.password.clone();
    if password.is_some() {
        output.error("warning: other users can see a password in the arguments, and shells record it");
    }
    match new_hash(password, &args.hashing, None, output) {
        Ok(hash) => {
            match args.output {
                Format::Text => output.line(&hash),
                Format::Json => output.json(&json!({ "hash": hash })),
            }
            Exit::Success
        }
        Err(exit) => exit,
    }
}

/// The hash of this password, or one that is read. `usual` is how it is hashed unless the arguments say otherwise.
///
/// # Errors
/// The exit code, after a message.
pub(super) fn new_hash(
    password: Option<String>,
    args: &HashingArgs,
    usual: Option<HashAlgorithm>,
    output: &mut Output<'_>,
) -> Result<String, Exit> {
    let chosen = match args.algorithm.map(with_default_cost) {
        None => usual.unwrap_or_default(),
        Some(chosen) => usual.filter(|usual| discriminant(usual) == discriminant(&chosen)).unwrap_or(chosen),
    };
    let algorithm = args.cost.as_ref().map_or(Some(chosen), |cost| with_cost(chosen, cost));
    let algorithm = algorithm.ok_or_else(|| report_error(HashPasswordError::Parameters, chosen, output))?;
    let password = password.map_or_else(|| read_password(output), Ok).map_err(|error| {
        output.error(&format!("cannot read the password: {error}"));
        Exit::Failed
    })?;
    identity::hash_password(&password, algorithm).map_err(|error| report_error(error, chosen, output))
}

fn report_error(error: HashPasswordError, algorithm: HashAlgorithm, output: &mut Output<'_>) -> Exit {
    match error {
        HashPasswordError::Parameters => {
            output.error(&format!("`--cost`: {}", cost_syntax(algorithm)));
            Exit::Arguments
        }
        HashPasswordError::Unusable | HashPasswordError::TooLongForBcrypt => {
            output.error(&error.to_string());
            Exit::Arguments
        }
        HashPasswordError::NoRandomness => {
            output.error(&error.to_string());
            Exit::Failed
        }
    }
}

pub(super) const fn with_default_cost(algorithm: Algorithm) -> HashAlgorithm {
    match algorithm {
        Algorithm::Argon2id => HashAlgorithm::Argon2id { memory: 19_456, passes: 2, lanes: 1 },
        Algorithm::Bcrypt => HashAlgorithm::Bcrypt { cost: BCRYPT_COST },
        Algorithm::Pbkdf2Sha256 => HashAlgorithm::Pbkdf2Sha256 { rounds: PBKDF2_ROUNDS },
    }
}

fn with_cost(algorithm: HashAlgorithm, cost: &str) -> Option<HashAlgorithm> {
    let number = cost.parse::<NonZeroU32>().ok();
    Some(match algorithm {
        HashAlgorithm::Argon2id { .. } => {
            let (memory, rest) = cost.strip_prefix("m=")?.split_once(",t=")?;
            let (passes, lanes) = rest.split_once(",p=")?;
            HashAlgorithm::Argon2id {
                memory: memory.parse().ok()?,
                passes: passes.parse().ok()?,
                lanes: lanes.parse().ok()?,
            }
        }
        HashAlgorithm::Bcrypt { .. } => HashAlgorithm::Bcrypt { cost: number?.get() },
        HashAlgorithm::Pbkdf2Sha256 { .. } => HashAlgorithm::Pbkdf2Sha256 { rounds: number? },
        HashAlgorithm::Pbkdf2Sha512 { .. } => HashAlgorithm::Pbkdf2Sha512 { rounds: number? },
        HashAlgorithm::Sha512Crypt { .. } => HashAlgorithm::Sha512Crypt { rounds: number?.get() },
    })
}

const fn cost_syntax(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Argon2id { .. } => {
            "argon2id takes one such as `m=19456,t=2,p=1` (memory in KiB, passes, lanes), within what a policy accepts"
        }
        HashAlgorithm::Bcrypt { .. } => "bcrypt takes a number from 4 to 16",
        HashAlgorithm::Pbkdf2Sha256 { .. } | HashAlgorithm::Pbkdf2Sha512 { .. } => {
            "PBKDF2 takes a number of rounds that a policy accepts, such as 600000"
        }
        HashAlgorithm::Sha512Crypt { .. } => "SHA-crypt takes a number of rounds from 1000 to 10000000",
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
