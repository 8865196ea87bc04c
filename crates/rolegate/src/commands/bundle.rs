//! `rolegate bundle`: builds, signs, verifies and shows policy bundles.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bundle::{BuildError, Bundle, BundleError, KeyPair, PublicKey};
use document::Problem;
use identity::FetchedKeys;
use runtime::compiled_policy::{self, CompiledPolicy};
use runtime::settings::BundleSettings;
use runtime::{clock, files};
use serde_json::json;
use tempfile::NamedTempFile;

use super::policy_files::{MAX_KEY, MAX_SIZE, PolicyFiles, read_keys};
use crate::cli::{
    BundleArgs, BundleBuild, BundleCommand, BundleInspect, BundleNewKey, BundleSign, BundleVerify,
    Format,
};
use crate::error::CommandError;
use crate::exit::Exit;
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

/// The revision of a bundle that is built at this time. `None` if the time is not known: after the
/// last revision there is none, so no later bundle would be accepted.
fn revision_of(now: Duration) -> Option<u64> {
    // Milliseconds: a pipeline may build twice within a second, and a server refuses another bundle
    // of the same revision. They are greater than the seconds of bundles that were built before.
    u64::try_from(now.as_millis()).ok()
}

fn build(args: &BundleBuild, output: &Output) -> Result<Exit, CommandError> {
    let file = compiled_policy::policy_file(args.policy.get());
    let compiled = PolicyFiles::OnDisk(file.clone()).load()?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut packed = BTreeMap::new();
    for read in &compiled.loaded.files {
        packed.insert(name(folder, &read.path)?, read.bytes.to_vec());
    }
    let cases = folder.join("cases.yaml");
    if cases.exists() {
        packed.insert("cases.yaml".to_owned(), read(&cases, MAX_SIZE)?);
    }
    let revision = args.revision.or_else(|| revision_of(clock::now())).ok_or_else(|| {
        let message = "the clock is set to before 1970: set it, or name the `--revision`";
        CommandError::Failed(message.to_owned())
    })?;
    let policy = name(folder, &file)?;
    let bytes =
        bundle::build(&policy, revision, &packed).map_err(|error| failed(&args.out, &error))?;
    // A policy may name its files by absolute paths, which are not those in the bundle.
    let bundle =
        Bundle::open(&bytes, &[], MAX_SIZE as u64).map_err(|error| failed(&args.out, &error))?;
    if let Err(problems) = compile(&bundle) {
        output.failure(&problems.into());
        let message = "the policy does not compile with only the files of the bundle";
        return Err(CommandError::Policy(message.to_owned()));
    }
    if !args.force {
        may_replace(&args.out, &bundle)?;
    }
    replace(&args.out, &bytes, output)?;
    warn_of_size(&args.out, &bundle, output);
    let (path, files) = (args.out.display(), counted(packed.len(), "file"));
    let id = &compiled.authorizer.revision().policy;
    output.line(format_args!("{path}: revision {revision}, {files}, policy {id}, not signed"));
    Ok(Exit::Success)
}

/// The commands accept larger bundles than servers do, whose settings they do not know.
fn warn_of_size(path: &Path, bundle: &Bundle, output: &Output) {
    let (size, max) = (bundle.manifest.size(), BundleSettings::default().max_size);
    if size > max as u64 {
        output.warning(format_args!(
            "{}: its files have {size} bytes: servers accept it only with a larger `bundle-max-size`, which is {} MiB by default",
            path.display(),
            max >> 20
        ));
    }
}

/// A file that exists must be an older bundle, or the same one: servers may have a newer one.
fn may_replace(path: &Path, new: &Bundle) -> Result<(), CommandError> {
    if !path.is_file() {
        return Ok(());
    }
    let revision = new.manifest.revision;
    let problem = match Bundle::open(&read(path, MAX_SIZE)?, &[], MAX_SIZE as u64) {
        Err(_) => "the file is there, and no bundle".to_owned(),
        Ok(old) if old.manifest.revision > revision => {
            format!("the bundle there is newer, of revision {}", old.manifest.revision)
        }
        Ok(old) if old.manifest.revision == revision && old.digest() != new.digest() => {
            format!("another bundle of revision {revision} is there, and servers accept only one")
        }
        Ok(_) => return Ok(()),
    };
    Err(CommandError::Failed(format!("{}: {problem}: `--force` replaces it", path.display())))
}

/// The name in the bundle of a file that the policy names.
fn name(folder: &Path, file: &Path) -> Result<String, CommandError> {
    let outside = || {
        let message = "is not beside the policy or in a folder there: a bundle has no other files";
        CommandError::Policy(format!("`{}` {message}", file.display()))
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in file.strip_prefix(folder).map_err(|_| outside())?.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = parts.pop().ok_or_else(outside)?,
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    Ok(parts.join("/"))
}

fn sign(args: &BundleSign, output: &Output) -> Result<Exit, CommandError> {
    let pair = KeyPair::from_pem(&read(&args.key, MAX_KEY)?)
        .map_err(|error| CommandError::Arguments(format!("{}: {error}", args.key.display())))?;
    let id = pair.public_key().map_err(|error| failed(&args.key, &error))?.id();
    let bytes = read(&args.bundle, MAX_SIZE)?;
    let signed = bundle::sign(&bytes, &pair, MAX_SIZE as u64).map_err(|error| match error {
        BuildError::Bundle(_) => {
            CommandError::Policy(format!("{}: {error}", args.bundle.display()))
        }
        BuildError::Files(_) | BuildError::Key(_) | BuildError::Archive(_) => {
            failed(&args.bundle, &error)
        }
    })?;
    let to = args.out.as_ref().unwrap_or(&args.bundle);
    replace(to, &signed, output)?;
    output.line(format_args!("{}: signed by the key {id}", to.display()));
    Ok(Exit::Success)
}

fn verify(args: &BundleVerify, output: &Output) -> Result<Exit, CommandError> {
    let keys = read_keys(&args.public_key)?;
    let bundle = opened(&args.bundle, &read(&args.bundle, MAX_SIZE)?, &keys)?;
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
    let bundle = opened(&args.bundle, &bytes, &[])?;
    // A bundle that is not accepted is shown, too: people look for the reason.
    let refused = opened(&args.bundle, &bytes, &keys).err();
    warn_of_size(&args.bundle, &bundle, output);
    let verified = !keys.is_empty() && refused.is_none();
    let compiled = compile(&bundle);
    let id =
        compiled.as_ref().ok().map(|compiled| compiled.authorizer.revision().policy.to_string());
    let problems: &[Problem] = match &compiled {
        Ok(compiled) => &compiled.warnings,
        Err(problems) => problems,
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
            "not_accepted": refused.as_ref().map(ToString::to_string),
            "files": manifest.files,
            "check": Report::new(problems),
        })),
        Format::Text => {
            output.line(format_args!("revision  {}", manifest.revision));
            output.line(match key {
                Some(key) if verified => format!("signed    by the key {key}, verified"),
                Some(key) if refused.is_some() => {
                    format!("signed    by the key {key}, not accepted")
                }
                Some(key) => {
                    format!("signed    by the key {key}, not verified: give `--public-key`")
                }
                None => "signed    no: a server with `--bundle-public-key` does not accept it"
                    .to_owned(),
            });
            let policy = id
                .as_ref()
                .map_or_else(|| "does not compile".to_owned(), |id| format!("revision {id}"));
            output.line(format_args!("policy    {}: {policy}", manifest.policy));
            for file in &manifest.files {
                output.line(format_args!(
                    "file      {}  {:>9}  {}",
                    file.sha256, file.size, file.name
                ));
            }
            problems.iter().for_each(|problem| output.line(problem));
        }
    }
    match refused {
        Some(refused) => Err(refused),
        None => Ok(if id.is_some() { Exit::Success } else { Exit::Policy }),
    }
}

fn new_key(args: &BundleNewKey, output: &Output) -> Result<Exit, CommandError> {
    let public_file = PathBuf::from(format!("{}.pub", args.file.display()));
    let of_key = |error| failed(&args.file, &error);
    let pair = KeyPair::generate().map_err(of_key)?;
    let public = pair.public_key().map_err(of_key)?;
    let private = pair.to_pem().map_err(of_key)?;
    // Never in place of a key that may be in use.
    if let Some(file) = [&args.file, &public_file].into_iter().find(|file| file.exists()) {
        let help = "it exists, and servers may trust its key: name another file, or move it away";
        return Err(failed(file, &help));
    }
    // Servers run as other users, and read the public key.
    for (file, pem, mode) in [(&args.file, private, 0o600), (&public_file, public.to_pem(), 0o644)]
    {
        let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
        let written = new.and_then(|mut file| file.write_all(pem.as_bytes()));
        written.map_err(|error| failed(file, &error))?;
    }
    let (private, public_file, id) = (args.file.display(), public_file.display(), public.id());
    output.line(format_args!("{private}: the private key {id}, for `rolegate bundle sign`"));
    output.line(format_args!(
        "{public_file}: its public key, for `rolegate serve --bundle-public-key`"
    ));
    Ok(Exit::Success)
}

fn opened(path: &Path, bytes: &[u8], keys: &[PublicKey]) -> Result<Bundle, CommandError> {
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
    files::bytes(path, max).map_err(|error| failed(path, &error))
}

/// Writes a file in one step, because a server may read it at any time. It has password hashes, and
/// may have keys: nobody else may read a new one, and one that is there keeps its owner, its group
/// and its mode. Only root, or its owner in its group, can give it those: if somebody else replaces
/// it, the group that it gets instead may not read it.
fn replace(path: &Path, bytes: &[u8], output: &Output) -> Result<(), CommandError> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let mut new = NamedTempFile::new_in(folder)?;
        new.write_all(bytes)?;
        if let Ok(before) = fs::metadata(path) {
            let file = new.as_file();
            let (uid, gid) = (before.uid(), before.gid());
            // Who is no root may still give it to a group that they are in.
            let kept =
                fchown(file, Some(uid), Some(gid)).or_else(|_| fchown(file, None, Some(gid)));
            let now = file.metadata()?;
            let mut mode = before.mode() & 0o777;
            if (now.uid(), now.gid()) != (uid, gid) {
                let why = kept.err().map(|error| format!(": {error}")).unwrap_or_default();
                output.warning(format_args!(
                    "{}: it cannot keep its owner {uid} and its group {gid}{why}: see that servers can read it",
                    path.display()
                ));
                if now.gid() != gid {
                    mode &= !0o070;
                }
            }
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        new.persist(path)?;
        Ok(())
    };
    written().map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &impl std::fmt::Display) -> CommandError {
    CommandError::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_not_known_is_no_revision() {
        assert_eq!(revision_of(Duration::from_secs(2)), Some(2_000));
        assert_eq!(revision_of(Duration::MAX), None);
    }
}
