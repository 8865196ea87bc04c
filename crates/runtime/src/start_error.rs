//! Errors of the system while threads and sockets are created.

use std::io;

/// Describes such an error. That the system has no further thread is only "Resource temporarily unavailable" in its words, so this
/// says what to change: `settings` names those that lower the number of threads.
#[must_use]
pub fn start_error(error: &io::Error, settings: &str) -> String {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error.to_string();
    }
    format!(
        "{error}: no further thread can be created. Set {settings} to fewer, or raise the limit of tasks (`TasksMax` of \
         systemd, the limit of processes of a container, `ulimit -u`)"
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
