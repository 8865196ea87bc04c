//! What the shadow policy would change: compared on a thread of its own, once for each pair of
//! policies.

use std::sync::{Arc, Mutex, PoisonError};

use authorizer::Authorizer;
use review::{Diff, TooComplex};
use runtime::threads::{Priority, catch, spawn};

/// The comparison of the last pair of policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differences(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The revisions that are being compared.
    comparing: Option<Pair>,
    compared: Option<(Pair, Compared)>,
}

/// The revisions of the active policy and of the shadow policy.
type Pair = [Box<str>; 2];

/// How a comparison ended.
#[derive(Clone, Debug)]
pub(crate) enum Compared {
    /// It is not finished yet.
    NotYet,
    Done(Arc<Diff>),
    /// The policies are too complex.
    TooComplex(TooComplex),
    /// A bug, or the system has no thread.
    Failed,
}

impl Differences {
    /// The difference of these policies. Begins to compare them if that was not done; one
    /// comparison runs at a time.
    pub(crate) fn compare(&self, active: &Arc<Authorizer>, shadow: &Arc<Authorizer>) -> Compared {
        let pair = [active, shadow].map(|side| side.revision().policy.clone());
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compared)) = state.compared.as_ref().filter(|(known, _)| *known == pair) {
            return compared.clone();
        }
        if state.comparing.is_none() {
            state.comparing = Some(pair.clone());
            let (this, policies) =
                (self.clone(), [active, shadow].map(|side| side.loaded().clone()));
            let compare = move || {
                let [active, shadow] = &policies;
                let diff =
                    catch("comparing policies", || review::diff(&active.policy, &shadow.policy));
                this.end(match diff {
                    Ok(Ok(diff)) => Compared::Done(Arc::new(diff)),
                    Ok(Err(error)) => Compared::TooComplex(error),
                    Err(_) => Compared::Failed,
                });
            };
            if let Err(error) = spawn("difference", Priority::Lowest, compare) {
                tracing::warn!(%error, "the shadow policy is not compared for the console");
                state.comparing = None;
                return Compared::Failed;
            }
        }
        Compared::NotYet
    }

    fn end(&self, compared: Compared) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.compared = state.comparing.take().map(|pair| (pair, compared));
    }
}
