//! 300 wrong passwords per second, beside a verified caller and users who sign in for the first
//! time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Scene;
use crate::attack::passwords::{self, Plan, Tally};
use crate::attack::server;

/// The interval between sign-ins of new users.
const SIGN_IN_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn from_other_addresses(scene: &Scene) -> String {
    flood(scene, false)
}

pub(crate) fn from_one_address(scene: &Scene) -> String {
    flood(scene, true)
}

fn flood(scene: &Scene, one_address: bool) -> String {
    let tally = Arc::new(Tally::default());
    let plan = Plan {
        address: scene.address,
        until: scene.until,
        one_address,
        sign_in_every: SIGN_IN_EVERY,
    };
    if !passwords::verify(scene.address) {
        return "alice cannot sign in".to_owned();
    }
    let (start, before) = (Instant::now(), hashes(scene));
    // Each round has its own users, because a user who has signed in stays verified.
    let threads = passwords::start(plan, &tally, u64::from(scene.round) * 200);
    std::thread::sleep(scene.left());
    let (done, took) = (hashes(scene) - before, start.elapsed().as_secs_f64());
    // Counted now, because later answers do not belong to this round.
    let answered = tally.hashed();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    format!(
        "{}; {done:.0} hashes, {:.2} of capacity, {answered} of them answered in time; \
         asked/allowed/401/denied/failed/timed out, slowest ms: verified {}; first sign-ins {}; flood {}",
        tally.honest(),
        done / took / scene.capacity.unwrap_or(f64::NAN),
        tally.verified,
        tally.sign_ins,
        tally.flood
    )
}

fn hashes(scene: &Scene) -> f64 {
    server::hashes(scene.admin).unwrap_or(f64::NAN)
}
