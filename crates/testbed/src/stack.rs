//! All three together.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::client::{Connection, Version};
use crate::envoy::{Envoy, Settings, Target};
use crate::process::Failed;
use crate::rolegate::{ANY_PORT, Rolegate};
use crate::{App, app};

/// An application, Envoy before it and rolegate beside it. Dropping it stops all of them and removes their files.
#[derive(Debug)]
pub struct Stack {
    /// The proxy.
    pub envoy: Envoy,
    /// Those that decide; one, unless [`Options::instances`] says otherwise.
    pub rolegates: Vec<Rolegate>,
    /// The application.
    pub app: app::App,
    folder: TempDir,
}

/// How a [`Stack`] is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// What differs from the shipped Envoy configuration.
    pub envoy: Settings,
    /// Whether rolegate listens on TCP; else on a Unix socket.
    pub tcp: bool,
    /// How many rolegates there are.
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
    /// Starts all of it with the program `rolegate` and this policy.
    ///
    /// # Errors
    /// When a part is missing or does not become ready.
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
        let targets: Vec<Target> = rolegates.iter().map(|it| it.listen.clone()).collect();
        let envoy = Envoy::start(folder.path(), app.address, &targets, &options.envoy).await?;
        Ok(Self { envoy, rolegates, app, folder })
    }

    /// A connection to Envoy.
    ///
    /// # Errors
    /// When Envoy does not listen any more.
    pub async fn connect(&self, version: Version) -> Result<Connection, Failed> {
        Connection::open(self.envoy.address, version).await
    }

    /// Where its files are while it runs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Where the program `rolegate` is: `ROLEGATE=/path`, else beside the program that asks.
///
/// # Errors
/// When it is in neither place.
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
