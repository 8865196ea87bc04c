//! Checks that wait until their credentials are verified.

use std::future::poll_fn;
use std::task::{Context, Poll};

use authorizer::Limit;
use identity::{VerificationKind, VerificationResult};
use runtime::counters::ErrorKind;
use runtime::hashing::NotHashed;
use tokio::time::{Instant, timeout_at};

use super::budget::Reservation;
use super::checker::{Failure, Unverified};
use super::context::WorkerContext;
use super::notices::Overload;
use super::verifications::NetworkReservation;

/// A check whose credentials are being verified.
pub(crate) trait WaitingCheck {
    /// Authorizes and answers, unless credentials must be verified first.
    fn check(&mut self, result: Option<&VerificationResult>) -> Result<(), Box<Unverified>>;

    /// Records that a wait ends now.
    fn resume(&mut self);

    /// Ready once the peer has given up.
    fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Reserves the memory of a check whose credentials are to be verified. `bytes` is what the check
/// takes without these credentials.
pub(crate) fn reserve(
    context: &WorkerContext,
    Unverified(verification, network): &Unverified,
    bytes: usize,
) -> Result<(Option<NetworkReservation>, Reservation), Overload> {
    let bytes = bytes.saturating_add(verification.bytes());
    let shared = &context.shared;
    let verified_before = verification.verified_before();
    let of_network = shared.verifications.reserve(verified_before, *network, bytes)?;
    Ok((of_network, shared.limits.budget.reserve(bytes)?))
}

/// Waits until the credentials are verified, then has the check authorize and answer.
///
/// # Errors
/// If the credentials cannot be verified, or not before the deadline, or if the peer gives up.
/// Then the check has not been answered yet.
pub(crate) async fn verify_and_check(
    context: &WorkerContext,
    check: &mut impl WaitingCheck,
    mut unverified: Box<Unverified>,
    deadline: Instant,
) -> Result<(), Failure> {
    // Repeated only if a reload came meanwhile. For a password also only if the reload has changed
    // the user's hash.
    loop {
        let Unverified(verification, network) = *unverified;
        let result = match verification.kind() {
            VerificationKind::Password | VerificationKind::Introspection => {
                let mut wait = context.shared.hashing.submit(verification, network);
                let hashed = async { wait.hashed().await.map_err(not_hashed) };
                let result = in_time(check, deadline, hashed).await?;
                check.resume();
                result
            }
            VerificationKind::Token => {
                let turn = context.token_queue.enqueue(network)?;
                let turn = async { turn.await.map_err(|_| Overload::TokenQueue.into()) };
                in_time(check, deadline, turn).await?;
                check.resume();
                // The same token may have been verified for another request meanwhile.
                match check.check(None) {
                    Ok(()) => return Ok(()),
                    Err(unverified) => context.checker.verify(unverified.0)?,
                }
            }
        };
        match check.check(Some(&result)) {
            Ok(()) => return Ok(()),
            Err(changed) => unverified = changed,
        }
    }
}

/// The result of `wait`, unless the deadline passes or the peer gives up before it is there.
async fn in_time<T>(
    check: &mut impl WaitingCheck,
    deadline: Instant,
    wait: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        result = timeout_at(deadline, wait) => result.unwrap_or(Err(Limit::Deadline.into())),
        () = poll_fn(|cx| check.poll_cancelled(cx)) => Err(ErrorKind::Cancelled.into()),
    }
}

fn not_hashed(reason: NotHashed) -> Failure {
    match reason {
        NotHashed::Displaced => Overload::HashQueue.into(),
        NotHashed::Failed => ErrorKind::Internal.into(),
        NotHashed::Unavailable => Limit::Introspection.into(),
    }
}
