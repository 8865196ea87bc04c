//! Who asks, and over which connection.

use std::rc::Rc;
use std::sync::Arc;

use super::ForwardAuth;
use crate::checks::context::WorkerContext;
use crate::checks::notices::Peer;
use crate::checks::registry::RegisteredConnection;

/// A connection and its peer.
pub(super) struct Asker {
    pub(super) context: Rc<WorkerContext>,
    pub(super) forward_auth: Arc<ForwardAuth>,
    pub(super) registered: RegisteredConnection,
    pub(super) peer: Peer,
    pub(super) is_trusted: bool,
}
