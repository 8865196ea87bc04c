//! One `Check`: read, judge, answer.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;

use super::decision::DecisionSink;

/// What judges requests: the snapshot in force, and who is told of decisions.
#[derive(Clone)]
pub struct CheckService {
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    decisions: Option<Arc<dyn DecisionSink>>,
}

impl CheckService {
    /// Judges by whatever is published in `snapshot`; while that is `None`, every check is an error.
    #[must_use]
    pub fn new(snapshot: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { snapshot, decisions: None }
    }

    /// Tells `sink` of every decision.
    #[must_use]
    pub fn with_decisions(self, sink: Arc<dyn DecisionSink>) -> Self {
        Self { decisions: Some(sink), ..self }
    }
}

impl fmt::Debug for CheckService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckService").field("decisions", &self.decisions.is_some()).finish_non_exhaustive()
    }
}
