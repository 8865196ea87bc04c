//! `rolegate hash-password`: hashes a password for a policy.

use std::io::{self, IsTerminal};
use std::mem::discriminant;
use std::num::NonZeroU32;

use identity::{HashAlgorithm, HashPasswordError};
use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::input::read_line;
use crate::cli::{Algorithm, Format, HashArgs, HashingArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Rounds of PBKDF2 with HMAC-SHA-256, as recommended by OWASP's password storage cheat sheet.
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).unwrap();
/// The cost of bcrypt: about a tenth of a second per hash.
const BCRYPT_COST: u32 = 11;

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

/// The hash of this password, or of a password that is read. Without `--algorithm` the algorithm is
/// that of `usual`. Without `--cost` the cost is that of `usual` too, if the algorithm is the same.
/// Otherwise the defaults apply.
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
    let algorithm = match &args.cost {
        Some(cost) => with_cost(chosen, cost).ok_or_else(|| wrong_cost(chosen))?,
        None => chosen,
    };
    let password = match password {
        Some(password) => password,
        None => read_password(output).map_err(|error| {
            CommandError::failed(format_args!("cannot read the password: {error}"))
        })?,
    };
    identity::hash_password(&password, algorithm).map_err(|error| match error {
        HashPasswordError::Parameters => wrong_cost(algorithm),
        HashPasswordError::Unusable | HashPasswordError::TooLongForBcrypt => {
            CommandError::arguments(error)
        }
        HashPasswordError::NoRandomness => CommandError::failed(error),
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
            let (memory, passes_and_lanes) = cost.strip_prefix("m=")?.split_once(",t=")?;
            let (passes, lanes) = passes_and_lanes.split_once(",p=")?;
            HashAlgorithm::Argon2id {
                memory: memory.parse().ok()?,
                passes: passes.parse().ok()?,
                lanes: lanes.parse().ok()?,
            }
        }
        HashAlgorithm::Bcrypt { .. } => HashAlgorithm::Bcrypt { cost: number?.get() },
        HashAlgorithm::Pbkdf2Sha256 { .. } => HashAlgorithm::Pbkdf2Sha256 { rounds: number? },
        HashAlgorithm::Pbkdf2Sha512 { .. } => HashAlgorithm::Pbkdf2Sha512 { rounds: number? },
        HashAlgorithm::Sha256Crypt { .. } => HashAlgorithm::Sha256Crypt { rounds: number?.get() },
        HashAlgorithm::Sha512Crypt { .. } => HashAlgorithm::Sha512Crypt { rounds: number?.get() },
    })
}

fn wrong_cost(algorithm: HashAlgorithm) -> CommandError {
    let syntax = match algorithm {
        HashAlgorithm::Argon2id { .. } => {
            "argon2id takes a cost such as `m=19456,t=2,p=1` (memory in KiB, passes, lanes), \
             within what a policy accepts"
        }
        HashAlgorithm::Bcrypt { .. } => "bcrypt takes a number from 4 to 16",
        HashAlgorithm::Pbkdf2Sha256 { .. } | HashAlgorithm::Pbkdf2Sha512 { .. } => {
            "PBKDF2 takes a number of rounds that a policy accepts, such as 600000"
        }
        HashAlgorithm::Sha256Crypt { .. } | HashAlgorithm::Sha512Crypt { .. } => {
            "SHA-crypt takes a number of rounds from 1000 to 10000000"
        }
    };
    CommandError::arguments(format_args!("`--cost`: {syntax}"))
}

/// Reads the first line of standard input. A terminal does not show the password, so it is typed
/// twice there: otherwise nobody would notice a typing error.
fn read_password(output: &Output) -> io::Result<String> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let _silence = Silence::new();
    let password = prompt("password: ", output)?;
    // An empty password is refused later, so it is not typed again.
    if password.is_empty() || prompt("password again: ", output)? == password {
        return Ok(password);
    }
    Err(io::Error::other("the two passwords differ"))
}

fn prompt(text: &str, output: &Output) -> io::Result<String> {
    output.prompt(text);
    let line = read_line();
    output.prompt("\n");
    line
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

/// Restores the echo when `^C` ends the program at the prompt: otherwise the shell would not show
/// what is typed.
fn end_when_interrupted(before: Termios) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut interrupts = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
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
