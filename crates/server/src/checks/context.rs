//! The state that the connections and requests of a server share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use runtime::ActivePolicy;
use runtime::hashing::Hashing;

use super::budget::Budget;
use super::checker::Checker;
use super::notices::{AcceptError, Notices, Overload, RefusedQuestion, WrongProtocol};
use super::options::Options;
use super::token_queue::TokenQueue;
use super::verifications::Verifications;
use crate::grpc::message::Limits;
use crate::grpc::other_services::OtherServices;
use crate::grpc::turns::TurnQueue;

/// Maximum bytes of the unfinished messages, and of the messages whose credentials are being
/// verified, over all connections. At least four times the maximum message size, so that several
/// messages of that size can arrive at once. 32 MiB are half of the growth of memory that is
/// permitted in an attack (S20 in SECURITY.md).
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The state that all workers share. A request whose credentials are cached does not write to it,
/// so workers do not contend for it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policy: ActivePolicy,
    pub(crate) options: Options,
    pub(crate) limits: Limits,
    pub(crate) verifications: Arc<Verifications>,
    pub(crate) hashing: Hashing,
    pub(crate) other_services: OtherServices,
    pub(crate) accept_errors: Notices<AcceptError>,
    pub(crate) wrong_protocols: Notices<WrongProtocol>,
    pub(crate) overloads: Notices<Overload>,
    pub(crate) refused_questions: Notices<RefusedQuestion>,
}

/// The state of a worker.
pub(crate) struct WorkerContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) checker: Checker,
    /// Encodes answers over gRPC.
    pub(crate) encoder: RefCell<envoy::Encoder>,
    pub(crate) turns: TurnQueue,
    pub(crate) token_queue: Rc<TokenQueue>,
}

impl Shared {
    pub(crate) fn new(
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
            refused_questions: Notices::new(&RefusedQuestion::ALL),
            policy,
            options,
            hashing,
            other_services,
        }
    }
}
