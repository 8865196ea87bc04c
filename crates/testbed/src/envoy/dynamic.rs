//! An Envoy that watches a file with its listener (LDS), so that the listener can be replaced while
//! it serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{CLUSTERS, Envoy, FILE, LISTENERS, Listener, program, render, shipped};
use crate::port::ReservedPort;
use crate::process::Failed;

/// A running Envoy, whose listener can be replaced.
#[derive(Debug)]
pub struct Dynamic {
    /// The proxy.
    pub envoy: Envoy,
    folder: PathBuf,
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
        // With port 0 each listener would get another one.
        let port = ReservedPort::new()?;
        let address = port.address();
        let file = file(folder);
        write(&file, &resource(app, listener, address)?)?;
        let bootstrap = render(&shipped(FILE)?, app, &[])?.replacen(LISTENERS, "", 1);
        let bootstrap = format!(
            "node: {{ id: testbed, cluster: testbed }}\ndynamic_resources:\n  lds_config: {{ path_config_source: {{ \
             path: {} }} }}\n{bootstrap}",
            file.display()
        );
        let modules = listener.module.as_ref().map_or(folder, |module| &module.folder);
        let envoy = Envoy::spawn(
            &program()?,
            folder,
            &bootstrap,
            &[&listener.name],
            modules,
            DRAIN_SECONDS,
        )
        .await?;
        Ok(Self { envoy, folder: folder.to_owned(), app, port, accepted: 1 })
    }

    /// Replaces the listener by this one, which must differ from it, and waits until Envoy has
    /// accepted it.
    pub async fn replace(&mut self, listener: &Listener) -> Result<(), Failed> {
        write(&file(&self.folder), &resource(self.app, listener, self.port.address())?)?;
        let until = Instant::now() + UPDATE_TIMEOUT;
        self.accepted += 1;
        loop {
            let of = async |name: &str| {
                let value = self.envoy.stat(&format!("listener_manager.lds.{name}")).await?;
                Ok::<_, Failed>(value.unwrap_or_default())
            };
            if of("update_success").await? >= self.accepted {
                return Ok(());
            }
            let rejected = of("update_rejected").await?;
            if rejected > 0 || Instant::now() > until {
                let why = format!(
                    "a listener was not accepted, {rejected} were rejected: {}",
                    self.envoy.log()
                );
                return Err(Failed::new("envoy", why));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("listeners.yaml")
}

/// The file with the listener.
fn resource(app: SocketAddr, listener: &Listener, address: SocketAddr) -> Result<String, Failed> {
    const NAME: &str = "    - name: ";
    let missing = || Failed::new(FILE, "it has other sections than expected");
    let all = render(&shipped(FILE)?, app, std::slice::from_ref(listener))?;
    let (_, rest) = all.split_once(LISTENERS).ok_or_else(missing)?;
    let (listener, _) = rest.split_once(CLUSTERS).ok_or_else(missing)?;
    let typed =
        "    - \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n      name: ";
    let listener = listener.replacen(NAME, typed, 1);
    let port = format!("port_value: {}", address.port());
    Ok(format!("resources:\n{}\n", listener.replacen("port_value: 0", &port, 1)))
}

/// Writes a file as Envoy wants it: it notices files that are moved.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let new = file.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
    written.map_err(|error| Failed::io(file.display().to_string(), &error))
}
