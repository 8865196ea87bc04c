//! The phases of a stop.

/// The phase of the server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// It serves as before, but health checks report `NOT_SERVING`.
    HealthFailing,
    /// It accepts no more connections.
    Draining,
}
