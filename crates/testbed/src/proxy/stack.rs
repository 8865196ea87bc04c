//! Application, rolegate, and another proxy than Envoy together.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Kind, Proxy, Timeouts};
use crate::app::App;
use crate::envoy::Target;
use crate::golden;
use crate::guarded::Guarded;
use crate::process::Failed;
use crate::rolegate::{ANY_PORT, Rolegate};

/// An application, a proxy in front of it with its configuration under `deploy/`, and rolegate,
/// which logs every decision. Dropping it stops them and removes their files.
#[derive(Debug)]
pub struct ProxyStack {
    kind: Kind,
    proxy: Proxy,
    rolegate: Rolegate,
    app: App,
    _folder: TempDir,
}

/// The maximum time for a line of the decision log to appear, on a busy machine.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

impl ProxyStack {
    /// Starts everything, with the program `rolegate` and this policy.
    pub async fn start(rolegate: &Path, policy: &Path, kind: Kind) -> Result<Self, Failed> {
        let folder = tempfile::Builder::new()
            .prefix("rolegate-testbed-")
            .tempdir()
            .map_err(|error| Failed::io("temporary folder", &error))?;
        let app = App::start().await?;
        let any_port = ANY_PORT.to_string();
        let mut arguments = vec!["--http", &any_port, "--http-profile", kind.profile()];
        arguments.extend(["--http-trusted", "127.0.0.1/32"]);
        arguments.extend(golden::ARGUMENTS);
        let socket = Target::Unix(folder.path().join("grpc.sock"));
        let mut rolegate =
            Rolegate::start(rolegate, policy, socket, folder.path(), &arguments).await?;
        let addresses = (rolegate.forward_auth().await?, app.address);
        let proxy = Proxy::start(kind, addresses, folder.path(), Timeouts::Long).await?;
        let stack = Self { kind, proxy, rolegate, app, _folder: folder };
        stack.wait_for_routes().await?;
        Ok(stack)
    }

    /// Sends a request until the proxy has its routes, and waits for the line of its decision.
    /// Otherwise the first case could take that line for its own.
    async fn wait_for_routes(&self) -> Result<(), Failed> {
        self.proxy.wait_for_routes().await?;
        let end = Instant::now() + LINE_TIMEOUT;
        while self.decisions().is_empty() {
            if Instant::now() > end {
                return Err(Failed::new(self.kind.name(), "no request gets a decision"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Guarded for ProxyStack {
    fn proxy(&self) -> &'static str {
        self.kind.title()
    }

    fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    fn app(&self) -> &App {
        &self.app
    }

    fn rolegates(&self) -> &[Rolegate] {
        std::slice::from_ref(&self.rolegate)
    }

    fn decisions(&self) -> Vec<Value> {
        self.rolegate.decisions()
    }
}
