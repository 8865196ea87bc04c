//! The memory of requests that wait, bounded for the whole process.
//!
//! Requests may wait for the rest of their message, or for the verification of their credentials.
//! Without a bound, peers that send slowly could occupy all memory. A request that is answered at
//! once is not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::notices::Overload;

/// Approximate memory, in bytes, of a waiting request in addition to its message: its task, its
/// stream, its headers.
pub(crate) const OVERHEAD: usize = 2 << 10;

/// How many more requests may wait, and the bytes that all of them together may still take.
#[derive(Debug)]
pub(crate) struct Budget {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// The bytes of a request in a budget, and its place among the waiting requests. Dropping this
/// returns both.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    pub(crate) bytes: usize,
    has_place: bool,
}

impl Budget {
    /// A budget of requests and bytes.
    pub(crate) fn new(requests: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self { requests: AtomicUsize::new(requests), bytes: AtomicUsize::new(bytes) })
    }

    /// Reserves the place and the overhead of a waiting request, and `bytes` for its message.
    ///
    /// # Errors
    /// When not enough is left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Overload> {
        let mut reservation = self.reserve_bytes(bytes)?;
        reservation.take_place()?;
        Ok(reservation)
    }

    /// Reserves the overhead of a waiting request, and `bytes`, without a place.
    pub(crate) fn reserve_bytes(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Overload> {
        let mut reservation = Reservation { budget: Arc::clone(self), bytes: 0, has_place: false };
        reservation.more(OVERHEAD.saturating_add(bytes))?;
        Ok(reservation)
    }
}

impl Reservation {
    /// Takes a place, unless this reservation has one already.
    pub(crate) fn take_place(&mut self) -> Result<(), Overload> {
        if !self.has_place {
            take(&self.budget.requests, 1).ok_or(Overload::WaitingChecks)?;
            self.has_place = true;
        }
        Ok(())
    }

    /// Reserves more bytes.
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), Overload> {
        take(&self.budget.bytes, bytes).ok_or(Overload::Memory)?;
        self.bytes += bytes;
        Ok(())
    }
}

/// Subtracts `number`; `None` if less is available.
fn take(available: &AtomicUsize, number: usize) -> Option<()> {
    available.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(number)).ok().map(drop)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.bytes.fetch_add(self.bytes, Relaxed);
        self.budget.requests.fetch_add(usize::from(self.has_place), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_is_returned_on_drop() {
        let budget = Budget::new(9, 10 + 2 * OVERHEAD);
        let mut reservation = budget.reserve(6).unwrap();
        assert_eq!(budget.reserve(5).err(), Some(Overload::Memory));
        assert_eq!(reservation.more(5 + OVERHEAD), Err(Overload::Memory));
        drop(reservation);
        assert!(budget.reserve(10 + OVERHEAD).is_ok());
    }

    #[test]
    fn so_many_requests_wait_and_no_more() {
        let budget = Budget::new(2, 4 * OVERHEAD);
        let (first, mut second) = (budget.reserve(0).unwrap(), budget.reserve_bytes(0).unwrap());
        assert_eq!([second.take_place(), second.take_place()], [Ok(()), Ok(())], "one place");
        assert_eq!(budget.reserve(0).err(), Some(Overload::WaitingChecks));
        drop(first);
        // A request without memory takes no place.
        assert_eq!(budget.reserve(9 * OVERHEAD).err(), Some(Overload::Memory));
        assert!(budget.reserve(0).is_ok());
    }
}
