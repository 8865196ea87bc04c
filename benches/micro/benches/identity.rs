//! What it costs to know who is calling: with credentials and tokens that were verified before, and
//! with tokens that are seen for the first time, by each algorithm.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot be set up, or is wrong, stops"
)]

use std::hint::black_box;
use std::time::Duration;

use benches::message::ALICE;
use benches::people;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use identity::{
    Authenticator, CachedSubject, Credentials, FetchedKeys, Limits, LocalCache, NotAuthenticated,
};
use policy::model::Identity;
use serde_json::{Value, json};
use testbed::tokens::{ALGORITHMS, Signer};

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn identify(criterion: &mut Criterion) {
    let signer = Signer::default();
    let basic = micro::load(people::BASIC, "").unwrap();
    let settings = |keys: Value| {
        let tokens = micro::load(&people::with_tokens(), &keys.to_string()).unwrap();
        Identity {
            basic: basic.policy.identity.basic.clone(),
            jwt: tokens.policy.identity.jwt.clone(),
            ..Identity::default()
        }
    };
    let shared = |algorithm: &&str| algorithm.starts_with("HS");
    let set = |secret| -> Value {
        let algorithms = ALGORITHMS.iter().filter(|algorithm| shared(algorithm) == secret);
        json!({ "keys": algorithms.map(|algorithm| signer.jwk(algorithm)).collect::<Vec<_>>() })
    };
    let settings = [settings(set(false)), settings(set(true))];
    let remembering = settings.each_ref().map(|settings| compile(settings, Limits::default()));
    let forgetful = Limits { tokens: 0, ..Limits::default() };
    let forgetting = settings.each_ref().map(|settings| compile(settings, forgetful));
    let ([remembers, remembers_secrets], [forgets, forgets_secrets]) = (&remembering, &forgetting);
    sign_in(remembers, ALICE.as_bytes());
    let mut group = criterion.benchmark_group("identify");
    group.bench_function("anonymous", |bencher| {
        let cache = &mut LocalCache::default();
        bencher.iter(|| {
            assert!(matches!(remembers.authenticate(None, None, NOW, cache, |_| ()), Ok(None)))
        });
    });
    group.bench_function(BenchmarkId::new("known", "Basic"), |bencher| {
        let cache = &mut LocalCache::default();
        bencher.iter(|| {
            is_alice(
                remembers
                    .authenticate(
                        black_box(Some(Credentials::Authorization(ALICE.as_bytes()))),
                        None,
                        NOW,
                        cache,
                        |_| (),
                    )
                    .unwrap(),
            );
        });
    });
    for algorithm in ALGORITHMS {
        let bearer = signer.bearer(algorithm, NOW.as_secs());
        let (known, new) = match algorithm {
            "HS256" | "HS384" | "HS512" => (remembers_secrets, forgets_secrets),
            _ => (remembers, forgets),
        };
        let header = Some(Credentials::Authorization(bearer.as_bytes()));
        group.bench_function(BenchmarkId::new("known", algorithm), |bencher| {
            let cache = &mut LocalCache::default();
            known.authenticate_inline(header, NOW, cache, |_| ()).unwrap();
            bencher.iter(|| {
                is_alice(known.authenticate(black_box(header), None, NOW, cache, |_| ()).unwrap());
            });
        });
        group.bench_function(BenchmarkId::new("new", algorithm), |bencher| {
            let cache = &mut LocalCache::default();
            bencher.iter(|| {
                is_alice(new.authenticate_inline(black_box(header), NOW, cache, |_| ()).unwrap())
            });
        });
    }
    group.finish();
}

fn is_alice(known: Option<&CachedSubject<()>>) {
    assert_eq!(&*known.unwrap().subject.user, "alice");
}

fn sign_in(authenticator: &Authenticator<()>, credentials: &[u8]) {
    let cache = &mut LocalCache::default();
    let Err(NotAuthenticated::Pending(verification)) = authenticator.authenticate(
        Some(Credentials::Authorization(credentials)),
        None,
        NOW,
        cache,
        |_| (),
    ) else {
        panic!("the first time costs the hash")
    };
    assert!(authenticator.cache_result(&verification.run(), NOW, |_| ()));
}

fn compile(settings: &Identity, limits: Limits) -> Authenticator<()> {
    Authenticator::compile(settings, &FetchedKeys::new(), limits).unwrap().0
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = identify
}
criterion_main!(benches);
