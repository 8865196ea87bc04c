//! An Envoy that watches a file with its listener (LDS), so that the listener can be replaced while
//! it serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Envoy, Listener, configuration, program};
use crate::port::ReservedPort;
use crate::process::Failed;

/// A running Envoy, whose listener can be replaced.
#[derive(Debug)]
pub struct Dynamic {
    /// The proxy.
    pub envoy: Envoy,
    file: PathBuf,
    app: SocketAddr,
    /// The port of the listener, the same for each.
    port: ReservedPort,
    /// How many listeners it has accepted.
    accepted: u64,
}

/// Longer than the 5 seconds that Envoy gives to HTTP/2 connections after its first GOAWAY, so that
/// each ends gracefully.
const DRAIN_SECONDS: u32 = 10;
/// How long Envoy may take to notice a listener on a busy machine.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(30);

impl Dynamic {
    /// Starts Envoy in `folder`, in front of the application at `app`, with this listener, which
    /// has a module.
    pub async fn start(
        folder: &Path,
        app: SocketAddr,
        listener: &Listener,
    ) -> Result<Self, Failed> {
        let file = folder.join("listeners.json");
        // With port 0 each listener would get another port.
        let port = ReservedPort::new()?;
        write(&file, app, listener, &port)?;
        let mut bootstrap = configuration(app, &[], 0)?;
        bootstrap["node"] = json!({ "id": "testbed", "cluster": "testbed" });
        bootstrap["dynamic_resources"] =
            json!({ "lds_config": { "path_config_source": { "path": file } } });
        let (bootstrap, names) = (bootstrap.to_string(), [listener.name.as_str()]);
        let modules = listener.module.as_ref().map_or(folder, |module| &module.folder);
        let envoy =
            Envoy::spawn(&program()?, folder, &bootstrap, &names, modules, DRAIN_SECONDS).await?;
        Ok(Self { envoy, file, app, port, accepted: 1 })
    }

    /// Replaces the listener by a different listener, and waits until Envoy has accepted it.
    pub async fn replace(&mut self, listener: &Listener) -> Result<(), Failed> {
        write(&self.file, self.app, listener, &self.port)?;
        let end = Instant::now() + UPDATE_TIMEOUT;
        self.accepted += 1;
        while self.updates("success").await? < self.accepted {
            let rejected = self.updates("rejected").await?;
            if rejected > 0 || Instant::now() > end {
                let why = format!("a listener was not accepted, {rejected} were rejected");
                return Err(self.envoy.failed(&why));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn updates(&self, result: &str) -> Result<u64, Failed> {
        let name = format!("listener_manager.lds.update_{result}");
        Ok(self.envoy.stat(&name).await?.unwrap_or_default())
    }
}

/// Writes the listener as Envoy wants it: it notices files that are moved.
fn write(
    file: &Path,
    app: SocketAddr,
    listener: &Listener,
    port: &ReservedPort,
) -> Result<(), Failed> {
    let listeners = std::slice::from_ref(listener);
    let mut config = configuration(app, listeners, port.address().port())?;
    let mut resource = config["static_resources"]["listeners"][0].take();
    resource["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
    let new = file.with_extension("new");
    let written = std::fs::write(&new, json!({ "resources": [resource] }).to_string())
        .and_then(|()| std::fs::rename(&new, file));
    written.map_err(|error| Failed::io(file.display().to_string(), &error))
}
