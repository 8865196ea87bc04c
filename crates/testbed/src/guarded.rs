//! An application behind any proxy that asks rolegate.

use std::fmt;
use std::net::SocketAddr;

use serde_json::Value;

use crate::app::App;
use crate::client::{Connection, Version};
use crate::process::Failed;
use crate::rolegate::Rolegate;

/// An application behind a proxy that asks rolegate about each request.
pub trait Guarded: fmt::Debug {
    /// The name of the proxy, for people.
    fn proxy(&self) -> &'static str;

    /// Where clients connect to the proxy.
    fn address(&self) -> SocketAddr;

    /// The application.
    fn app(&self) -> &App;

    /// The processes that the proxy asks; none if rolegate runs inside it.
    fn rolegates(&self) -> &[Rolegate];

    /// All decisions that are logged so far: a JSON object per request, in order.
    fn decisions(&self) -> Vec<Value>;
}

impl dyn Guarded + '_ {
    /// Opens a connection to the proxy.
    pub async fn connect(&self, version: Version) -> Result<Connection, Failed> {
        Connection::open(self.address(), version).await
    }
}
