//! Fetches the keys that the tokens of a command need.

use identity::FetchedKeys;

use super::loaded;
use crate::cli::Format;
use crate::exit::Exit;
use crate::output::Output;
use runtime::compiled_policy::{CompiledPolicy, KeyUrls};
use runtime::keys::Client;

/// Whether one of these headers may have a token.
pub(super) fn has_authorization(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// Compiles the policy with the keys that its issuers publish now. Tokens whose keys cannot be fetched do not verify.
/// If no token `needs` them, nothing is fetched.
pub(super) fn with_keys(
    compiled: CompiledPolicy,
    needs: bool,
    format: Format,
    output: &mut Output<'_>,
) -> Result<CompiledPolicy, Exit> {
    let urls = compiled.key_urls();
    if !needs || urls.is_empty() {
        return Ok(compiled);
    }
    let fetched = fetch(&urls, output);
    CompiledPolicy::compile(compiled.loaded, &fetched, None).map_err(|problems| {
        loaded::report(&problems, format, output);
        Exit::Policy
    })
}

fn fetch(urls: &KeyUrls, output: &mut Output<'_>) -> FetchedKeys {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.error(&format!("keys not fetched: {error}"));
            return FetchedKeys::new();
        }
    };
    let client = Client::default();
    let mut fetched = FetchedKeys::new();
    for (url, source) in urls {
        match runtime.block_on(client.for_url(url).fetch(url)) {
            Ok(keys) => _ = fetched.insert(url.clone(), Some(keys)),
            Err(error) => {
                output.error(&format!("keys of {} at `{url}` not fetched: {error}", source.issuers));
            }
        }
    }
    runtime.shutdown_background();
    fetched
}
