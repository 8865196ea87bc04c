//! Client certificates: which of their names are which user, in each form in which a proxy passes
//! them on.

use allocation_counter::measure;
use identity::{
    Attempted, Certificate, Credentials, CredentialsError, LocalCache, MalformedCertificate,
    NotAuthenticated,
};
use policy::model::{Identity, SourceId};
use rcgen::{CertificateParams, KeyPair, SanType};

use crate::settings::*;

const WEB: &str = "spiffe://example.org/ns/shop/sa/web";
const BOT: &str = "spiffe://example.org/ns/ops/sa/bot";
const API: &str = "api.example.com";

fn settings() -> Identity {
    let text = r#"
version: 1
identity:
  certificates:
    from: peer
    users: { "spiffe://example.org/ns/{ns}/sa/{sa}": "{ns}/{sa}", "dns:api.example.com": api }
    groups: { "spiffe://example.org/ns/ops/sa/{sa}": [ops, "{sa}"], "dns:api.example.com": [ops, partners] }
    user_prefix: "cert:"
    group_prefix: "g:"
"#;
    let files = document::MapFiles::new("policy.yaml", text);
    policy::load(&files, std::path::Path::new("policy.yaml")).unwrap().policy.identity
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// A certificate with these names, as Envoy sends it: in PEM with percent-encoding.
fn pem(names: &[SanType]) -> String {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.to_vec();
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let encoded = pem.bytes().map(|byte| match byte {
        b'\n' | b'\r' | b' ' | b'+' | b'/' | b'=' => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    });
    encoded.collect()
}

/// The user and groups, joined; `None` if the caller is anonymous.
fn check(auth: &Auth, certificate: Certificate<'_>) -> Result<Option<String>, CredentialsError> {
    let sent = Some(Credentials::Certificate(certificate));
    let cache = &mut LocalCache::default();
    let found = match auth.authenticate(sent, None, now(), cache, attach) {
        Ok(caller) => Ok(caller.map(|caller| caller.subject.clone())),
        Err(NotAuthenticated::Invalid(error)) => Err(error),
        Err(NotAuthenticated::Pending(_)) => panic!("a certificate needs no other thread"),
    };
    let cache = &mut LocalCache::default();
    let inline = auth.authenticate_inline(sent, now(), cache, attach);
    let inline = inline.map(|caller| caller.map(|caller| caller.subject.user.clone()));
    let users = found.clone().map(|caller| caller.map(|caller| caller.user));
    assert_eq!(users, inline);
    Ok(found?.map(|subject| {
        assert_eq!((subject.source, subject.issuer), (Some(SourceId::CERTIFICATES), None));
        let groups: Vec<&str> = subject.groups.iter().map(|group| &**group).collect();
        format!("{} {}", subject.user, groups.join(","))
    }))
}

fn user(text: &str) -> Result<Option<String>, CredentialsError> {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_name_is_a_user_in_each_form() {
    let auth = compile(&settings());
    let bot = user("cert:ops/bot g:ops,g:bot");
    assert_eq!(check(&auth, Certificate::Principal(BOT.as_bytes())), bot);
    assert_eq!(check(&auth, Certificate::Pem(pem(&[uri(BOT)]).as_bytes())), bot);
    let names = Certificate::FirstNames { uri: BOT.as_bytes(), dns: b"" };
    assert_eq!(check(&auth, names), bot);
    let element = format!("By=spiffe://a;Hash=1;Subject=\"CN={WEB}\";URI={BOT}");
    assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), bot);
    let element = format!("By=x;Hash=1;Cert=\"{}\";URI={WEB}", pem(&[uri(BOT)]));
    assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), bot, "the certificate counts");
    assert_eq!(check(&auth, Certificate::Named(&[BOT.to_owned()])), bot);

    let api = user("cert:api g:ops,g:partners");
    assert_eq!(check(&auth, Certificate::Principal(API.as_bytes())), api);
    assert_eq!(
        check(&auth, Certificate::Pem(pem(&[dns("b.example.com"), dns(API)]).as_bytes())),
        api
    );
    let names = Certificate::FirstNames { uri: b"https://a.example", dns: API.as_bytes() };
    assert_eq!(check(&auth, names), api);
    assert_eq!(
        check(&auth, Certificate::Xfcc(b"Hash=1;DNS=b.example.com;DNS=api.example.com")),
        api
    );
}

#[test]
fn other_names_are_no_credentials() {
    let auth = compile(&settings());
    for principal in [
        "",
        "CN=api.example.com",
        "CN=spiffe://example.org/ns/ops/sa/bot",
        "O=a,CN=api.example.com",
        "2.5.4.3=api.example.com",
        "dns:api.example.com",
        "API.example.com",
        "*.example.com",
        "api.example.com.",
        "spiffe://example.com/ns/ops/sa/bot",
        "spiffe://example.org/ns/ops/sa/bot/",
        "spiffe://example.org/ns/ops/sa/",
        "spiffe://example.org/ns/../sa/bot",
        "spiffe://example.org/ns/./sa/bot",
        "spiffe://example.org/ns/o%70s/sa/bot",
        "spiffe://example.org/ns/ops/sa/bot?x",
        "spiffe://example.org/ns/o,ps/sa/bot",
        "Spiffe://example.org/ns/ops/sa/bot",
        "spiffe://example.org/ns/op\u{e4}/sa/bot",
        "spiffe://example.org/ns/ops/sa/b\not",
    ] {
        assert_eq!(
            check(&auth, Certificate::Principal(principal.as_bytes())),
            Ok(None),
            "{principal}"
        );
        let names = [format!("dns:{principal}"), principal.to_owned()];
        if principal != "dns:api.example.com" {
            assert_eq!(check(&auth, Certificate::Named(&names)), Ok(None), "{principal}");
        }
    }
    // A URI with the scheme `dns` is no DNS name, and a DNS name no URI.
    for names in [[uri("dns:api.example.com")], [dns("spiffe.example.org")]] {
        assert_eq!(check(&auth, Certificate::Pem(pem(&names).as_bytes())), Ok(None));
    }
    let names = Certificate::FirstNames { uri: b"dns:api.example.com", dns: BOT.as_bytes() };
    assert_eq!(check(&auth, names), Ok(None));
    for element in ["By=spiffe://example.org/ns/ops/sa/bot;Hash=1", "Hash=1", "uri=x;Uri=y;Chain=z"]
    {
        assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), Ok(None), "{element}");
    }
    assert_eq!(check(&auth, Certificate::Xfcc(b"URI=\xff;DNS=\xff")), Ok(None));
}

#[test]
fn a_certificate_is_one_user() {
    let auth = compile(&settings());
    let several = Err(CredentialsError::SeveralUsers);
    assert_eq!(check(&auth, Certificate::Pem(pem(&[uri(BOT), uri(WEB)]).as_bytes())), several);
    assert_eq!(check(&auth, Certificate::Pem(pem(&[dns(API), uri(WEB)]).as_bytes())), several);
    let names = Certificate::FirstNames { uri: WEB.as_bytes(), dns: API.as_bytes() };
    assert_eq!(check(&auth, names), several);
    let element = format!("URI={WEB};URI={BOT}");
    assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), several);
    let attempted =
        auth.attempted(Credentials::Certificate(names), CredentialsError::SeveralUsers, now());
    let detail = Some("its names are the users `shop/web` and `api`".to_owned());
    assert_eq!(attempted, Attempted { detail, ..Attempted::default() });
    // Twice the same user is one.
    let element = format!("URI={BOT};URI={BOT};URI=https://x.example");
    assert_eq!(
        check(&auth, Certificate::Xfcc(element.as_bytes())),
        user("cert:ops/bot g:ops,g:bot")
    );
}

#[test]
fn a_certificate_that_cannot_be_read_is_invalid() {
    let auth = compile(&settings());
    let malformed = Err(CredentialsError::MalformedCertificate);
    let good = pem(&[uri(BOT)]);
    let cut = good.get(..good.len() / 2).unwrap();
    let many: Vec<SanType> = (0..300).map(|number| dns(&format!("a{number}.example"))).collect();
    let long = format!("{good}{}", "%0A".repeat(30_000));
    for wrong in ["", "x", cut, &good.replace("M", "N"), &pem(&many), &long] {
        assert_eq!(check(&auth, Certificate::Pem(wrong.as_bytes())), malformed, "{wrong:.60}");
        let element = format!("URI={BOT};Cert=\"{wrong}\"");
        assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), malformed, "{wrong:.60}");
    }
    let element = format!("Cert=\"{good}\";Cert=\"{good}\"");
    assert_eq!(check(&auth, Certificate::Xfcc(element.as_bytes())), malformed);
    let many = "URI=spiffe://a/b;".repeat(300) + "URI=c";
    assert_eq!(check(&auth, Certificate::Xfcc(many.as_bytes())), malformed);
    assert_eq!(Certificate::Pem(b"x").names(), Err(MalformedCertificate));
}

/// The same bytes in another form, or as other credentials, are another caller.
#[test]
fn a_cached_certificate_is_found_by_its_form_alone() {
    let auth = compile(&settings());
    let cache = &mut LocalCache::default();
    let mut find =
        |credentials| match auth.authenticate(Some(credentials), None, now(), cache, attach) {
            Ok(caller) => Ok(caller.map(|caller| caller.subject.user.to_string())),
            Err(NotAuthenticated::Invalid(error)) => Err(error),
            Err(NotAuthenticated::Pending(_)) => panic!("nothing is pending"),
        };
    let name = BOT.as_bytes();
    let bot = Ok(Some("cert:ops/bot".to_owned()));
    assert_eq!(find(Credentials::Certificate(Certificate::Principal(name))), bot);
    let unsupported = Err(CredentialsError::UnsupportedScheme);
    assert_eq!(find(Credentials::ApiKey(name)), unsupported);
    assert_eq!(find(Credentials::Authorization(name)), unsupported);
    assert_eq!(find(Credentials::Certificate(Certificate::Xfcc(name))), Ok(None));
    let malformed = Err(CredentialsError::MalformedCertificate);
    assert_eq!(find(Credentials::Certificate(Certificate::Pem(name))), malformed);
    for (uri, dns) in [(&b""[..], name), (name.split_at(5).0, name.split_at(5).1)] {
        let names = Certificate::FirstNames { uri, dns };
        assert_eq!(find(Credentials::Certificate(names)), Ok(None));
    }
    let names = Certificate::FirstNames { uri: name, dns: b"" };
    assert_eq!(find(Credentials::Certificate(names)), bot);
}

#[test]
fn a_known_certificate_allocates_nothing() {
    let auth = compile(&settings());
    let pem = pem(&[uri(BOT)]);
    let element = format!("By=a;Hash=b;URI={BOT}");
    for certificate in [
        Certificate::Principal(BOT.as_bytes()),
        Certificate::Pem(pem.as_bytes()),
        Certificate::Xfcc(element.as_bytes()),
        Certificate::FirstNames { uri: BOT.as_bytes(), dns: b"" },
    ] {
        let cache = &mut LocalCache::default();
        let mut authenticates = |second| {
            let sent = Some(Credentials::Certificate(certificate));
            let now = now() + std::time::Duration::from_secs(second);
            auth.authenticate(sent, None, now, cache, attach).unwrap().is_some()
        };
        assert!(authenticates(0));
        let known = measure(|| assert!((0..100).all(|_| authenticates(0))));
        let shared = measure(|| assert!((0..100).all(&mut authenticates)));
        assert_eq!([known.count_total, shared.count_total], [0, 0], "{certificate:?}");
    }
}

#[test]
fn no_certificate_is_shown() {
    let shown = format!("{:?}", Credentials::Certificate(Certificate::Principal(BOT.as_bytes())));
    assert!(!shown.contains("bot"), "{shown}");
}
