//! The state that the connections and requests of a server share.

use std::rc::Rc;
use std::sync::Arc;

use runtime::ActivePolicy;
use runtime::hashing::Hashing;

use super::check::Checker;
use super::message::{Budget, Limits};
use super::notices::{AcceptError, Notices, Overload, WrongProtocol};
use super::options::Options;
use super::other_services::OtherServices;
use super::token_queue::TokenQueue;
use super::turns::TurnQueue;
use super::verifications::Verifications;

/// Maximum bytes of the unfinished messages, and of the messages whose credentials are being
/// verified, over all connections. At least four times the maximum message size, so that several
/// messages of that size can arrive at once. 32 MiB are half of the growth of memory that is
/// permitted in an attack (S20 in SECURITY.md).
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The state of all workers. A request of a caller whose credentials are cached writes to none of
/// it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) policy: ActivePolicy,
    pub(super) options: Options,
    pub(super) limits: Limits,
    pub(super) verifications: Arc<Verifications>,
    pub(super) hashing: Hashing,
    pub(super) other_services: OtherServices,
    pub(super) accept_errors: Notices<AcceptError>,
    pub(super) wrong_protocols: Notices<WrongProtocol>,
    pub(super) overloads: Notices<Overload>,
}

/// The state of a worker.
pub(super) struct WorkerContext {
    pub(super) shared: Arc<Shared>,
    pub(super) checker: Checker,
    pub(super) turns: TurnQueue,
    pub(super) token_queue: Rc<TokenQueue>,
}

impl Shared {
    pub(super) fn new(
        policy: ActivePolicy,
        options: Options,
        hashing: Hashing,
        other_services: OtherServices,
    ) -> Self {
        let checks = options.max_waiting_checks;
        let bytes = MAX_WAITING_BYTES.max(options.max_message_size.saturating_mul(4));
        Self {
            limits: Limits {
                message: options.max_message_size,
                budget: Budget::new(checks, bytes),
            },
            verifications: Verifications::new(checks, bytes),
            accept_errors: Notices::new(&AcceptError::ALL),
            wrong_protocols: Notices::new(&WrongProtocol::ALL),
            overloads: Notices::new(&Overload::ALL),
            policy,
            options,
            hashing,
            other_services,
        }
    }
}
