//! Loads a policy from files, or from their texts.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Files, MapFiles, Problem};
use identity::FetchedKeys;

use crate::Authorizer;

/// Maximum size of a file, in bytes, as for `rolegate serve`: a file without an end, such as
/// `/dev/zero`, must not take all memory.
const MAX_FILE: u64 = 256 << 20;

/// Why a policy is not loaded: every problem of its files, one a line, as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    problems: Vec<PolicyProblem>,
}

/// A problem of a policy. Its texts have no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    problem: Problem,
}

impl Authorizer {
    /// Loads the policy in a file, or in the `policy.yaml` of a folder, with all files that it
    /// names.
    ///
    /// # Errors
    /// If a file cannot be read or is not valid.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::load_from(&FilesOnDisk, &path.join("policy.yaml"));
        }
        Self::load_from(&FilesOnDisk, path)
    }

    /// Loads a policy from its text. It can name no other file.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn from_text(policy: &str) -> Result<Self, LoadError> {
        Self::from_files([("policy.yaml", policy)])
    }

    /// Loads a policy from the contents of its files, by their paths. The first is the policy; it
    /// finds the others by paths relative to its own.
    ///
    /// ```
    /// # use rolegate_authorizer::Authorizer;
    /// let policy = "version: 1\ninclude: [roles/partners.yaml]";
    /// let roles = "roles: { anyone: { allow: [GET /healthz] } }";
    /// Authorizer::from_files([("policy.yaml", policy), ("roles/partners.yaml", roles)])?;
    /// # Ok::<(), rolegate_authorizer::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// If there is no file, or a file is not valid.
    pub fn from_files<P: Into<PathBuf>, C: Into<Vec<u8>>>(
        files: impl IntoIterator<Item = (P, C)>,
    ) -> Result<Self, LoadError> {
        let mut files =
            files.into_iter().map(|(path, content)| (path.into(), content.into())).peekable();
        let policy = match files.peek() {
            Some((path, _)) => path.clone(),
            None => PathBuf::from("policy.yaml"),
        };
        Self::load_from(&MapFiles(files.collect()), &policy)
    }

    fn load_from(files: &dyn Files, file: &Path) -> Result<Self, LoadError> {
        let loaded = policy::load(files, file).map_err(LoadError::new)?;
        let loaded = Arc::new(loaded);
        let (inner, warnings) =
            authorizer::Authorizer::compile(Arc::clone(&loaded), &FetchedKeys::new(), None)
                .map_err(LoadError::new)?;
        let warnings = public(document::unaccepted(&loaded.files, warnings));
        Ok(Self { inner, warnings })
    }
}

impl LoadError {
    fn new(problems: Vec<Problem>) -> Self {
        Self { problems: public(problems) }
    }

    /// Every problem; warnings may be among them.
    #[must_use]
    pub fn problems(&self) -> &[PolicyProblem] {
        &self.problems
    }
}

impl PolicyProblem {
    /// The file, by the name given to the loader.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.problem.at.file
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.problem.at.line
    }

    /// The column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> u32 {
        self.problem.at.column
    }

    /// Whether the policy can be used nevertheless.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.problem.is_warning()
    }
}

fn public(problems: Vec<Problem>) -> Vec<PolicyProblem> {
    problems.into_iter().map(|problem| PolicyProblem { problem }).collect()
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for LoadError {}

struct FilesOnDisk;

impl Files for FilesOnDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| file_error(&error, "no such file"))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(FileError::new(format!("it is larger than {} MiB", MAX_FILE >> 20)));
        }
        Ok(bytes)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        let listed = std::fs::read_dir(folder).and_then(|entries| {
            for entry in entries {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            Ok(())
        });
        listed.map_err(|error| file_error(&error, "no such folder"))?;
        Ok(names)
    }
}

fn file_error(error: &io::Error, missing: &str) -> FileError {
    match error.kind() {
        ErrorKind::NotFound => FileError::new(missing),
        _ => FileError::new(error.to_string()),
    }
}
