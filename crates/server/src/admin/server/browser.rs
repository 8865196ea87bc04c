//! Requests that a website makes a browser send.
//!
//! A browser adds the header `Sec-Fetch-Site` (Fetch Metadata) to each request to `localhost`, to a
//! loopback address or over HTTPS. The header tells whether the site that caused the request is the
//! requested site. A page cannot change the header. Probes, Prometheus and command-line clients do
//! not send it.

use hyper::HeaderMap;

const SITE: &str = "sec-fetch-site";

/// Whether a page of another origin caused the request, other than by a navigation: a link that
/// opens the requested page in a tab is permitted.
pub(super) fn is_cross_site_subrequest(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    sites.any(|site| site != "same-origin" && site != "none") && !is_navigation(headers)
}

/// Whether a browser sent the request.
pub(super) fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(SITE) || headers.contains_key(hyper::header::ORIGIN)
}

/// Whether a tab will show the page. False for a page in a frame, and for a prefetch.
fn is_navigation(headers: &HeaderMap) -> bool {
    has_single_value(headers, "sec-fetch-mode", "navigate")
        && has_single_value(headers, "sec-fetch-dest", "document")
        && !headers.contains_key("sec-purpose")
}

fn has_single_value(headers: &HeaderMap, name: &str, value: &str) -> bool {
    headers.get_all(name).iter().eq([value])
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
        assert!(!is_cross_site_subrequest(&headers(&[])), "probes and Prometheus");
        assert!(
            !is_cross_site_subrequest(&headers(&[(SITE, "none"), navigation[0], navigation[1]])),
            "a typed address"
        );
        assert!(!is_cross_site_subrequest(&headers(&[
            (SITE, "same-origin"),
            (MODE, "no-cors"),
            (DEST, "style")
        ])));
        for site in ["cross-site", "same-site", "", "new"] {
            assert!(
                !is_cross_site_subrequest(&headers(&[(SITE, site), navigation[0], navigation[1]])),
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
                    is_cross_site_subrequest(&headers(&[&[(SITE, site)], more].concat())),
                    "{site} {more:?}"
                );
            }
        }
        assert!(
            is_cross_site_subrequest(&headers(&[(SITE, "none"), (SITE, "cross-site")])),
            "each value counts"
        );
    }
}
