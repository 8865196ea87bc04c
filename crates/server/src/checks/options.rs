//! The sizes and limits of the server.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use runtime::hashing;

use super::tls::Tls;

/// Sizes and limits of the server. The defaults suit production.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of worker threads; 0 means the number of cores.
    pub threads: usize,
    /// Maximum size of a `Check` message, in bytes.
    pub max_message_size: usize,
    /// Maximum number of open connections, divided evenly among the worker threads. A thread that
    /// has its share closes an idle connection for each new one: the oldest that never had a
    /// request, or else the one that has been idle for longest. If none is idle, it closes the new
    /// connection.
    pub max_connections: usize,
    /// Age at which a connection is drained, so that its peer opens another. The actual age is up
    /// to a tenth less, at random. Zero means never.
    pub max_connection_age: Duration,
    /// Maximum number of checks that wait at once, for the rest of their message or the
    /// verification of their credentials, in the whole server.
    pub max_waiting_checks: usize,
    /// Maximum time for the TLS handshake, for the HTTP/2 handshake, and for a request. A request's
    /// time begins with its first part and ends with its answer. It includes waiting for the rest
    /// of the message and for the verification of the credentials. If a request has a shorter
    /// `grpc-timeout`, that is its limit.
    pub request_timeout: Duration,
    /// Number of threads that hash passwords; 0 means half the cores, at least 1 and at most 8.
    pub hash_threads: usize,
    /// Maximum number of passwords that wait to be hashed.
    pub hash_queue: usize,
    /// The TLS of connections over TCP; `None` for connections without it.
    pub tls: Option<Arc<Tls>>,
    /// The name of the response header that tells why a request is denied; `None` for no header.
    pub explain_header: Option<Arc<str>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            max_message_size: 4 << 20,
            max_connections: 1024,
            max_connection_age: Duration::ZERO,
            max_waiting_checks: 8192,
            request_timeout: Duration::from_secs(10),
            hash_threads: 0,
            hash_queue: 256,
            tls: None,
            explain_header: None,
        }
    }
}

impl Options {
    /// The age at which a connection is drained; `None` means never.
    pub(crate) fn max_age(&self) -> Option<Duration> {
        Some(self.max_connection_age).filter(|age| !age.is_zero())
    }

    /// Replaces zeros by the actual numbers.
    pub(crate) fn resolved(mut self) -> Self {
        if self.threads == 0 {
            self.threads = thread::available_parallelism().map_or(1, NonZero::get);
        }
        self.hash_threads = hashing::threads(self.hash_threads);
        self
    }
}
