//! Long paths.

use super::*;

#[test]
fn long_paths_with_several_interpretations_are_invalid() {
    let of = |piece: &str, length: usize| format!("/x{}", piece.repeat(length / piece.len()));
    for piece in ["/%40", "/a;b", "//", "/a/./", "/a/../", "/%2541", "/%61", "/a%3F"] {
        assert!(path(b"GET", of(piece, 8_000).as_bytes()).is_ok(), "{piece}");
        let long = of(piece, 9_000);
        assert_eq!(path(b"GET", long.as_bytes()).unwrap_err(), PathError::TooLong, "{piece}");
    }
    for canonical in
        [of("a/", 60_000), of("/%C3%A9", 60_000), format!("/a%40?{}", "x".repeat(60_000))]
    {
        assert!(path(b"GET", canonical.as_bytes()).is_ok());
    }
}

/// The more interpretations there are, the shorter the path must be: their total length is limited,
/// and so is their cost.
#[test]
fn all_interpretations_of_a_path_together_are_bounded() {
    let all_at_once = "/a%40;b/%2540c%3Bd/e%253Bf/g%253Fh/i%2523j/k%3Fl/m%23n";
    let start = format!("{all_at_once}/j/./k");
    let count = path(b"GET", start.as_bytes()).unwrap().all().count();
    assert!(count > 30, "{count}");
    for piece in ["/a", "/a;b", "/a%40", "/a/./b/..", "//", all_at_once] {
        let (mut valid, mut most) = (0, 0);
        for length in (0..8_000).step_by(100) {
            let raw = format!("{start}{}", piece.repeat(length / piece.len()));
            let Ok(interpretations) = path(b"GET", raw.as_bytes()) else { continue };
            let size: usize =
                interpretations.all().chain(interpretations.deny_only()).map(<[u8]>::len).sum();
            (valid, most) = (valid + 1, most.max(size));
        }
        assert!(valid > 1 && most <= 96 << 10, "{piece}: {valid} valid, {most} bytes");
    }
}

#[test]
fn very_long_paths_are_handled() {
    for unit in ["/a", "//", "/.", "/a;x", "/%40", "/%2541", "/a/..", "%41", "%3F", "/%253F"] {
        let raw = format!("/x{}", unit.repeat(60_000 / unit.len()));
        let _ = path(b"GET", raw.as_bytes()).map(|interpretations| interpretations.all().count());
    }
    let nested = format!("/%{}41", "25".repeat(30_000));
    assert!(path(b"GET", nested.as_bytes()).is_err());
}
