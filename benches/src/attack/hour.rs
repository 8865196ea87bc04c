//! Only the password flood, for a given time, with a line per minute and a summary.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::Failed;

use super::passwords::{self, Plan, Tally};
use super::report::mib;
use super::server::Server;

/// The interval between sign-ins of new users.
const SIGN_IN_EVERY: Duration = Duration::from_secs(10);
const CAPACITY_TIME: Duration = Duration::from_secs(5);

/// Floods the server, prints each line at once, and returns the whole text.
pub(crate) fn flood(
    server: &mut Server,
    time: Duration,
    print: &mut dyn FnMut(&str),
) -> Result<(), Failed> {
    assert!(passwords::verify(server.address), "alice cannot sign in");
    let capacity = passwords::capacity(server, CAPACITY_TIME)?;
    let start = Instant::now();
    let (before, hashes) = (server.resident(), server.hashes()?);
    print(&format!(
        "300 wrong passwords per second from 250 addresses for {} s; a verified caller asks 5 times per second, a new\n\
         user signs in each {} s, both from other addresses; timeouts 2 s; capacity {capacity:.1} hashes/s; {} MiB",
        time.as_secs(),
        SIGN_IN_EVERY.as_secs(),
        mib(before),
    ));
    print(&format!(
        "{:>6} | verified: {HEAD} | first sign-ins: {HEAD} | flood: {HEAD} | hashes/s ÷capacity | MiB",
        "second"
    ));
    let tally = Arc::new(Tally::default());
    let plan = Plan {
        address: server.address,
        until: start + time,
        one_address: false,
        sign_in_every: SIGN_IN_EVERY,
    };
    let threads = passwords::start(plan, &tally, 0);
    let (mut most, mut last, mut read, mut rate) = (before, hashes, start, 0.0);
    while start.elapsed() < time && server.is_running() {
        let line = Instant::now();
        let length = Duration::from_secs(60).min(time.saturating_sub(start.elapsed()));
        while line.elapsed() < length {
            std::thread::sleep(Duration::from_millis(100).min(length));
            most = most.max(server.resident());
        }
        // A failed request for the metrics does not end the run: the next line includes these
        // hashes.
        if let Ok(now) = server.hashes() {
            rate = (now - last) / read.elapsed().as_secs_f64();
            (last, read) = (now, Instant::now());
        }
        let line = row(start.elapsed(), &tally, rate, capacity, server.resident());
        print(&line);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let rate = (last - hashes) / (read - start).as_secs_f64();
    print("in all, with the calls that were under way at the end:");
    print(&row(time, &tally, rate, capacity, server.resident()));
    print(&format!(
        "memory: before {} MiB, at most {}, at the end {}",
        mib(before),
        mib(most),
        mib(server.resident())
    ));
    print(&tally.honest());
    let answered = tally.hashed();
    print(&format!("hashes: {:.0}, of them answered in time: {answered}", last - hashes));
    // Measures again, because the speed of the machine may have changed since the start.
    if let Ok(at_the_end) = passwords::capacity(server, CAPACITY_TIME) {
        print(&format!("capacity: {capacity:.1} hashes/s before, {at_the_end:.1} after"));
    }
    if !server.is_running() {
        print("the server has ended by itself");
    }
    Ok(())
}

const HEAD: &str = "asked/allowed/401/denied/failed/timed out, slowest ms";

/// Formats a line. All counts are since the start.
fn row(at: Duration, tally: &Tally, rate: f64, capacity: f64, resident: u64) -> String {
    let mut row = format!("{:>6}", at.as_secs());
    for counts in [&tally.verified, &tally.sign_ins, &tally.flood] {
        let _ = write!(row, " | {counts}");
    }
    let _ = write!(row, " | {rate:.1} {:.2} | {}", rate / capacity, mib(resident));
    row
}
