//! `rolegate import`: a policy with the same answers as the configuration of another system, apart
//! from listed exceptions.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use import::{Effect, Imported, Options};

use crate::cli::{ImportArgs, ImportFrom, ImportOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// The maximum size of a configuration.
const MAX_BYTES: u64 = 64 << 20;

/// Prints the policy, and on standard error what it does not have.
pub(crate) fn run(args: &ImportArgs, output: &Output) -> Result<Exit, CommandError> {
    let common = match &args.from {
        ImportFrom::EnvoyRbac(args) => &args.import,
        ImportFrom::Istio(args) => &args.import,
    };
    let options = Options {
        allow_wider: common.allow_wider,
        audiences: common.audiences.clone(),
        ..Options::default()
    };
    let imported = match &args.from {
        ImportFrom::EnvoyRbac(args) => {
            let options = Options { listener: args.listener.clone(), ..options };
            import::envoy_rbac(&args.file, &read(&args.file)?, &options)?
        }
        ImportFrom::Istio(args) => {
            let options = Options {
                namespace: args.namespace.clone(),
                root_namespace: args.root_namespace.clone(),
                labels: args.labels.clone(),
                ..options
            };
            let files = args.files.iter().map(|file| Ok((file.clone(), read(file)?)));
            import::istio(&files.collect::<Result<Vec<_>, CommandError>>()?, &options)?
        }
    };
    print(&imported, common, output)
}

/// The bytes of a file, or of standard input for `-`.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    let name = file.display();
    let mut bytes = Vec::new();
    let opened: io::Result<Box<dyn Read>> = match file == Path::new("-") {
        true => Ok(Box::new(io::stdin())),
        false => File::open(file).map(|file| Box::new(file) as Box<dyn Read>),
    };
    opened
        .and_then(|source| source.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| CommandError::Policy(format!("cannot read `{name}`: {error}")))?;
    // The bytes after the limit could be a policy that denies.
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CommandError::Policy(format!("`{name}` is larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

fn print(
    imported: &Imported,
    options: &ImportOptions,
    output: &Output,
) -> Result<Exit, CommandError> {
    for note in &imported.notes {
        output.error(note);
    }
    if imported.is_stricter() && !options.partial {
        output
            .error("no policy is printed, because it would be stricter: `--partial` prints it nevertheless");
        return Ok(Exit::Denied);
    }
    let text = text(imported);
    if let Some(file) = &options.output {
        write(file, &text, &imported.key_sets)?;
        return Ok(Exit::Success);
    }
    for (name, key_set) in &imported.key_sets {
        output.error(format_args!(
            "write this key set to the file `{name}` beside the policy, or use `--output`: {key_set}"
        ));
    }
    output.text(&text);
    Ok(Exit::Success)
}

/// The policy, after comments with the differences.
fn text(imported: &Imported) -> String {
    let mut text = String::new();
    for note in imported.notes.iter().filter(|note| note.effect != Effect::Same) {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "# {note}");
    }
    text + &imported.policy
}

/// Writes new files: none that exists is replaced. If one cannot be written, those before it are
/// removed again.
fn write(file: &Path, text: &str, key_sets: &[(String, String)]) -> Result<(), CommandError> {
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let key_sets = key_sets.iter().map(|(name, key_set)| (folder.join(name), key_set.as_str()));
    let mut created = Vec::new();
    for (file, text) in key_sets.chain([(file.to_owned(), text)]) {
        let written = File::create_new(&file).and_then(|mut open| {
            created.push(file.clone());
            open.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            for created in &created {
                // The next call names one that is left.
                let _ = fs::remove_file(created);
            }
            return Err(CommandError::Failed(format!(
                "cannot write `{}`: {error}",
                file.display()
            )));
        }
    }
    Ok(())
}
