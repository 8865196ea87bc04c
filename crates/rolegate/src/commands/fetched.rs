//! Fetches the keys that the tokens of a command need, and the inventory that its request to a
//! search cluster needs.

use identity::{FetchedKeys, jwks};

use crate::error::CommandError;
use crate::output::Output;
use runtime::compiled_policy::{CompiledPolicy, KeyUrls};
use runtime::keys::Client;

/// The documents that a command needs. They are fetched if the policy has their URLs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The keys of the issuers.
    pub(super) keys: bool,
    /// The inventory of the search cluster.
    pub(super) inventory: bool,
}

/// Compiles the policy with the keys that its issuers publish now, and with the inventory. Tokens
/// whose keys cannot be fetched do not verify. An inventory that cannot be fetched counts as
/// absent.
pub(super) fn with_fetched(
    compiled: CompiledPolicy,
    needs: Needs,
    output: &Output,
) -> Result<CompiledPolicy, CommandError> {
    let mut urls = compiled.key_urls();
    urls.retain(|url, _| if url.is_inventory() { needs.inventory } else { needs.keys });
    if urls.is_empty() {
        return Ok(compiled);
    }
    Ok(CompiledPolicy::compile(compiled.loaded, &fetch(&urls, output), None)?)
}

fn fetch(urls: &KeyUrls, output: &Output) -> FetchedKeys {
    let mut fetched = FetchedKeys::new();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.error(format_args!("nothing is fetched: {error}"));
            return fetched;
        }
    };
    let client = Client::default();
    for (url, source) in urls {
        let issuers = &source.issuers;
        match runtime.block_on(client.for_url(url).fetch(url)) {
            Ok(keys) => match jwks::why_unusable(&keys).filter(|_| !url.is_inventory()) {
                // Such keys count as absent, as on a server that starts with them.
                Some(fault) => {
                    output.error(format_args!(
                        "keys of {issuers} at `{url}` cannot be used: {fault}"
                    ));
                }
                None => _ = fetched.insert(url.clone(), Some(keys)),
            },
            Err(error) if url.is_inventory() => output.error(format_args!(
                "inventory at `{url}` not fetched, so it counts as absent: {error}"
            )),
            Err(error) => {
                output.error(format_args!("keys of {issuers} at `{url}` not fetched: {error}"));
            }
        }
    }
    runtime.shutdown_background();
    fetched
}
