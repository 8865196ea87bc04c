//! `rolegate hash-password`: hashes a password for a policy.

use std::io::{self, BufRead, IsTerminal, Read};
use std::mem::discriminant;
use std::num::NonZeroU32;

use identity::{HashAlgorithm, HashPasswordError};
use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Algorithm, Format, HashArgs, HashingArgs};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// Rounds of PBKDF2 with HMAC-SHA-256, as recommended by OWASP's password storage cheat sheet.
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).unwrap();
/// The cost of bcrypt: about a tenth of a second per hash.
const BCRYPT_COST: u32 = 11;
/// Maximum length of the line that is read, in bytes: endless input must not take all memory.
const MAX_LINE: u64 = 64 << 10;

/// Prints the hash of a password.
pub(crate) fn run(args: &HashArgs, output: &Output) -> Result<Exit, CommandError> {
    if args.password.is_some() {
        output.warning("other users can see a password in the arguments, and shells record it");
    }
    let hash = new_hash(args.password.clone(), &args.hashing, None, output)?;
    match args.output {
        Format::Text => output.line(hash),
        Format::Json => output.json(&json!({ "hash": hash })),
    }
    Ok(Exit::Success)
}

/// The hash of this password, or of a password that is read. Without arguments it has the algorithm
/// and the cost of `usual`.
pub(super) fn new_hash(
    password: Option<String>,
    args: &HashingArgs,
    usual: Option<HashAlgorithm>,
    output: &Output,
) -> Result<String, CommandError> {
    let chosen = match args.algorithm.map(with_default_cost) {
        None => usual.unwrap_or_default(),
        Some(chosen) => {
            usual.filter(|usual| discriminant(usual) == discriminant(&chosen)).unwrap_or(chosen)
        }
    };
    let wrong_cost = || CommandError::Arguments(format!("`--cost`: {}", cost_syntax(chosen)));
    let algorithm = match &args.cost {
        Some(cost) => with_cost(chosen, cost).ok_or_else(wrong_cost)?,
        None => chosen,
    };
    let password = match password {
        Some(password) => password,
        None => read_password(output)
            .map_err(|error| CommandError::Failed(format!("cannot read the password: {error}")))?,
    };
    identity::hash_password(&password, algorithm).map_err(|error| match error {
        HashPasswordError::Parameters => wrong_cost(),
        HashPasswordError::Unusable | HashPasswordError::TooLongForBcrypt => {
            CommandError::Arguments(error.to_string())
        }
        HashPasswordError::NoRandomness => CommandError::Failed(error.to_string()),
    })
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
        HashAlgorithm::Sha512Crypt { .. } => {
            "SHA-crypt takes a number of rounds from 1000 to 10000000"
        }
    }
}

/// Reads the first line of standard input, without its line ending. On a terminal, which does not
/// show it, the password is typed twice: a mistyped one locks its user out, and nobody can see why.
fn read_password(output: &Output) -> io::Result<String> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let _silence = Silence::new();
    let ask = |prompt| {
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

/// Switches off the echo of a terminal until this is dropped, or until the program is interrupted.
struct Silence {
    before: Option<Termios>,
}

impl Silence {
    fn new() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = before.clone() {
            let mut modes = before.clone();
            let _ = end_when_interrupted(before);
            modes.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &modes);
        }
        Self { before }
    }
}

/// Without this, `^C` at the prompt would leave a shell that shows nothing of what is typed.
fn end_when_interrupted(before: Termios) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut interrupts = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    std::thread::spawn(move || {
        runtime.block_on(interrupts.recv());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        std::process::exit(128 + Signal::INT.as_raw());
    });
    Ok(())
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
