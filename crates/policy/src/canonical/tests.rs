//! Paths and hosts, sentence by sentence of what must hold.

use super::*;

#[test]
fn a_canonical_path_is_borrowed() {
    let readings = path(b"GET", b"/people/1?x=/../y").unwrap();
    assert!(matches!(readings.first, Cow::Borrowed(b"/people/1")));
    assert_eq!(readings.all().count(), 1);
}
