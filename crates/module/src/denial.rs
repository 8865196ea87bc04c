//! A filter that denies all requests.

use crate::abi::{Filter, Handled, Reply, Setup, Stream};

/// Denies all requests with 503.
#[derive(Debug)]
pub struct DenyAll;

const REPLY: Reply<'static> =
    Reply { status: 503, headers: &[], body: b"rolegate has no policy\n", details: "rolegate_no_policy" };

impl Filter for DenyAll {
    type Route = ();
    type State = ();

    fn new(name: &[u8], config: &[u8], _setup: &mut Setup<'_>) -> Result<Self, String> {
        if config.is_empty() {
            return Ok(Self);
        }
        Err(format!("rolegate: the filter `{}` takes no configuration", String::from_utf8_lossy(name)))
    }

    fn route(_name: &[u8], _config: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn request_headers(&self, _state: &mut (), stream: Stream<'_, Self>, _end_of_stream: bool) -> Handled {
        stream.reply(&REPLY)
    }

    fn scheduled(&self, _state: &mut (), stream: Stream<'_, Self>, _event: u64) -> Handled {
        stream.reply(&REPLY)
    }

    fn panicked(&self, _stream: &Stream<'_, Self>) -> Reply<'static> {
        Reply::FAILURE
    }
}
