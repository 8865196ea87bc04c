//! The revision: an id of a policy and its keys, the same for the same files and keys on every machine.

use aws_lc_rs::digest::{Context, SHA256};
use identity::FetchedKeys;
use policy::Source;

/// The first 12 hexadecimal digits of a SHA-256 over the bytes of all policy files and the URLs and bytes of all
/// fetched key sets. The paths of the files do not count.
pub(crate) fn revision(sources: &[Source], fetched: &FetchedKeys) -> Box<str> {
    let mut fetched: Vec<_> = fetched.iter().collect();
    fetched.sort();
    let mut context = Context::new(&SHA256);
    add_count(&mut context, sources.len());
    sources.iter().for_each(|source| add(&mut context, &source.bytes));
    for (url, keys) in fetched {
        add(&mut context, url.with_secrets().as_bytes());
        add(&mut context, keys);
    }
    let digest = context.finish();
    digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn add(context: &mut Context, bytes: &[u8]) {
    add_count(context, bytes.len());
    context.update(bytes);
}

fn add_count(context: &mut Context, count: usize) {
    context.update(&u64::try_from(count).unwrap_or(u64::MAX).to_le_bytes());
}
