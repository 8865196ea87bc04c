//! Why a configuration of Envoy is rejected.

use std::io;

use runtime::LoadError;
use runtime::settings::PolicySource;
use runtime::threads::Unfinished;
use server::{Address, BindError};

use crate::abi::MetricError;
use crate::settings::SettingsError;

/// Why a filter or a route has no policy. Envoy's log shows it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Its configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The policy cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its files were not read in time.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// The system lacks a resource, such as for a new thread.
    #[error("cannot start: {}", runtime::start_error(.0, "`hash-threads`"))]
    System(#[from] io::Error),
    /// The address of the admin pages cannot be bound.
    #[error("`admin`: {0}")]
    Bind(#[from] BindError),
    /// Another policy has that address.
    #[error("`admin` {address} is that of the policy {policy}: choose another address")]
    AddressInUse {
        /// The address.
        address: Address,
        /// The policy that has it.
        policy: PolicySource,
    },
    /// Envoy does not define a metric.
    #[error(transparent)]
    Metric(#[from] MetricError),
}
