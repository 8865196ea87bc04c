//! How much the checks may take whose credentials are being verified: together, and those of one
//! client network.
//!
//! Whoever sends wrong credentials can let many checks wait, each with a message of up to the size
//! that Envoy permits for headers. Together they get at most half of the memory of all checks that
//! wait, so that messages can still arrive, also those of known callers. Those of one network get a
//! share, and at most as much as they leave to all others, so that callers from other networks can
//! still sign in.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::ClientNetwork;

use super::notices::Overload;

/// The checks of one network may take a quarter of all places, and always so many, even if fewer
/// are left.
const NETWORK_PLACES_DIVISOR: usize = 4;
const MIN_NETWORK_PLACES: usize = 16;
/// All verifications may take half of the memory of all checks that wait, those of one network an
/// eighth.
const BYTES_DIVISOR: usize = 2;
const NETWORK_BYTES_DIVISOR: usize = 8;
/// The first check of a network may take so many bytes, even if little is left: more than Envoy
/// permits for headers, so only a request with a body takes more.
const SMALL: usize = 128 << 10;

/// The checks whose credentials are being verified. Shared by all workers; those of callers whose
/// credentials are cached are not among them.
#[derive(Debug)]
pub(super) struct Verifications {
    max: Usage,
    max_of_network: Usage,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    total: Usage,
    networks: HashMap<ClientNetwork, Usage>,
}

/// Places and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    places: usize,
    bytes: usize,
}

/// The share of one check. Dropping this returns it.
#[derive(Debug)]
pub(super) struct Share {
    verifications: Arc<Verifications>,
    network: ClientNetwork,
    bytes: usize,
}

impl Usage {
    /// With one more check of so many bytes.
    fn with(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn without(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl Verifications {
    /// Of a server in which so many checks may wait, which take at most so many bytes.
    pub(super) fn new(places: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            // Only to know how many are left: the budget of all waiting checks sees to it that no
            // more are taken.
            max: Usage { places, bytes: bytes / BYTES_DIVISOR },
            max_of_network: Usage {
                places: (places / NETWORK_PLACES_DIVISOR).max(MIN_NETWORK_PLACES),
                bytes: bytes / NETWORK_BYTES_DIVISOR,
            },
            table: Mutex::default(),
        })
    }

    /// Reserves a share for a check. Credentials that were verified before need none: others of
    /// their network, who send wrong credentials, must not keep them from the queue that serves
    /// them first.
    ///
    /// # Errors
    /// When the network, or all together, already take as much as they may, or less would be left
    /// than the network takes.
    pub(super) fn share(
        self: &Arc<Self>,
        verified_before: bool,
        network: ClientNetwork,
        bytes: usize,
    ) -> Result<Option<Share>, Overload> {
        if verified_before { Ok(None) } else { self.hold(network, bytes).map(Some) }
    }

    fn hold(self: &Arc<Self>, network: ClientNetwork, bytes: usize) -> Result<Share, Overload> {
        let mut table = self.lock();
        let total = table.total.with(bytes);
        let of_network = table.networks.get(&network).copied().unwrap_or_default().with(bytes);
        let left_places = self.max.places.saturating_sub(total.places);
        let left_bytes = self.max.bytes.checked_sub(total.bytes).ok_or(Overload::Memory)?;
        if of_network.places == 1 {
            // The first check of a network may be longer than its share.
            if of_network.bytes > left_bytes.max(SMALL) {
                return Err(Overload::Memory);
            }
        } else if of_network.bytes > self.max_of_network.bytes.min(left_bytes)
            || of_network.places
                > self.max_of_network.places.min(left_places).max(MIN_NETWORK_PLACES)
        {
            return Err(Overload::ClientNetwork);
        }
        table.total = total;
        table.networks.insert(network, of_network);
        Ok(Share { verifications: Arc::clone(self), network, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.verifications.lock();
        table.total = table.total.without(self.bytes);
        if let Entry::Occupied(mut usage) = table.networks.entry(self.network) {
            *usage.get_mut() = usage.get().without(self.bytes);
            if usage.get().places == 0 {
                usage.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
