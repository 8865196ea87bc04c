//! `rolegate import`: a policy with the same answers as the configuration of another system, apart
//! from listed exceptions.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use import::{Effect, Imported, Options};

use super::input;
use crate::cli::{ImportArgs, ImportFrom, ImportOptions};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints the policy, and on standard error the differences from the original.
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
    input::read(file).map_err(|error| {
        CommandError::policy(format_args!("cannot read `{}`: {error}", file.display()))
    })
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
        output.error(
            "no policy is printed, because it would be stricter: `--partial` prints it nevertheless",
        );
        return Ok(Exit::No);
    }
    let text = text(imported);
    if let Some(file) = &options.output {
        write(file, &text, &imported.key_sets)?;
        return Ok(Exit::Success);
    }
    for (name, key_set) in &imported.key_sets {
        output.error(format_args!(
            "write this key set to the file `{name}` beside the policy, or use `--output`: \
             {key_set}"
        ));
    }
    output.text(&text);
    Ok(Exit::Success)
}

/// The policy, after comments with the differences.
fn text(imported: &Imported) -> String {
    let notes = imported.notes.iter().filter(|note| note.effect != Effect::Same);
    notes.map(|note| format!("# {note}\n")).collect::<String>() + &imported.policy
}

/// Writes new files and replaces none. If a file cannot be written, every file that was created is
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
            for created_file in &created {
                // If this fails, the next import reports that the file exists.
                let _ = fs::remove_file(created_file);
            }
            let file = file.display();
            return Err(CommandError::failed(format_args!("cannot write `{file}`: {error}")));
        }
    }
    Ok(())
}
