//! What requests need of the worker that serves them.

use std::rc::Rc;
use std::sync::Arc;

use super::check::Checker;
use super::hashing::Hashing;
use super::message::Limits;
use super::options::Options;
use super::others::Others;
use super::slices::SliceQueue;
use super::token_turns::TokenTurns;

/// What the connections and requests of one worker share. Only `limits`, `hashing` and `others` are shared with other
/// workers too, and a request of a known caller writes to none of them.
pub(super) struct ExchangeContext {
    pub(super) checker: Checker,
    pub(super) options: Options,
    pub(super) limits: Limits,
    pub(super) hashing: Arc<Hashing>,
    pub(super) others: Others,
    pub(super) slices: Rc<SliceQueue>,
    pub(super) token_turns: Rc<TokenTurns>,
}
