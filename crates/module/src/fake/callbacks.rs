//! The callbacks of the fake host.

#[cfg(test)]
use std::ffi::CStr;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

use crate::abi::{Buffer, Callbacks, Pair};

use super::envoy::{BUFFERED, Envoy, Events, RESPONSE_BUFFERED};
use super::{LOG, Metrics, Sent, VALIDATING};

/// Has the hooks use the fake host.
pub(super) fn install() {
    Callbacks {
        log,
        validating,
        define_counter: define,
        define_gauge: define,
        define_histogram: define,
        count: add,
        set_gauge: set,
        record: add,
        header_count,
        headers,
        set_header,
        add_header,
        send_response,
        body_size,
        body_pieces,
        body,
        append_body,
        drain_body,
        is_request_body_buffered,
        is_response_body_buffered,
        buffer_limit,
        set_buffer_limit,
        attribute,
        set_metadata,
        set_metadata_number,
        set_metadata_boolean,
        // As in an Envoy before 1.40.
        set_metadata_struct: None,
        route,
        resume,
        scheduler_new,
        scheduler_commit,
        scheduler_delete,
    }
    .install();
}

/// The callback of this name in an Envoy that has only the log.
#[cfg(test)]
pub(crate) fn only_the_log(name: &CStr) -> *mut c_void {
    if name == c"envoy_dynamic_module_callback_log" {
        log as *mut c_void
    } else {
        std::ptr::null_mut()
    }
}

unsafe extern "C" fn log(_level: u32, line: Buffer) {
    LOG.with_borrow_mut(|log| log.push(text(line)));
}

unsafe extern "C" fn validating() -> bool {
    VALIDATING.get()
}

unsafe extern "C" fn define(
    config: *mut c_void,
    name: Buffer,
    _labels: *const Buffer,
    label_count: usize,
    id: *mut usize,
) -> u32 {
    assert_eq!(label_count, 0);
    // SAFETY: the module passes the configuration of the hook, which is a `Metrics`.
    let metrics = unsafe { &*config.cast::<Metrics>() };
    let mut defined = metrics.defined.borrow_mut();
    // SAFETY: the module's variable.
    unsafe { id.write(defined.len()) };
    defined.push(text(name));
    0
}

unsafe extern "C" fn add(
    envoy: *mut c_void,
    id: usize,
    _: *const Buffer,
    labels: usize,
    by: u64,
) -> u32 {
    measure(envoy, id, labels, |value| value + by)
}

unsafe extern "C" fn set(
    envoy: *mut c_void,
    id: usize,
    _: *const Buffer,
    labels: usize,
    to: u64,
) -> u32 {
    measure(envoy, id, labels, |_| to)
}

fn measure(envoy: *mut c_void, id: usize, labels: usize, change: impl FnOnce(u64) -> u64) -> u32 {
    assert_eq!(labels, 0);
    uncounted(|| {
        let metrics = &stream(envoy).metrics;
        let Some(name) = metrics.defined.borrow().get(id).cloned() else { return 1 };
        let mut values = metrics.values.borrow_mut();
        let value = values.entry(name).or_default();
        *value = change(*value);
        0
    })
}

unsafe extern "C" fn header_count(envoy: *mut c_void, which: u32) -> usize {
    let envoy = stream(envoy);
    envoy.header_count.get().unwrap_or_else(|| envoy.headers(which).borrow().len())
}

unsafe extern "C" fn headers(envoy: *mut c_void, which: u32, into: *mut Pair) -> bool {
    let headers = stream(envoy).headers(which).borrow();
    // SAFETY: the module has room for as many as `header_count` says; without any, no pointer is
    // read.
    let into =
        unsafe { std::slice::from_raw_parts_mut(into.cast::<MaybeUninit<Pair>>(), headers.len()) };
    for (place, (name, value)) in into.iter_mut().zip(headers.iter()) {
        place.write(Pair::new(name, value));
    }
    true
}

fn takes_headers(envoy: *mut c_void) -> bool {
    !stream(envoy).is_frozen.get() && !stream(envoy).has_ended_unheard()
}

unsafe extern "C" fn set_header(
    envoy: *mut c_void,
    which: u32,
    name: Buffer,
    value: Buffer,
) -> bool {
    if !takes_headers(envoy) {
        return false;
    }
    uncounted(|| {
        let wanted = copy(name);
        stream(envoy).headers(which).borrow_mut().retain(|(name, _)| **name != *wanted);
        // SAFETY: the arguments are those of the callback.
        value.length == 0 || unsafe { add_header(envoy, which, name, value) }
    })
}

unsafe extern "C" fn add_header(
    envoy: *mut c_void,
    which: u32,
    name: Buffer,
    value: Buffer,
) -> bool {
    let is_added = value.length > 0 && takes_headers(envoy);
    if is_added {
        uncounted(|| {
            stream(envoy).headers(which).borrow_mut().push((copy(name).into(), copy(value).into()))
        });
    }
    is_added
}

unsafe extern "C" fn send_response(
    envoy: *mut c_void,
    status: u32,
    headers: *const Pair,
    count: usize,
    body: Buffer,
    details: Buffer,
) {
    let envoy = stream(envoy);
    if envoy.has_ended_unheard() {
        return;
    }
    let headers = match count {
        0 => &[],
        // SAFETY: the module passes that many.
        _ => unsafe { std::slice::from_raw_parts(headers, count) },
    };
    let headers = headers.iter().map(|pair| (copy(pair.key), copy(pair.value))).collect();
    let sent = Sent { status, headers, body: copy(body), details: text(details) };
    let earlier = envoy.sent.replace(Some(sent));
    assert_eq!(earlier, None, "a second response");
    if let Some(meanwhile) = super::ON_ANSWER.take() {
        meanwhile();
    }
    if envoy.ends_at_once.get() {
        envoy.end();
    }
}

unsafe extern "C" fn body_size(envoy: *mut c_void, which: u32) -> usize {
    stream(envoy).body(which).borrow().iter().map(|piece| piece.len()).sum()
}

unsafe extern "C" fn body_pieces(envoy: *mut c_void, which: u32) -> usize {
    stream(envoy).body(which).borrow().len()
}

unsafe extern "C" fn body(envoy: *mut c_void, which: u32, into: *mut Buffer) -> bool {
    let pieces = stream(envoy).body(which).borrow();
    // SAFETY: the module has room for as many as `body_pieces` says; without any, no pointer is
    // read.
    let into =
        unsafe { std::slice::from_raw_parts_mut(into.cast::<MaybeUninit<Buffer>>(), pieces.len()) };
    for (place, piece) in into.iter_mut().zip(pieces.iter()) {
        place.write(Buffer::new(piece));
    }
    !pieces.is_empty()
}

/// As in Envoy, the buffered part begins if there is none, and one that is too large ends the
/// stream.
unsafe extern "C" fn append_body(envoy: *mut c_void, which: u32, bytes: Buffer) -> bool {
    let envoy = stream(envoy);
    if envoy.has_ended_unheard() {
        return false;
    }
    let (message, status) = match which {
        BUFFERED => (&envoy.request, 413),
        RESPONSE_BUFFERED => (&envoy.response, 500),
        _ => {
            let mut pieces = envoy.body(which).borrow_mut();
            let exists = !pieces.is_empty();
            if exists {
                pieces.push(copy(bytes).into());
            }
            return exists;
        }
    };
    message.buffered.borrow_mut().push(copy(bytes).into());
    if envoy.is_over_limit(message) {
        envoy.sent.replace(Some(Sent {
            status,
            headers: vec![],
            body: vec![],
            details: String::new(),
        }));
        envoy.end();
    }
    true
}

unsafe extern "C" fn drain_body(envoy: *mut c_void, which: u32, size: usize) -> bool {
    let mut pieces = stream(envoy).body(which).borrow_mut();
    let exists = !pieces.is_empty();
    if exists {
        // It exists also if it is empty.
        *pieces = vec![pieces.concat().split_off(size).into()];
    }
    exists
}

unsafe extern "C" fn is_request_body_buffered(envoy: *mut c_void) -> bool {
    stream(envoy).request.passes_buffered.get()
}

unsafe extern "C" fn is_response_body_buffered(envoy: *mut c_void) -> bool {
    stream(envoy).response.passes_buffered.get()
}

unsafe extern "C" fn buffer_limit(envoy: *mut c_void) -> u64 {
    stream(envoy).buffer_limit.get()
}

unsafe extern "C" fn set_buffer_limit(envoy: *mut c_void, limit: u64) {
    let envoy = stream(envoy);
    envoy.buffer_limit.set(limit);
    // It reads on once half of the limit suffices.
    if envoy.request.buffered_size() <= limit / 2 {
        envoy.is_full.set(false);
    }
}

unsafe extern "C" fn attribute(envoy: *mut c_void, attribute: u32, into: *mut Buffer) -> bool {
    let attributes = stream(envoy).attributes.borrow();
    let Some(value) = attributes.get(&attribute) else { return false };
    // SAFETY: the module's variable.
    unsafe { into.write(Buffer::new(value)) };
    true
}

unsafe extern "C" fn set_metadata(
    envoy: *mut c_void,
    namespace: Buffer,
    key: Buffer,
    value: Buffer,
) {
    let key = format!("{}.{}", text(namespace), text(key));
    stream(envoy).metadata.borrow_mut().insert(key, text(value));
}

unsafe extern "C" fn set_metadata_number(
    envoy: *mut c_void,
    namespace: Buffer,
    key: Buffer,
    value: f64,
) {
    let key = format!("{}.{}", text(namespace), text(key));
    stream(envoy).metadata.borrow_mut().insert(key, format!("{value:?}"));
}

unsafe extern "C" fn set_metadata_boolean(
    envoy: *mut c_void,
    namespace: Buffer,
    key: Buffer,
    value: bool,
) {
    let key = format!("{}.{}", text(namespace), text(key));
    stream(envoy).metadata.borrow_mut().insert(key, value.to_string());
}

unsafe extern "C" fn route(envoy: *mut c_void) -> *const c_void {
    stream(envoy).route.get()
}

unsafe extern "C" fn resume(envoy: *mut c_void) {
    let envoy = stream(envoy);
    if envoy.has_ended_unheard() {
        return;
    }
    envoy.request.pass_on();
    envoy.resumed.set(envoy.resumed.get() + 1);
    if envoy.ends_at_once.get() {
        envoy.end();
    }
}

/// Envoy's scheduler object.
type Scheduler = Arc<Mutex<Events>>;

unsafe extern "C" fn scheduler_new(envoy: *mut c_void) -> *mut c_void {
    let events = Arc::clone(&stream(envoy).events);
    events.lock().unwrap().schedulers += 1;
    Box::into_raw(Box::<Scheduler>::new(events)).cast()
}

unsafe extern "C" fn scheduler_commit(scheduler: *mut c_void, event: u64) {
    // SAFETY: `scheduler_new` has returned it, and it was not deleted.
    let scheduler = unsafe { &*scheduler.cast::<Scheduler>() };
    let mut events = scheduler.lock().unwrap();
    if events.ended {
        events.after_the_end += 1;
    } else {
        events.queue.push(event);
    }
}

unsafe extern "C" fn scheduler_delete(scheduler: *mut c_void) {
    // SAFETY: `scheduler_new` has returned it, and the module deletes it once.
    let scheduler = unsafe { Box::from_raw(scheduler.cast::<Scheduler>()) };
    scheduler.lock().unwrap().schedulers -= 1;
}

/// Runs what only the fake host allocates for, uncounted in a test that counts the module's
/// allocations.
fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(test)]
    {
        let mut result = None;
        allocation_counter::opt_out(|| result = Some(run()));
        result.unwrap()
    }
    #[cfg(not(test))]
    run()
}

/// The stream that a callback gets.
fn stream<'a>(envoy: *mut c_void) -> &'a Envoy {
    // SAFETY: modules pass what their hook got: this is only used while a `FakeStream` calls a
    // hook.
    unsafe { &*envoy.cast::<Envoy>() }
}

fn copy(bytes: Buffer) -> Vec<u8> {
    // SAFETY: the module keeps them during the call of the callback.
    unsafe { bytes.bytes() }.to_vec()
}

fn text(bytes: Buffer) -> String {
    String::from_utf8(copy(bytes)).unwrap()
}
