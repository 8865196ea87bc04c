//! From files to a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::Policy;
use crate::problem::Problem;

/// Where the bytes of a policy's files come from.
pub trait Files {
    /// The bytes of a file.
    ///
    /// # Errors
    /// A text for the reader, such as `no such file`.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// The names of the files in a folder, in any order.
    ///
    /// # Errors
    /// A text for the reader.
    fn list(&self, folder: &Path) -> Result<Vec<String>, String>;
}

/// A policy that may be used, with what was read for it.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// What somebody should look at.
    pub warnings: Vec<Problem>,
    /// Every file that was read, in the order of reading: the policy, what it includes, password and key files.
    pub sources: Vec<Source>,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    /// What was in it.
    pub bytes: Arc<[u8]>,
}

/// Loads the policy in `file` with everything that it names.
///
/// # Errors
/// Every problem in all the files, warnings among them, in the order of their places.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    let _ = (files, file);
    todo!()
}
