//! The revision of a policy and of its keys: the same for the same files and keys on every machine.

use aws_lc_rs::digest::{Context, SHA256};
use document::PolicyFile;
use identity::FetchedKeys;
use serde::Serialize;

/// Which policy and which keys decide. Each is the first 12 hexadecimal digits of a SHA-256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// The bytes of all files of the policy, with password files and key files, without their
    /// paths.
    pub policy: Box<str>,
    /// The URLs and bytes of all fetched key sets; `None` if there are none.
    pub keys: Option<Box<str>>,
}

impl Revision {
    pub(crate) fn new(files: &[PolicyFile], fetched: &FetchedKeys) -> Self {
        Self { policy: hash_files(files), keys: None }.with_keys(fetched)
    }

    /// The revision of the same policy with these keys.
    pub(crate) fn with_keys(&self, fetched: &FetchedKeys) -> Self {
        // The inventory of a search cluster is no key, and may change with each new index.
        let has_keys = fetched.iter().any(|(url, keys)| keys.is_some() && !url.is_inventory());
        Self { policy: self.policy.clone(), keys: has_keys.then(|| hash_keys(fetched)) }
    }
}

fn hash_files(files: &[PolicyFile]) -> Box<str> {
    let mut context = Context::new(&SHA256);
    add_count(&mut context, files.len());
    files.iter().for_each(|file| add(&mut context, &file.bytes));
    short_hex(context)
}

fn hash_keys(fetched: &FetchedKeys) -> Box<str> {
    let keys = fetched.iter().filter_map(|(url, keys)| Some((url, keys.as_ref()?)));
    let mut fetched: Vec<_> = keys.filter(|(url, _)| !url.is_inventory()).collect();
    fetched.sort();
    let mut context = Context::new(&SHA256);
    for (url, keys) in fetched {
        add(&mut context, url.with_secrets().as_bytes());
        add(&mut context, keys);
    }
    short_hex(context)
}

fn short_hex(context: Context) -> Box<str> {
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
