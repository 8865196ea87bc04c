//! Fetches the keys that the tokens of a command need, and the inventory that its request to a search cluster needs.

use identity::{FetchedKeys, jwks};

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

/// What a command needs of that for which the policy has a URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The keys of the issuers.
    pub(super) keys: bool,
    /// The inventory of the search cluster.
    pub(super) inventory: bool,
}

/// Compiles the policy with the keys that its issuers publish now, and with the inventory. Tokens whose keys cannot be fetched do
/// not verify; an inventory that cannot be fetched counts as absent. What is not needed is not fetched.
pub(super) fn with_fetched(
    compiled: CompiledPolicy,
    needs: Needs,
    format: Format,
    output: &mut Output<'_>,
) -> Result<CompiledPolicy, Exit> {
    let mut urls = compiled.key_urls();
    urls.retain(|url, _| if url.is_inventory() { needs.inventory } else { needs.keys });
    if urls.is_empty() {
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
            output.error(&format!("nothing is fetched: {error}"));
            return FetchedKeys::new();
        }
    };
    let client = Client::default();
    let mut fetched = FetchedKeys::new();
    for (url, source) in urls {
        match runtime.block_on(client.for_url(url).fetch(url)) {
            Ok(keys) => match jwks::why_unusable(&keys).filter(|_| !url.is_inventory()) {
                // The decision is that of a server that starts with them.
                Some(fault) => {
                    output.error(&format!("keys of {} at `{url}` cannot be used: {fault}", source.issuers));
                }
                None => _ = fetched.insert(url.clone(), Some(keys)),
            },
            Err(error) if url.is_inventory() => {
                output.error(&format!("inventory at `{url}` not fetched, so it counts as absent: {error}"));
            }
            Err(error) => {
                output.error(&format!("keys of {} at `{url}` not fetched: {error}", source.issuers));
            }
        }
    }
    runtime.shutdown_background();
    fetched
}
