//! The shape and the header of a token (RFC 7515, 4 and 7.1; RFC 8725, 3.9 to 3.11).

use identity::CredentialsError;
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer::{bearer, claims, encode, header, jwk, set, sign, signed, signed_text, token};

fn auth() -> Auth {
    compile(&tokens_of(issuer(file(&set(&[jwk("ES256")])))))
}

fn error_of(token: &str) -> CredentialsError {
    authenticate(&auth(), &bearer(token)).unwrap_err()
}

/// Authenticates a token with one more header parameter and a valid signature.
fn with(name: &str, value: Value) -> Result<(), CredentialsError> {
    let mut header = header("ES256");
    header[name] = value;
    authenticate(&auth(), &bearer(&signed("ES256", &header, &claims()))).map(drop)
}

/// RFC 7515, 7.1: three parts. Five are a JWE (RFC 7516, 7.1).
#[test]
fn a_token_without_exactly_three_parts_is_invalid() {
    let good = token("ES256");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let shapes = [
        String::new(),
        ".".into(),
        "..".into(),
        "...".into(),
        signed.into(),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{signature}"),
        format!("{signed}..{signature}"),
        format!("{good}.a.b"),
        "a.b.c".into(),
        "a.b.c.d.e".into(),
        good.replace('.', ".."),
    ];
    for shape in shapes {
        assert_eq!(error_of(&shape), CredentialsError::MalformedToken, "{shape}");
    }
}

/// RFC 7515, 7.2: only the compact serialization is accepted.
#[test]
fn json_serialization_is_invalid() {
    let good = token("ES256");
    let parts: Vec<&str> = good.split('.').collect();
    let flat =
        json!({ "protected": parts[0], "payload": parts[1], "signature": parts[2] }).to_string();
    assert_eq!(error_of(&flat), CredentialsError::MalformedToken);
    assert_eq!(error_of(&encode(flat)), CredentialsError::MalformedToken);
}

/// RFC 7516: encrypted tokens are not supported, in any form.
#[test]
fn encrypted_tokens_are_invalid() {
    let five = [
        encode(r#"{"alg":"dir","enc":"A128GCM"}"#),
        String::new(),
        "AAAA".into(),
        "AAAA".into(),
        "AAAA".into(),
    ];
    assert_eq!(error_of(&five.join(".")), CredentialsError::MalformedToken);
    assert_eq!(with("enc", json!("A128GCM")), Err(CredentialsError::UnsafeHeader));
}

/// Only `[A-Za-z0-9_.-]`, and one encoding of each value (RFC 4648, 3.5).
#[test]
fn only_canonical_base64url_is_accepted() {
    let good = token("ES256");
    assert!(authenticate(&auth(), &bearer(&good)).is_ok());
    for extra in ["=", "==", " ", "\n", "\t", "+", "/", "%", "\u{0}", "é", ",", "~", "\"", ";", "?"]
    {
        assert_eq!(
            error_of(&format!("{good}{extra}")),
            CredentialsError::MalformedToken,
            "{extra:?} at the end"
        );
        assert_eq!(
            error_of(&good.replacen('.', &format!("{extra}."), 1)),
            CredentialsError::MalformedToken,
            "{extra:?} inside"
        );
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let within = [&signature[..40], extra, &signature[40..]].concat();
        assert_eq!(
            error_of(&format!("{signed}.{within}")),
            CredentialsError::MalformedToken,
            "{extra:?} within"
        );
    }
    // 64 bytes of signature are 86 characters, of which the last has four bits over.
    let last = good.chars().last().unwrap();
    let next = char::from(u32::from(last).to_le_bytes()[0] + 1);
    assert_eq!(
        error_of(&format!("{}{next}", &good[..good.len() - 1])),
        CredentialsError::MalformedToken
    );
    assert_eq!(
        error_of(&good.replace('-', "+").replace('_', "/").replacen('.', "+.", 1)),
        CredentialsError::MalformedToken
    );
}

/// At most 16 KiB.
#[test]
fn a_token_over_16_kib_is_invalid() {
    let of = |length: usize| {
        let mut claims = claims();
        claims["pad"] = json!("x".repeat(length));
        signed("ES256", &header("ES256"), &claims)
    };
    let (fits, too_long) = (of(11_000), of(12_300));
    assert!(fits.len() < 16_384 && too_long.len() > 16_384);
    assert!(authenticate(&auth(), &bearer(&fits)).is_ok());
    assert_eq!(error_of(&too_long), CredentialsError::MalformedToken);
    assert_eq!(error_of(&"a".repeat(1 << 20)), CredentialsError::MalformedToken);
}

/// RFC 8725, 2.4 and RFC 7515, 4: parsers differ in which of two members they use. At every level,
/// including names with escapes.
#[test]
fn a_duplicate_member_name_is_invalid() {
    let (head, body) = (header("ES256").to_string(), claims().to_string());
    let doubled =
        |text: &str, member: &str| format!("{}{member}}}", &text[..text.len() - 1].to_owned());
    let headers = [r#","alg":"ES256""#, r#","kid":"ES256""#, r#","a\u006cg":"none""#];
    for member in headers {
        assert_eq!(
            error_of(&signed_text("ES256", &doubled(&head, member), &body)),
            CredentialsError::MalformedToken,
            "{member}"
        );
    }
    let members = [
        r#","sub":"root""#,
        r#","exp":99999999999"#,
        r#","aud":"x""#,
        r#","x":{"a":1,"a":1}"#,
        r#","x":[{"a":1,"a":2}]"#,
    ];
    for member in members {
        assert_eq!(
            error_of(&signed_text("ES256", &head, &doubled(&body, member))),
            CredentialsError::MalformedToken,
            "{member}"
        );
    }
}

#[test]
fn parts_that_are_not_json_objects_are_invalid() {
    let (head, body) = (header("ES256").to_string(), claims().to_string());
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for text in [
        "",
        " ",
        "null",
        "1",
        "\"x\"",
        "[]",
        "[{}]",
        "{",
        "{}x",
        "{}{}",
        "\u{feff}{}",
        "{'a':1}",
        "{\"a\":1,}",
        deep.as_str(),
    ] {
        assert_eq!(
            error_of(&signed_text("ES256", text, &body)),
            CredentialsError::MalformedToken,
            "{text:?}"
        );
        assert_eq!(
            error_of(&signed_text("ES256", &head, text)),
            CredentialsError::MalformedToken,
            "{text:?}"
        );
    }
    let message = [encode(&head), encode(b"{\"sub\":\"\xff\"}")].join(".");
    let token = [message.clone(), encode(sign("ES256", message.as_bytes()))].join(".");
    assert_eq!(error_of(&token), CredentialsError::MalformedToken);
}

/// RFC 8725, 3.10; CVE-2018-0114 (`jwk`): a token cannot bring its own key or cause a fetch.
#[test]
fn keys_in_the_header_are_invalid() {
    assert_eq!(with("jwk", jwk("ES256")), Err(CredentialsError::UnsafeHeader));
    for name in ["jku", "x5u"] {
        assert_eq!(
            with(name, json!("https://id.example.com/jwks.json")),
            Err(CredentialsError::UnsafeHeader),
            "{name}"
        );
    }
    assert_eq!(with("x5c", json!(["MIIB"])), Err(CredentialsError::UnsafeHeader));
    for name in ["jwk", "jku", "x5u", "x5c"] {
        assert_eq!(
            with(name, Value::Null),
            Err(CredentialsError::UnsafeHeader),
            "{name} that is null"
        );
    }
}

/// RFC 7515, 4.1.11: no extension is supported, even if `crit` is empty or names a known parameter.
#[test]
fn any_crit_is_invalid() {
    for crit in [
        json!(["exp"]),
        json!(["b64"]),
        json!(["alg"]),
        json!([]),
        json!("exp"),
        json!(null),
        json!({}),
    ] {
        assert_eq!(with("crit", crit.clone()), Err(CredentialsError::UnsafeHeader), "{crit}");
    }
}

/// RFC 7797, 3 and 6: an unencoded payload.
#[test]
fn an_unencoded_payload_is_invalid() {
    for b64 in [json!(false), json!(null), json!("false"), json!(0)] {
        assert_eq!(with("b64", b64.clone()), Err(CredentialsError::UnsafeHeader), "{b64}");
    }
    assert_eq!(with("b64", json!(true)), Ok(()), "the default");
}

/// RFC 8725, 3.6.
#[test]
fn a_compressed_payload_is_invalid() {
    assert_eq!(with("zip", json!("DEF")), Err(CredentialsError::UnsafeHeader));
}

#[test]
fn other_parameters_are_ignored() {
    for name in ["x5t", "x5t#S256", "cty", "nonce", "Alg", "JWK"] {
        assert_eq!(with(name, json!("x")), Ok(()), "{name}");
    }
}

/// RFC 8725, 3.11; RFC 7515, 4.1.9: without regard to case, `application/` may be left out.
#[test]
fn a_token_without_the_required_type_is_invalid() {
    let with_type = |required: &str, typ: Option<Value>| {
        let mut settings = issuer(file(&set(&[jwk("ES256")])));
        settings.required_type = Some(required.into());
        let header = match typ {
            Some(typ) => json!({ "alg": "ES256", "kid": "ES256", "typ": typ }),
            None => json!({ "alg": "ES256", "kid": "ES256" }),
        };
        authenticate(&compile(&tokens_of(settings)), &bearer(&signed("ES256", &header, &claims())))
            .map(drop)
    };
    for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"] {
        assert_eq!(with_type("at+jwt", Some(json!(typ))), Ok(()), "{typ}");
        assert_eq!(with_type("application/at+jwt", Some(json!(typ))), Ok(()), "{typ}");
    }
    for typ in ["JWT", "", "at+jwt ", "text/at+jwt", "application/x/at+jwt", "application/", "at"] {
        assert_eq!(
            with_type("at+jwt", Some(json!(typ))),
            Err(CredentialsError::WrongType),
            "{typ}"
        );
    }
    assert_eq!(with_type("at+jwt", None), Err(CredentialsError::WrongType));
    assert_eq!(with_type("at+jwt", Some(json!(["at+jwt"]))), Err(CredentialsError::MalformedToken));
}

/// RFC 6750, 2.1 and RFC 9110, 11.1.
#[test]
fn the_scheme_is_case_insensitive() {
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert!(authenticate(&auth(), &format!("{scheme} {}", token("ES256"))).is_ok(), "{scheme}");
    }
    assert_eq!(
        authenticate(&auth(), &format!("DPoP {}", token("ES256"))).unwrap_err(),
        CredentialsError::UnsupportedScheme
    );
    assert_eq!(authenticate(&auth(), "Bearer").unwrap_err(), CredentialsError::MalformedToken);
    let twice = format!("Bearer {}, Bearer {}", token("ES256"), token("ES256"));
    assert_eq!(authenticate(&auth(), &twice).unwrap_err(), CredentialsError::MalformedToken);
}
