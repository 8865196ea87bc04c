//! Requests that a website makes a browser send.
//!
//! A browser says with each request to `localhost`, a loopback address or over HTTPS which site
//! caused it (Fetch Metadata, `Sec-Fetch-Site`); a page cannot change that. Probes, Prometheus and
//! command lines do not send the header.

use hyper::HeaderMap;

const SITE: &str = "sec-fetch-site";

/// Whether a website caused the request: another origin, and not by a link that a person follows to
/// a page of its own.
pub(super) fn is_of_website(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    sites.any(|site| site != "same-origin" && site != "none") && !is_navigation(headers)
}

/// Whether a browser sent the request.
pub(super) fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(SITE) || headers.contains_key(hyper::header::ORIGIN)
}

/// Whether the page will be what a tab shows. It is not if a frame shows it, or if it is only
/// fetched beforehand.
fn is_navigation(headers: &HeaderMap) -> bool {
    let is_only = |name: &str, value: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|first| first == value) && values.next().is_none()
    };
    is_only("sec-fetch-mode", "navigate")
        && is_only("sec-fetch-dest", "document")
        && !headers.contains_key("sec-purpose")
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        pairs.iter().map(pair).for_each(|(name, value)| _ = headers.append(name, value));
        headers
    }

    #[test]
    fn a_website_may_link_to_a_page_and_do_nothing_else() {
        const MODE: &str = "sec-fetch-mode";
        const DEST: &str = "sec-fetch-dest";
        let navigation = [(MODE, "navigate"), (DEST, "document")];
        assert!(!is_of_website(&headers(&[])), "probes and Prometheus");
        assert!(
            !is_of_website(&headers(&[(SITE, "none"), navigation[0], navigation[1]])),
            "a typed address"
        );
        assert!(!is_of_website(&headers(&[
            (SITE, "same-origin"),
            (MODE, "no-cors"),
            (DEST, "style")
        ])));
        for site in ["cross-site", "same-site", "", "new"] {
            assert!(
                !is_of_website(&headers(&[(SITE, site), navigation[0], navigation[1]])),
                "{site}: a link"
            );
            for more in [
                &[][..],
                &[(MODE, "navigate")],
                &[(DEST, "document")],
                &[(MODE, "navigate"), (DEST, "iframe")],
                &[(MODE, "no-cors"), (DEST, "image")],
                &[(MODE, "cors"), (DEST, "empty")],
                &[(MODE, "no-cors"), (DEST, "document")],
                &[navigation[0], navigation[1], ("sec-purpose", "prefetch;prerender")],
                &[navigation[0], navigation[1], (DEST, "iframe")],
            ] {
                assert!(
                    is_of_website(&headers(&[&[(SITE, site)], more].concat())),
                    "{site} {more:?}"
                );
            }
        }
        assert!(
            is_of_website(&headers(&[(SITE, "none"), (SITE, "cross-site")])),
            "each value counts"
        );
    }
}
