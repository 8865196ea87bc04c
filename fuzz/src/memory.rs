//! A policy whose files are in memory.

use std::path::Path;

use document::{FileError, Files, Problem};
use policy::Loaded;

/// The files of one policy.
pub(crate) struct Memory<'a> {
    policy: &'a [u8],
    others: &'a [(&'a str, &'a [u8])],
}

/// A policy with an htpasswd file called `users`.
pub(crate) const HTPASSWD_POLICY: &[u8] = b"version: 1
identity: { basic: { realm: fuzz, users_file: users } }
roles: { authenticated: { allow: [GET /] } }
";

/// A file to include.
pub(crate) const INCLUDED: &[u8] = b"roles: { included: { allow: [GET /included] } }\n";

/// A key set with one key for HS256: `[b'k'; 32]`.
pub(crate) const KEYS: &[u8] =
    br#"{"keys":[{"kty":"oct","alg":"HS256","kid":"h","k":"a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s"}]}"#;

impl<'a> Memory<'a> {
    pub(crate) fn new(policy: &'a [u8], others: &'a [(&'a str, &'a [u8])]) -> Self {
        Self { policy, others }
    }

    pub(crate) fn load(&self) -> Result<Loaded, Vec<Problem>> {
        policy::load(self, Path::new("policy.yaml"))
    }
}

impl Files for Memory<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let found =
            self.others.iter().find(|(name, _)| Path::new(name) == path).map(|(_, bytes)| *bytes);
        let policy = (path == Path::new("policy.yaml")).then_some(self.policy);
        found.or(policy).map(<[u8]>::to_vec).ok_or_else(|| FileError::new("no such file"))
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let paths = self.others.iter().map(|(name, _)| Path::new(name));
        let inside = paths.filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }
}
