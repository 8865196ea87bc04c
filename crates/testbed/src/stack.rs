//! Application, Envoy and rolegate together.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::client::{Connection, Version};
use crate::envoy::{Envoy, Settings, Target};
use crate::process::Failed;
use crate::rolegate::{ANY_PORT, Rolegate};
use crate::{App, app};

/// An application, Envoy in front of it, and rolegate. Dropping it stops them and removes their files.
#[derive(Debug)]
pub struct Stack {
    /// The proxy.
    pub envoy: Envoy,
    /// The authorization services; one, unless [`Options::instances`] differs.
    pub rolegates: Vec<Rolegate>,
    /// The application.
    pub app: app::App,
    folder: TempDir,
}

/// The options of a [`Stack`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Differences from the shipped Envoy configuration.
    pub envoy: Settings,
    /// Whether rolegate listens on TCP instead of a Unix socket.
    pub tcp: bool,
    /// The number of rolegates.
    pub instances: usize,
    /// Further arguments of `rolegate serve`.
    pub arguments: Vec<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self { envoy: Settings::default(), tcp: false, instances: 1, arguments: Vec::new() }
    }
}

impl Stack {
    /// Starts everything, with the program `rolegate` and this policy.
    ///
    /// # Errors
    /// If a part is missing or does not become ready.
    pub async fn start(rolegate: &Path, policy: &Path, options: &Options) -> Result<Self, Failed> {
        let folder = tempfile::Builder::new()
            .prefix("rolegate-testbed-")
            .tempdir()
            .map_err(|error| Failed::io("temporary folder", &error))?;
        let app = App::start().await?;
        let mut rolegates = Vec::new();
        for number in 0..options.instances {
            let listen = if options.tcp {
                Target::Tcp(ANY_PORT)
            } else {
                Target::Unix(folder.path().join(format!("{number}.sock")))
            };
            rolegates
                .push(Rolegate::start(rolegate, policy, listen, folder.path(), &options.arguments).await?);
        }
        let targets: Vec<Target> = rolegates.iter().map(|rolegate| rolegate.listen.clone()).collect();
        let envoy = Envoy::start(folder.path(), app.address, &targets, &options.envoy).await?;
        Ok(Self { envoy, rolegates, app, folder })
    }

    /// Opens a connection to Envoy.
    ///
    /// # Errors
    /// If Envoy no longer listens.
    pub async fn connect(&self, version: Version) -> Result<Connection, Failed> {
        Connection::open(self.envoy.address, version).await
    }

    /// The folder of its files, which exists as long as the stack.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The program `rolegate`: `ROLEGATE=/path`, else the one in the folder of the current program.
///
/// # Errors
/// If it is in neither place.
pub fn program() -> Result<PathBuf, Failed> {
    let named = std::env::var_os("ROLEGATE").map(PathBuf::from);
    let own = std::env::current_exe().map_err(|error| Failed::io("rolegate", &error))?;
    let path = named.unwrap_or_else(|| own.with_file_name("rolegate"));
    if path.is_file() {
        Ok(path)
    } else {
        Err(Failed::new(
            "rolegate",
            format!("no file at {}: run `cargo build --bin rolegate`", path.display()),
        ))
    }
}
