//! Check calls as Envoy sends them for requests of curl and of browsers.

use envoy_types::pb::envoy::service::auth::v3::CheckRequest;
use envoy_types::pb::google::protobuf::Timestamp;
use load::check_message::Checked;
use prost::Message as _;

/// The credentials of alice in `policies/people`.
pub const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";

/// The encodings of headers: their names, and whether they are separate lines
/// (`encode_raw_headers`).
pub const SHAPES: [(&str, bool); 2] = [("map", false), ("raw", true)];

/// The headers of a request.
pub type Lines<'a> = Vec<(&'a str, &'a str)>;

/// A request of curl: a message of about 560 bytes, with Basic.
#[must_use]
pub fn small(authorization: &str) -> Lines<'_> {
    vec![
        ("accept", "*/*"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("authorization", authorization),
        ("user-agent", "curl/8.14.1"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", "0b9bb6f3-3c4b-4f6f-9a6c-6f6f5f1d2c3b"),
    ]
}

/// A request of a browser: a message of about 1.7 KB with a cookie; longer if `authorization` is a
/// token.
#[must_use]
pub fn large(authorization: &str) -> Lines<'_> {
    let mut lines = small(authorization);
    lines.extend([
        ("accept-language", "en-GB,en;q=0.9,de;q=0.8,fr;q=0.7"),
        ("cache-control", "no-cache"),
        ("cookie", COOKIE),
        ("dnt", "1"),
        ("priority", "u=1, i"),
        ("referer", "https://www.example.com/people/overview?sort=name&page=2"),
        ("sec-ch-ua", "\"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\""),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        ("sec-fetch-dest", "empty"),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-site", "same-site"),
    ]);
    lines
}

/// A session encrypted into a cookie, as web frameworks do it, and other typical browser cookies.
const COOKIE: &str = "session=\
    bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB1L9RIvNEVUxTveLruM0rfj0WAK1jHDhaXXzOI8d4VFmtvBtMkA_-SNV1td\
    pcY4BAEl9l2w_j4kSUt26phkV9mGCE_tCLl4r019GWp0RqhrWACeY2thHbFiEbZamq3_KcXlLZxQjFAjRzRNjAetkcvWBor8df9i\
    kvBioJyjgcieced7mprp4wsNvbb1EKJk753ngVAde2uSronrBZxat0PbZ1humPrSfaC5lovAOaHvNMk5ubjlI6i--J1HhgjF7PbK\
    NYdY9tJ-bPRScpN5d6dI_Yg5HbZ5ztp9x78fAF7oeb7q13mUz1czQewXtYu_frNNJxHJk8HZdrEosxiNwYKaK0w0L1Qz6-WRodp3\
    4BPRtyR1Vi1IV43Ki4S6xmUcPLkBukcZyAtv6RGwkafAUSS2Tu7Olk4JwFjvj5gF2spUa-fPRqB4_tT6_QteOv8USAK4U_iuRZpP\
    DBSt0zFLfMOm72y9IWHq6nlDzoaTuYJNI9F5P_scD8oFtgDTiZtEyXedHg4tlFnQZSOtE-; \
    theme=dark; consent=analytics%3D0%26ads%3D0; _first_visit=1793836800; \
    cart=eyJpdGVtcyI6W3siaWQiOjEyMywibiI6Mn0seyJpZCI6NDU2LCJuIjoxfV19";

/// The message for `GET path` with these headers.
#[must_use]
pub fn encoded(lines: &Lines<'_>, raw_headers: bool, path: &str) -> Vec<u8> {
    let (source, host) = (Some("203.0.113.7"), "people.example.com");
    let checked = Checked { source, host, path, headers: lines, raw_headers, ..Checked::default() };
    let mut message: CheckRequest = checked.message();
    if let Some(request) =
        message.attributes.as_mut().and_then(|attributes| attributes.request.as_mut())
    {
        request.time = Some(Timestamp { seconds: 1_795_000_000, nanos: 123_456_000 });
    }
    message.encode_to_vec()
}

/// The message of the experiment `wire` in its gRPC frame: about 300 bytes, as in the measurement
/// of P1 in `benches/README.md`.
#[must_use]
pub fn wire(authorization: &str) -> Vec<u8> {
    let headers =
        [("authorization", authorization), ("user-agent", "h2load"), ("x-forwarded-proto", "http")];
    let host = "127.0.0.1:10000";
    Checked { host, headers: &headers, raw_headers: false, ..Checked::default() }.framed().to_vec()
}

/// The same request as nginx puts it to HTTP forward-auth (`deploy/nginx`).
#[must_use]
pub fn nginx(authorization: &str) -> Vec<u8> {
    format!(
        "GET /auth HTTP/1.1\r\nHost: rolegate\r\nX-Original-Method: GET\r\n\
         X-Original-Host: 127.0.0.1:10000\r\nX-Original-URI: /people\r\nX-Real-IP: 203.0.113.7\r\n\
         Authorization: {authorization}\r\nUser-Agent: h2load\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_sizes_of_real_ones() {
        for (shape, raw) in SHAPES {
            let length = encoded(&small(ALICE), raw, "/people").len();
            assert!((500..620).contains(&length), "{shape}: {length}");
            let length = encoded(&large(ALICE), raw, "/people").len();
            assert!((1_500..1_900).contains(&length), "{shape}: {length}");
        }
        let length = wire(ALICE).len();
        assert!((290..330).contains(&length), "{length}");
    }
}
