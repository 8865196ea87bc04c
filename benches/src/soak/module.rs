//! rolegate inside Envoy, whose listener is replaced, too.

use std::path::{Path, PathBuf};

use testbed::envoy::{Dynamic, Listener, Module, Settings};
use testbed::{App, Failed};

/// What is running.
pub(super) struct Inside {
    pub(super) proxy: Dynamic,
    pub(super) app: App,
    folder: PathBuf,
    module: PathBuf,
}

impl Inside {
    /// Starts it with the policy in `folder`.
    pub(super) async fn start(module: &Path, folder: &Path) -> Result<Self, Failed> {
        let module = std::fs::canonicalize(module)
            .map_err(|error| Failed::io(module.display().to_string(), &error))?;
        let app = App::start().await?;
        let proxy = Dynamic::start(folder, app.address, &listener(folder, &module, 0)).await?;
        Ok(Self { proxy, app, folder: folder.to_owned(), module })
    }

    /// Replaces the listener.
    pub(super) async fn replace_listener(&mut self, update: u64) -> Result<(), Failed> {
        self.proxy.replace(&listener(&self.folder, &self.module, update)).await
    }
}

/// A listener that differs from the previous one. Every other one has the same settings of the
/// module and shares its policy; the others start it anew, with empty caches, while the previous
/// one ends.
fn listener(folder: &Path, module: &Path, update: u64) -> Listener {
    let policy = folder.join("policy.yaml");
    let queue = format!("hash-queue: {}", 256 + update / 2 % 2);
    let module = Module { folder: module.to_owned(), policy, decisions: None, more: vec![queue] };
    // Makes no difference to these requests.
    let settings = Settings { normalize_path: update.is_multiple_of(2), ..Settings::default() };
    Listener { module: Some(module), settings, ..Listener::new("public") }
}
