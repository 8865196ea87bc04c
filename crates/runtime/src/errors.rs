//! Why a policy is not loaded, or cannot be kept current.

use std::fmt::Display;
use std::io;
use std::path::Path;

use document::Problem;

/// Why a policy is not loaded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum LoadError {
    #[error("the policy does not compile\n{}", in_lines(.0))]
    Policy(Vec<Problem>),
    #[error("the shadow policy does not compile\n{}", in_lines(.0))]
    Shadow(Vec<Problem>),
    #[error("{0}")]
    Setting(String),
}

fn in_lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl From<Vec<Problem>> for LoadError {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Policy(problems)
    }
}

impl LoadError {
    /// The error for a file that a setting names and that cannot be used.
    pub(crate) fn in_file(setting: &str, file: &Path, error: impl Display) -> Self {
        Self::Setting(format!("`{setting}` {}: {error}", file.display()))
    }
}

/// Describes a system error that occurred while threads and sockets were created. If a thread
/// cannot be created, the system's text says only "Resource temporarily unavailable". The returned
/// text adds the remedy. `settings` names the settings for the number of threads.
#[must_use]
pub fn start_error(error: &io::Error, settings: &str) -> String {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error.to_string();
    }
    format!(
        "{error}: no further thread can be created. Set {settings} to fewer, or raise the limit of \
         tasks (`TasksMax` of systemd, the limit of processes of a container, `ulimit -u`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_missing_thread_names_the_settings_and_the_limit() {
        // EAGAIN of pthread_create(3).
        let text = start_error(&io::Error::from_raw_os_error(11), "`threads`");
        assert!(text.starts_with("Resource temporarily unavailable"), "{text}");
        assert!(text.contains("Set `threads` to fewer") && text.contains("`TasksMax`"), "{text}");
    }

    #[test]
    fn other_errors_say_nothing_of_threads() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(start_error(&error, "`threads`"), error.to_string());
    }
}
