//! Which collector is exported to, and how.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::share::Share;

/// The settings of OTLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Whether spans are exported.
    pub traces: bool,
    /// The share of requests without a trace that begin one.
    pub trace_ratio: Share,
    /// The URL of the collector. It is checked when the policy is loaded: an error about an argument would show its secrets.
    pub endpoint: Option<String>,
    /// A file with the only certificate authorities that the collector is trusted by, in PEM.
    pub ca: Option<PathBuf>,
    /// A file with headers of each request to the collector.
    pub headers: Option<PathBuf>,
    /// Maximum time that a request to the collector may take.
    pub timeout: Duration,
    /// Maximum number of records in a request.
    pub batch_size: u16,
    /// The `service.name` of the resource.
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource: Vec<ResourceAttribute>,
}

/// An attribute of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttribute {
    pub(super) name: String,
    pub(super) value: String,
}

/// Why a text is no [`ResourceAttribute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an attribute: write one such as `deployment.environment.name=production`")]
pub struct ResourceAttributeError;

impl OtlpSettings {
    /// Nothing is exported.
    #[must_use]
    pub fn off() -> Self {
        Self {
            traces: false,
            trace_ratio: Share::NONE,
            endpoint: None,
            ca: None,
            headers: None,
            timeout: Duration::from_secs(10),
            batch_size: 512,
            service_name: "rolegate".to_owned(),
            resource: Vec::new(),
        }
    }
}

impl FromStr for ResourceAttribute {
    type Err = ResourceAttributeError;

    fn from_str(text: &str) -> Result<Self, ResourceAttributeError> {
        match text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            Some(_) | None => Err(ResourceAttributeError),
        }
    }
}
