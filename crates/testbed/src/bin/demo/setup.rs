//! What the demo runs, by variables of the environment: `MODULE=1`, or `PROXY=nginx`.

use std::path::{Path, PathBuf};

use testbed::golden;
use testbed::proxy::{Kind, ProxyStack};
use testbed::{Failed, Guarded, Options, Stack};

/// Which proxy asks rolegate, and where that runs.
#[derive(Debug)]
pub(crate) enum Setup {
    /// Envoy, and rolegate beside it.
    Beside,
    /// Envoy, and rolegate inside it: the folder of its library.
    Inside(PathBuf),
    /// Another proxy.
    Proxy(Kind),
}

impl Setup {
    pub(crate) fn from_environment() -> Result<Self, Box<dyn std::error::Error>> {
        let proxy = std::env::var_os("PROXY").unwrap_or_default();
        let proxy = proxy.to_string_lossy();
        let is_inside = is_set("MODULE");
        if proxy.is_empty() || proxy == "envoy" {
            let program = std::env::current_exe()?;
            let folder = program.parent().map(Path::to_owned).filter(|_| is_inside);
            return Ok(folder.map_or(Self::Beside, Self::Inside));
        }
        if is_inside {
            return Err(Failed::new("MODULE", "rolegate runs inside Envoy only").into());
        }
        let kind = Kind::from_name(&proxy);
        let names = Kind::ALL.map(Kind::name).join(", ");
        let why = format!("`{proxy}` is not one of envoy, {names}");
        Ok(Self::Proxy(kind.ok_or_else(|| Failed::new("PROXY", why))?))
    }

    /// Starts it with this policy.
    pub(crate) async fn start(&self, policy: &Path) -> Result<Box<dyn Guarded>, Failed> {
        self.start_with(policy, &[]).await
    }

    /// The same with these lines of the configuration of the module.
    pub(crate) async fn start_with(
        &self,
        policy: &Path,
        lines: &[&'static str],
    ) -> Result<Box<dyn Guarded>, Failed> {
        let (program, mut options) = (testbed::program()?, Options::default());
        match self {
            Self::Beside => options.arguments.extend(golden::ARGUMENTS),
            Self::Inside(folder) => {
                options.module = Some(folder.clone());
                options.arguments.extend(lines);
            }
            Self::Proxy(kind) => {
                return Ok(Box::new(ProxyStack::start(&program, policy, *kind).await?));
            }
        }
        Ok(Box::new(Stack::start(&program, policy, &options).await?))
    }

    /// The way of a request from the proxy to the application.
    pub(crate) fn way(&self) -> &'static str {
        match self {
            Self::Beside => "-> rolegate (Unix socket) ->",
            Self::Inside(_) => "with rolegate inside it ->",
            Self::Proxy(_) => "-> rolegate (HTTP) ->",
        }
    }
}

/// Whether this variable of the environment is set, and not to 0.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}
