//! The contrast of text to its background, as WCAG 2.2 defines it (1.4.3, level AA).

use testbed::Browser;

/// For each element with text of its own: the text, its colour, the colour behind it, and whether
/// it is large.
const COLOURS: &str = "[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && \
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => { let b = e; \
    while (b && getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)') b = b.parentElement; const s = getComputedStyle(e); \
    return [e.textContent.trim().slice(0, 40), s.color, getComputedStyle(b ?? document.body).backgroundColor, \
    parseFloat(s.fontSize) >= 24].join('|') })";

/// Each text has a contrast of at least 4.5, large text of 3.
pub(crate) fn check(browser: &mut Browser, page: &str) {
    let found = browser.value(COLOURS).unwrap();
    let found = found.as_array().unwrap();
    assert!(found.len() > 50, "{page}: {} texts", found.len());
    for shown in found.iter().map(|shown| shown.as_str().unwrap()) {
        let mut parts = shown.rsplit('|');
        let is_large = parts.next() == Some("true");
        let (background, text) =
            (luminance(parts.next().unwrap()), luminance(parts.next().unwrap()));
        let contrast = (background.max(text) + 0.05) / (background.min(text) + 0.05);
        assert!(contrast >= if is_large { 3.0 } else { 4.5 }, "{page}: {contrast:.2} of {shown}");
    }
}

/// The relative luminance of a colour such as `rgb(27, 31, 36)`.
fn luminance(colour: &str) -> f64 {
    let channels = colour.trim_start_matches("rgb(").trim_end_matches(')').split(", ");
    let channels = channels.map(|channel| {
        let channel =
            channel.parse::<f64>().unwrap_or_else(|_| panic!("not an opaque colour: {colour}"))
                / 255.0;
        if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    });
    channels.zip([0.2126, 0.7152, 0.0722]).map(|(channel, weight)| channel * weight).sum()
}

#[test]
fn black_on_white_has_the_most_contrast() {
    assert!(
        luminance("rgb(0, 0, 0)") < 1e-9 && (luminance("rgb(255, 255, 255)") - 1.0).abs() < 1e-9
    );
    assert!((luminance("rgb(119, 119, 119)") - 0.184).abs() < 1e-3);
}
