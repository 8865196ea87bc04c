//! `rolegate import`: a policy with the same answers as the configuration of another system, apart from listed exceptions.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use document::Problem;
use import::{Effect, Imported, Options};

use crate::cli::{ImportArgs, ImportFrom, ImportOptions};
use crate::exit::Exit;
use crate::output::Output;

/// The maximum size of a configuration.
const MAX_BYTES: u64 = 64 << 20;

/// Prints the policy, and on standard error what it does not have.
pub(crate) fn import(args: &ImportArgs, output: &mut Output<'_>) -> Exit {
    let options = match &args.from {
        ImportFrom::EnvoyRbac(args) => &args.import,
        ImportFrom::Istio(args) => &args.import,
    };
    match imported(&args.from) {
        Ok(imported) => print(&imported, options, output),
        Err(messages) => {
            messages.iter().for_each(|message| output.error(message));
            Exit::Policy
        }
    }
}

fn imported(from: &ImportFrom) -> Result<Imported, Vec<String>> {
    let options = |args: &ImportOptions| Options {
        allow_wider: args.allow_wider,
        audiences: args.audiences.clone(),
        ..Options::default()
    };
    let messages = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    match from {
        ImportFrom::EnvoyRbac(args) => {
            let options = Options { listener: args.listener.clone(), ..options(&args.import) };
            import::envoy_rbac(&args.file, &read(&args.file)?, &options).map_err(messages)
        }
        ImportFrom::Istio(args) => {
            let options = Options {
                namespace: args.namespace.clone(),
                root_namespace: args.root_namespace.clone(),
                labels: args.labels.clone(),
                ..options(&args.import)
            };
            let files = args.files.iter().map(|file| Ok((file.clone(), read(file)?)));
            import::istio(&files.collect::<Result<Vec<_>, Vec<String>>>()?, &options).map_err(messages)
        }
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, Vec<String>> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let source: &mut dyn Read =
            if file == Path::new("-") { &mut io::stdin() } else { &mut File::open(file)? };
        source.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let name = file.display();
    match read() {
        // What follows could be a policy that denies.
        Ok(bytes) if bytes.len() as u64 > MAX_BYTES => {
            Err(vec![format!("`{name}` is larger than {MAX_BYTES} bytes")])
        }
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(vec![format!("cannot read `{name}`: {error}")]),
    }
}

fn print(imported: &Imported, options: &ImportOptions, output: &mut Output<'_>) -> Exit {
    for note in &imported.notes {
        output.error(&note.to_string());
    }
    if imported.is_stricter() && !options.partial {
        output
            .error("no policy is printed, because it would be stricter: `--partial` prints it nevertheless");
        return Exit::Denied;
    }
    let text = text(imported);
    let Some(file) = &options.output else {
        for (name, key_set) in &imported.key_sets {
            output.error(&format!(
                "write this key set to the file `{name}` beside the policy, or use `--output`: {key_set}"
            ));
        }
        output.text(&text);
        return Exit::Success;
    };
    match write(file, &text, &imported.key_sets) {
        Ok(()) => Exit::Success,
        Err((file, error)) => {
            output.error(&format!("cannot write `{file}`: {error}"));
            Exit::Failed
        }
    }
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

/// Writes new files: none that exists is replaced. If one cannot be written, those before it are removed again.
fn write(file: &Path, text: &str, key_sets: &[(String, String)]) -> Result<(), (String, io::Error)> {
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
            return Err((file.display().to_string(), error));
        }
    }
    Ok(())
}
