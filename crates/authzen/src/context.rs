//! What the context of a question says about its time and its client.

use std::net::IpAddr;

use authorizer::Timestamp;
use identity::UnixTime;
use policy::model::AuthZen;
use serde_json::{Map, Value};

use crate::message::Malformed;

/// When a question is asked, and by which client of the application.
pub(crate) struct Circumstances {
    pub(crate) time: UnixTime,
    /// Its address, as text; empty if it is not known.
    pub(crate) client: String,
}

impl Circumstances {
    /// A context counts only where the policy trusts it. By default, the time is when the question
    /// came, and the client is unknown.
    ///
    /// # Errors
    /// If a trusted time or address cannot be read. With another value in its place, a `deny` rule
    /// for this time or address could be missed.
    pub(crate) fn new(
        context: &Map<String, Value>,
        authzen: Option<&AuthZen>,
        now: UnixTime,
    ) -> Result<Self, Malformed> {
        let is_trusted = authzen.is_some_and(|authzen| authzen.trust_context);
        let [time, ip] = ["time", "ip"].map(|name| context.get(name).filter(|_| is_trusted));
        let time = match time {
            None => now,
            Some(time) => time.as_str().and_then(parse_time).ok_or(Malformed::BadTime)?,
        };
        let client = match ip {
            None => String::new(),
            Some(ip) => {
                let address = ip.as_str().and_then(|ip| ip.parse::<IpAddr>().ok());
                address.ok_or(Malformed::BadAddress)?.to_string()
            }
        };
        Ok(Self { time, client })
    }
}

/// A time of ISO 8601 with an offset. The seconds may be left out, as in the specification (5.4).
fn parse_time(text: &str) -> Option<UnixTime> {
    let time: Timestamp = text.parse().ok()?;
    UnixTime::try_from(time.as_duration()).ok()
}
