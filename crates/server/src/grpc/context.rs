//! The parts of a worker that its connections and requests use.

use std::rc::Rc;
use std::sync::Arc;

use runtime::hashing::Hashing;

use super::check::Checker;
use super::message::Limits;
use super::options::Options;
use super::other_services::OtherServices;
use super::overload::Overloads;
use super::slices::SliceQueue;
use super::token_queue::TokenQueue;
use super::wrong_protocol::WrongProtocols;

/// What the connections and requests of one worker share. Only `limits`, `hashing`, `other_services`,
/// `wrong_protocols` and `overloads` are also shared with other workers, and a request of a caller whose credentials are cached writes
/// to none of them.
pub(super) struct ExchangeContext {
    pub(super) checker: Checker,
    pub(super) options: Options,
    pub(super) limits: Limits,
    pub(super) hashing: Arc<Hashing>,
    pub(super) other_services: OtherServices,
    pub(super) slices: Rc<SliceQueue>,
    pub(super) token_queue: Rc<TokenQueue>,
    pub(super) wrong_protocols: Arc<WrongProtocols>,
    pub(super) overloads: Arc<Overloads>,
}
