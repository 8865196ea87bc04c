//! The AuthZEN Authorization API 1.0 (OpenID, January 2026): JSON requests in, decisions out. The
//! crate does no I/O. The section numbers below are those of the final text.
//!
//! * `message`: reads requests;
//! * `mapping`: turns a subject, an action and a resource into a caller and an HTTP request, as the
//!   section `authzen` of the policy says;
//! * `context`: says when a question is asked, and by which client;
//! * `decide`: has the authorizer decide whether this caller may send this request;
//! * `search`: finds everything that would be permitted; `page` splits the results into parts;
//! * `answer`: answers a request with `decide` or `search`.
//!
//! A client is trusted to name the subject and its properties: the listener has authenticated it.
//! Every decision is made by [`authorizer`]. It also denies each question that cannot be mapped.

#![deny(clippy::wildcard_enum_match_arm)]

mod answer;
mod context;
mod decide;
mod mapping;
mod message;
mod page;
mod search;

pub use answer::{Answer, answer};
pub use decide::Decider;
pub use message::{Batch, Endpoint, Evaluation, MAX_EVALUATIONS, Malformed, Semantic, Sought};
