//! Limits the checks whose credentials are being verified, in total and per client network.
//!
//! Attackers with wrong credentials can make many checks wait, each with a message of up to the
//! size that Envoy permits for headers. All verifications together get at most half of the memory
//! of waiting checks, so that messages can still arrive. A network may use a fixed share, and never
//! more than would stay free for the other networks. So callers from these can still sign in.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::ClientNetwork;

use super::notices::Overload;

/// A network may take a quarter of all places.
const NETWORK_PLACES_DIVISOR: usize = 4;
/// A network may take this many places, even if fewer places would stay free.
const MIN_NETWORK_PLACES: usize = 16;
/// All verifications may take half of the memory of waiting checks, and a network an eighth.
const BYTES_DIVISOR: usize = 2;
const NETWORK_BYTES_DIVISOR: usize = 8;
/// The first check of a network may take this many bytes even if fewer bytes would stay free, as
/// long as all verifications together do not exceed their limit. This is more than Envoy permits
/// for headers, so only a request with a body takes more.
const MIN_NETWORK_BYTES: usize = 128 << 10;

/// The checks whose credentials are being verified. All workers share this. A check with cached
/// credentials is never one of them.
#[derive(Debug)]
pub(crate) struct Verifications {
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

/// The place and the bytes of a check in the share of its network. Dropping this returns both.
#[derive(Debug)]
pub(crate) struct NetworkReservation {
    verifications: Arc<Verifications>,
    network: ClientNetwork,
    bytes: usize,
}

impl Usage {
    /// The usage with another check of this size.
    fn with(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn without(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl Verifications {
    /// The limits of a server in which at most `places` checks, of `bytes` in total, may wait.
    pub(crate) fn new(places: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            // `places` only serves to compute how many are free. The number of all waiting checks
            // is limited elsewhere, by their budget.
            max: Usage { places, bytes: bytes / BYTES_DIVISOR },
            max_of_network: Usage {
                places: (places / NETWORK_PLACES_DIVISOR).max(MIN_NETWORK_PLACES),
                bytes: bytes / NETWORK_BYTES_DIVISOR,
            },
            table: Mutex::default(),
        })
    }

    /// Reserves a place and these bytes for a check. Credentials that were verified before need no
    /// reservation (`None`). So attackers in the same network cannot keep them out of the queue,
    /// which serves them first.
    ///
    /// # Errors
    /// When the check would exceed the limit of its network or of all networks, or its network
    /// would then use more than stays free.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        verified_before: bool,
        network: ClientNetwork,
        bytes: usize,
    ) -> Result<Option<NetworkReservation>, Overload> {
        if verified_before { Ok(None) } else { self.take(network, bytes).map(Some) }
    }

    fn take(
        self: &Arc<Self>,
        network: ClientNetwork,
        bytes: usize,
    ) -> Result<NetworkReservation, Overload> {
        let mut table = self.lock();
        let total = table.total.with(bytes);
        let of_network = table.networks.get(&network).copied().unwrap_or_default().with(bytes);
        let free_places = self.max.places.saturating_sub(total.places);
        let free_bytes = self.max.bytes.checked_sub(total.bytes).ok_or(Overload::Memory)?;
        if of_network.places == 1 {
            // The first check of a network may be longer than its share.
            if of_network.bytes > free_bytes.max(MIN_NETWORK_BYTES) {
                return Err(Overload::Memory);
            }
        } else if of_network.bytes > self.max_of_network.bytes.min(free_bytes)
            || of_network.places
                > self.max_of_network.places.min(free_places).max(MIN_NETWORK_PLACES)
        {
            return Err(Overload::ClientNetwork);
        }
        table.total = total;
        table.networks.insert(network, of_network);
        Ok(NetworkReservation { verifications: Arc::clone(self), network, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NetworkReservation {
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
