//! `/readyz`: whether this process is ready, and in a line each what is wrong nevertheless.

use std::sync::Arc;

use hyper::StatusCode;

use super::{Page, text};
use crate::admin::metrics::Metrics;

pub(super) fn ready(metrics: &Arc<Metrics>) -> Page {
    match metrics.status.ready() {
        Ok(()) => {
            let conditions = metrics.conditions();
            let lines: String = conditions.iter().map(|condition| format!("{condition}\n")).collect();
            text(StatusCode::OK, format!("ready\n{lines}"))
        }
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}
