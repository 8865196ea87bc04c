//! `rolegate bundle`: builds, signs, verifies and shows policy bundles.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bundle::{BuildError, Bundle, BundleError, KeyPair, PublicKey};
use document::Problem;
use identity::FetchedKeys;
use runtime::compiled_policy::{self, CompiledPolicy};
use runtime::settings::BundleSettings;
use runtime::{clock, files};
use serde_json::json;

use super::new_file::NewFile;
use super::policy_files::{MAX_KEY, MAX_SIZE, PolicyFiles, read_keys};
use crate::cli::{
    BundleArgs, BundleBuild, BundleCommand, BundleInspect, BundleNewKey, BundleSign, BundleVerify,
    Format,
};
use crate::error::{CommandError, Exit};
use crate::output::{Output, Report, counted};

/// Runs a subcommand.
pub(crate) fn run(args: &BundleArgs, output: &mut Output) -> Result<Exit, CommandError> {
    match &args.command {
        BundleCommand::Build(args) => build(args, output),
        BundleCommand::Sign(args) => sign(args, output),
        BundleCommand::Verify(args) => verify(args, output),
        BundleCommand::Inspect(args) => inspect(args, output),
        BundleCommand::NewKey(args) => new_key(args, output),
    }
}

/// The revision of a bundle that is built at this time: the milliseconds since 1970, because a
/// pipeline may build twice within a second.
///
/// If the clock is set to before 1970, `runtime::clock` returns `Duration::MAX`, which has too many
/// milliseconds. Then there is no revision. It is not `u64::MAX` instead, because no later bundle
/// could have a greater revision.
fn revision_at(now: Duration) -> Option<u64> {
    u64::try_from(now.as_millis()).ok()
}

fn build(args: &BundleBuild, output: &Output) -> Result<Exit, CommandError> {
    let policy_file = compiled_policy::policy_file(args.policy.get());
    let compiled = PolicyFiles::OnDisk(policy_file.clone()).load()?;
    let folder = policy_file.parent().unwrap_or(Path::new(""));
    let mut packed = BTreeMap::new();
    for file in &compiled.loaded.files {
        packed.insert(name_in_bundle(folder, &file.path)?, file.bytes.to_vec());
    }
    let cases = folder.join("cases.yaml");
    if cases.exists() {
        packed.insert("cases.yaml".to_owned(), read(&cases, MAX_SIZE)?);
    }
    let revision = args.revision.or_else(|| revision_at(clock::now())).ok_or_else(|| {
        CommandError::failed("the clock is set to before 1970: set it, or name the `--revision`")
    })?;
    let policy = name_in_bundle(folder, &policy_file)?;
    let bytes = bundle::build(&policy, revision, &packed)
        .map_err(|error| CommandError::failed_at(&args.out, error))?;
    let bundle = Bundle::open(&bytes, &[], MAX_SIZE as u64)
        .map_err(|error| CommandError::failed_at(&args.out, error))?;
    // This uses the files of the bundle alone. A policy that names files by absolute paths loads
    // from disk, but not from the bundle.
    if let Err(problems) = compile(&bundle) {
        output.failure(&problems.into());
        return Err(CommandError::policy(
            "the policy does not compile with only the files of the bundle",
        ));
    }
    if !args.force {
        check_replaceable(&args.out, &bundle)?;
    }
    write(&args.out, &bytes, output)?;
    warn_of_size(&args.out, &bundle, output);
    let (path, files) = (args.out.display(), counted(packed.len(), "file"));
    let id = &compiled.authorizer.revision().policy;
    output.line(format_args!("{path}: revision {revision}, {files}, policy {id}, not signed"));
    Ok(Exit::Success)
}

/// Warns if servers accept the bundle only with another `bundle-max-size`. The commands do not know
/// the settings of servers, and accept larger bundles.
fn warn_of_size(path: &Path, bundle: &Bundle, output: &Output) {
    let (size, max) = (bundle.manifest.size(), BundleSettings::default().max_size);
    if size > max as u64 {
        output.warning(format_args!(
            "{}: its files have {size} bytes: servers accept it only with a larger \
             `bundle-max-size`, which is {} MiB by default",
            path.display(),
            max >> 20
        ));
    }
}

/// Fails if `path` is a file that is neither an older bundle nor the same bundle: servers do not
/// replace a bundle by an older bundle.
fn check_replaceable(path: &Path, new: &Bundle) -> Result<(), CommandError> {
    if !path.is_file() {
        return Ok(());
    }
    let revision = new.manifest.revision;
    let problem = match Bundle::open(&read(path, MAX_SIZE)?, &[], MAX_SIZE as u64) {
        Err(_) => "the file exists and is not a bundle".to_owned(),
        Ok(old) if old.manifest.revision > revision => {
            format!("the bundle there is newer, of revision {}", old.manifest.revision)
        }
        Ok(old) if old.manifest.revision == revision && old.digest() != new.digest() => {
            format!(
                "a different bundle of revision {revision} is there, and servers replace a bundle \
                 only by one with a greater revision"
            )
        }
        Ok(_) => return Ok(()),
    };
    Err(CommandError::failed_at(path, format_args!("{problem}: `--force` replaces it")))
}

/// The name that a file gets in the bundle: its path from the folder of the policy.
fn name_in_bundle(folder: &Path, file: &Path) -> Result<String, CommandError> {
    path_below(folder, file).ok_or_else(|| {
        CommandError::policy(format_args!(
            "`{}` is not beside the policy or in a folder there: a bundle has no other files",
            file.display()
        ))
    })
}

/// The path of a file from a folder. `None` if the file is outside of the folder.
fn path_below(folder: &Path, file: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in file.strip_prefix(folder).ok()?.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = parts.pop()?,
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

fn sign(args: &BundleSign, output: &Output) -> Result<Exit, CommandError> {
    let pair = KeyPair::from_pem(&read(&args.key, MAX_KEY)?).map_err(|error| {
        CommandError::arguments(format_args!("{}: {error}", args.key.display()))
    })?;
    let id = pair.public_key().id();
    let bytes = read(&args.bundle, MAX_SIZE)?;
    let signed = bundle::sign(&bytes, &pair, MAX_SIZE as u64).map_err(|error| match error {
        BuildError::Bundle(_) => {
            CommandError::policy(format_args!("{}: {error}", args.bundle.display()))
        }
        BuildError::Files(_) | BuildError::Archive(_) => {
            CommandError::failed_at(&args.bundle, error)
        }
    })?;
    let to = args.out.as_ref().unwrap_or(&args.bundle);
    write(to, &signed, output)?;
    output.line(format_args!("{}: signed by the key {id}", to.display()));
    Ok(Exit::Success)
}

fn verify(args: &BundleVerify, output: &Output) -> Result<Exit, CommandError> {
    let keys = read_keys(&args.public_key)?;
    let bundle = open(&args.bundle, &read(&args.bundle, MAX_SIZE)?, &keys)?;
    warn_of_size(&args.bundle, &bundle, output);
    let revision = bundle.manifest.revision;
    let key = bundle.signed_by.map(|key| format!(", signed by the key {key}")).unwrap_or_default();
    output.line(format_args!("{}: revision {revision}{key}", args.bundle.display()));
    Ok(Exit::Success)
}

fn inspect(args: &BundleInspect, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let keys = read_keys(&args.public_keys.public_key)?;
    let bytes = read(&args.bundle, MAX_SIZE)?;
    let bundle = open(&args.bundle, &bytes, &[])?;
    // A bundle that is not accepted is shown, too: people look for the reason.
    let not_accepted = open(&args.bundle, &bytes, &keys).err();
    warn_of_size(&args.bundle, &bundle, output);
    let verified = !keys.is_empty() && not_accepted.is_none();
    let compiled = compile(&bundle);
    let (problems, id) = match &compiled {
        Ok(compiled) => (&compiled.warnings, Some(&*compiled.authorizer.revision().policy)),
        Err(problems) => (problems, None),
    };
    let Bundle { manifest, signed_by, .. } = &bundle;
    let key = signed_by.as_ref().map(ToString::to_string);
    match args.output {
        Format::Json => output.json(&json!({
            "revision": manifest.revision,
            "policy_file": manifest.policy,
            "policy": id,
            "signed_by": key,
            "verified": verified,
            "not_accepted": not_accepted.as_ref().map(ToString::to_string),
            "files": manifest.files,
            "check": Report::new(problems),
        })),
        Format::Text => {
            output.line(format_args!("revision  {}", manifest.revision));
            let state = match &not_accepted {
                _ if verified => "verified",
                Some(_) => "not accepted",
                None => "not verified: give `--public-key`",
            };
            output.line(match key {
                Some(key) => format!("signed    by the key {key}, {state}"),
                None => "signed    no: a server with `--bundle-public-key` does not accept it"
                    .to_owned(),
            });
            let policy =
                id.map_or_else(|| "does not compile".to_owned(), |id| format!("revision {id}"));
            output.line(format_args!("policy    {}: {policy}", manifest.policy));
            for file in &manifest.files {
                let (size, name) = (file.size, &file.name);
                output.line(format_args!("file      {}  {size:>9}  {name}", file.sha256));
            }
            problems.iter().for_each(|problem| output.line(problem));
        }
    }
    match not_accepted {
        Some(error) => Err(error),
        None => Ok(if id.is_some() { Exit::Success } else { Exit::Policy }),
    }
}

fn new_key(args: &BundleNewKey, output: &Output) -> Result<Exit, CommandError> {
    let public_file = PathBuf::from(format!("{}.pub", args.file.display()));
    let (private, public) = KeyPair::generate()
        .and_then(|pair| Ok((pair.to_pem()?, pair.public_key().clone())))
        .map_err(|error| CommandError::failed_at(&args.file, error))?;
    // A new key never replaces a key that may be in use.
    if let Some(file) = [&args.file, &public_file].into_iter().find(|file| file.exists()) {
        let help = "it exists, and servers may trust its key: name another file, or move it away";
        return Err(CommandError::failed_at(file, help));
    }
    // Servers run as other users, and read the public key.
    for (file, pem, mode) in [(&args.file, private, 0o600), (&public_file, public.to_pem(), 0o644)]
    {
        let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
        let written = new.and_then(|mut file| file.write_all(pem.as_bytes()));
        written.map_err(|error| CommandError::failed_at(file, error))?;
    }
    let (private, public_file, id) = (args.file.display(), public_file.display(), public.id());
    output.line(format_args!("{private}: the private key {id}, for `rolegate bundle sign`"));
    output.line(format_args!(
        "{public_file}: its public key, for `rolegate serve --bundle-public-key`"
    ));
    Ok(Exit::Success)
}

fn open(path: &Path, bytes: &[u8], keys: &[PublicKey]) -> Result<Bundle, CommandError> {
    Bundle::open(bytes, keys, MAX_SIZE as u64).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        match error {
            BundleError::Unsigned | BundleError::UnknownKey(_) | BundleError::WrongSignature => {
                CommandError::Unsigned(message)
            }
            BundleError::Malformed(_) | BundleError::TooLarge(_) => CommandError::Policy(message),
        }
    })
}

fn compile(bundle: &Bundle) -> Result<CompiledPolicy, Vec<Problem>> {
    compiled_policy::load_from(
        &bundle.files,
        Path::new(&bundle.manifest.policy),
        &FetchedKeys::new(),
    )
}

fn read(path: &Path, max: usize) -> Result<Vec<u8>, CommandError> {
    files::bytes(path, max).map_err(|error| CommandError::failed_at(path, error))
}

/// Writes a bundle as a [`NewFile`], which only its owner can read: a bundle has password hashes,
/// and may have keys.
fn write(path: &Path, bytes: &[u8], output: &Output) -> Result<(), CommandError> {
    let new = NewFile::write(path, bytes).map_err(|error| CommandError::failed_at(path, error))?;
    if let Some(owner_problem) = &new.owner_problem {
        let path = path.display();
        output.warning(format_args!("{path}: {owner_problem}: see that servers can read it"));
    }
    new.rename(path).map_err(|error| CommandError::failed_at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_not_known_is_no_revision() {
        assert_eq!(revision_at(Duration::from_secs(2)), Some(2_000));
        assert_eq!(revision_at(Duration::MAX), None);
    }
}
