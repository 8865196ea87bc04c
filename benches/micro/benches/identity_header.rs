//! Saying and reading who the caller is: the compact identity header beside JSON Web Tokens,
//! Protocol Buffers and postcard.
//!
//! `plain` is the bare form, without a code or base64: what the codecs compare. `header` is the
//! value of a header, signed and verified: HMAC-SHA256 for the compact form and `HS256`, and a
//! public key for `EdDSA`. Sizes repeat nothing: each role, group and claim has a text of its own.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails ends")]

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use identity_header::{Claims, Key, Verifier, encode, format};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use prost::Message;
use serde::{Deserialize, Serialize};

const EXPIRES: u64 = 4_000_000_000;
const SECRET: &[u8; 32] = b"an example of a secret: 32 bytes";

/// A subject, for codecs that own their texts.
#[derive(Clone, PartialEq, Eq, Hash, Message, Serialize, Deserialize)]
struct Owned {
    #[prost(string, tag = "1")]
    aud: String,
    #[prost(string, tag = "2")]
    rev: String,
    #[prost(string, tag = "3")]
    sub: String,
    #[prost(string, repeated, tag = "4")]
    roles: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    groups: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    claims: Vec<String>,
    #[prost(uint64, tag = "7")]
    exp: u64,
}

/// The same with borrowed texts, as postcard can read it.
#[derive(Deserialize)]
struct Borrowed<'a> {
    aud: &'a str,
    rev: &'a str,
    sub: &'a str,
    #[serde(borrow)]
    roles: Vec<&'a str>,
    #[serde(borrow)]
    groups: Vec<&'a str>,
    #[serde(borrow)]
    claims: Vec<&'a str>,
    exp: u64,
}

fn subject(roles: usize, groups: usize, claims: usize, length: usize) -> Owned {
    let texts = |what: &str, count: usize, times: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("{what}-{number}-{}", number * 7919).repeat(times))
            .collect()
    };
    Owned {
        aud: "shop".into(),
        rev: "3f9c0a1b2c3d".into(),
        sub: "ann@example.com".into(),
        roles: texts("role", roles, 1),
        groups: texts("group", groups, 1),
        claims: texts("claim", 2 * claims, length),
        exp: EXPIRES,
    }
}

/// How many bytes the texts of an identity have, so that each codec must look at all of them.
fn length<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(str::len).sum()
}

impl Owned {
    fn len(&self) -> usize {
        let lists = self.roles.iter().chain(&self.groups).chain(&self.claims);
        length([&self.aud, &self.rev, &self.sub].into_iter().chain(lists).map(String::as_str))
    }
}

impl Borrowed<'_> {
    fn len(&self) -> usize {
        assert_eq!(self.exp, EXPIRES);
        let lists = self.roles.iter().chain(&self.groups).chain(&self.claims);
        length([self.aud, self.rev, self.sub].into_iter().chain(lists.copied()))
    }
}

fn read_len(identity: format::Identity<'_>) -> usize {
    assert_eq!(identity.expires, EXPIRES);
    let pairs = identity.claims.flat_map(|(name, value)| [name, value]);
    let always = [identity.audience, identity.revision, identity.user].into_iter();
    length(always.chain(identity.roles).chain(identity.groups).chain(pairs))
}

fn codecs(criterion: &mut Criterion) {
    for (size, subject) in [
        ("3 groups and 5 roles", subject(5, 3, 0, 1)),
        ("50 roles and long claims", subject(50, 3, 4, 8)),
    ] {
        let texts = |list: &'static str| -> Vec<&str> {
            let list = match list {
                "roles" => &subject.roles,
                "groups" => &subject.groups,
                _ => &subject.claims,
            };
            list.iter().map(String::as_str).collect()
        };
        let (roles, groups, flat) = (texts("roles"), texts("groups"), texts("claims"));
        let pairs: Vec<(&str, &str)> =
            flat.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))).collect();
        let claims = Claims {
            audience: &subject.aud,
            revision: &subject.rev,
            user: &subject.sub,
            roles: &roles,
            groups: &groups,
            claims: &pairs,
            expires: EXPIRES,
        };
        plain(criterion, size, &subject, &claims);
        header(criterion, size, &subject, &claims);
    }
}

fn plain(criterion: &mut Criterion, size: &str, subject: &Owned, claims: &Claims<'_>) {
    let expected = subject.len();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    format::write(claims, [1; 4], &mut ours).unwrap();
    let mut group = criterion.benchmark_group(format!("header/encode plain, {size}"));
    group.bench_function(BenchmarkId::from_parameter("compact"), |bencher| {
        bencher.iter(|| format::write(black_box(claims), [1; 4], &mut ours));
    });
    group.bench_function(BenchmarkId::from_parameter("prost"), |bencher| {
        bencher.iter(|| {
            theirs.clear();
            black_box(subject).encode(&mut theirs)
        });
    });
    let protobuf = theirs.clone();
    theirs.resize(format::MAX_LEN * 4, 0);
    group.bench_function(BenchmarkId::from_parameter("postcard"), |bencher| {
        bencher.iter(|| postcard::to_slice(black_box(subject), &mut theirs).unwrap().len());
    });
    let postcard = postcard::to_slice(subject, &mut theirs).unwrap().to_vec();
    let json = serde_json::to_vec(subject).unwrap();
    group.bench_function(BenchmarkId::from_parameter("serde_json"), |bencher| {
        bencher.iter(|| {
            theirs.clear();
            serde_json::to_writer(&mut theirs, black_box(subject))
        });
    });
    group.finish();
    let mut group = criterion.benchmark_group(format!("header/decode plain, {size}"));
    group.bench_function(BenchmarkId::from_parameter("compact"), |bencher| {
        bencher.iter(|| assert_eq!(read_len(format::read(black_box(&ours)).unwrap()), expected));
    });
    group.bench_function(BenchmarkId::from_parameter("prost"), |bencher| {
        bencher.iter(|| assert_eq!(Owned::decode(black_box(&*protobuf)).unwrap().len(), expected));
    });
    group.bench_function(BenchmarkId::from_parameter("postcard"), |bencher| {
        bencher.iter(|| {
            let read: Borrowed<'_> = postcard::from_bytes(black_box(&postcard)).unwrap();
            assert_eq!(read.len(), expected);
        });
    });
    group.bench_function(BenchmarkId::from_parameter("serde_json"), |bencher| {
        bencher.iter(|| {
            let read: Borrowed<'_> = serde_json::from_slice(black_box(&json)).unwrap();
            assert_eq!(read.len(), expected);
        });
    });
    group.finish();
}

fn header(criterion: &mut Criterion, size: &str, subject: &Owned, claims: &Claims<'_>) {
    let expected = subject.len();
    let key = Key::new(SECRET).unwrap();
    let mut buffer = Vec::new();
    let pair = Ed25519KeyPair::generate().unwrap();
    let document = pair.to_pkcs8().unwrap();
    let public = aws_lc_rs::signature::KeyPair::public_key(&pair);
    let tokens = [
        (
            Algorithm::HS256,
            EncodingKey::from_secret(SECRET),
            DecodingKey::from_secret(SECRET),
            "jsonwebtoken, HS256",
        ),
        (
            Algorithm::EdDSA,
            EncodingKey::from_ed_der(document.as_ref()),
            DecodingKey::from_ed_der(public.as_ref()),
            "jsonwebtoken, EdDSA",
        ),
    ];
    let mut group = criterion.benchmark_group(format!("header/encode header, {size}"));
    let mut out = String::new();
    group.bench_function(BenchmarkId::from_parameter("compact"), |bencher| {
        bencher.iter(|| {
            out.clear();
            encode(black_box(claims), &key, &mut buffer, &mut out).unwrap();
            assert!(out.len() > expected);
        });
    });
    for (algorithm, signing, _, name) in &tokens {
        let header = Header::new(*algorithm);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| jsonwebtoken::encode(&header, black_box(subject), signing).unwrap());
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group(format!("header/decode header, {size}"));
    let mut value = String::new();
    encode(claims, &key, &mut buffer, &mut value).unwrap();
    let verifier = Verifier::new("shop", [key]);
    group.bench_function(BenchmarkId::from_parameter("compact"), |bencher| {
        bencher.iter(|| {
            let read = verifier.verify(black_box(value.as_bytes()), 1, &mut buffer).unwrap();
            assert_eq!(read_len(read), expected);
        });
    });
    for (algorithm, signing, verifying, name) in &tokens {
        let token = jsonwebtoken::encode(&Header::new(*algorithm), subject, signing).unwrap();
        let mut validation = Validation::new(*algorithm);
        validation.set_audience(&["shop"]);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let read = jsonwebtoken::decode::<Owned>(black_box(&token), verifying, &validation);
                assert_eq!(read.unwrap().claims.len(), expected);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = codecs
}
criterion_main!(benches);
