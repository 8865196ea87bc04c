//! What it costs to read a path in its canonical form, and in every other way in which it may be
//! read.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use policy::canonical::{Buffers, path};

/// What it is called, the path, its canonical form (`None` where it is invalid), and how many
/// interpretations must all be allowed.
struct Case {
    name: &'static str,
    raw: String,
    canonical: Option<String>,
    interpretations: usize,
}

fn cases() -> Vec<Case> {
    let case = |name, raw: &str, canonical: Option<&str>, interpretations| Case {
        name,
        raw: raw.to_owned(),
        canonical: canonical.map(str::to_owned),
        interpretations,
    };
    let long = "/segment-of-a-path".repeat(60);
    vec![
        case("simple", "/people", Some("/people"), 1),
        case("with a query", "/people?name=alice&page=2", Some("/people"), 1),
        case("long, 1 KB", &long, Some(&long), 1),
        case("percent, canonical", "/caf%C3%A9/cr%C3%A8me", Some("/caf%C3%A9/cr%C3%A8me"), 1),
        case("percent, to decode", "/%70eople/%61lice", Some("/people/alice"), 1),
        case("dot segments", "/static/./../people/1", Some("/people/1"), 1),
        case("two slashes", "/people//1", Some("/people/1"), 1),
        case("parameters", "/people;v=1/1", Some("/people;v=1/1"), 2),
        case("several readings", "/people;v=1/a%2Cb/%2541", Some("/people;v=1/a%2Cb/%2541"), 0),
        case("invalid", "/people%2F1", None, 0),
    ]
}

fn paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("paths");
    for case in cases() {
        let raw = case.raw.as_bytes();
        let mut buffers = Buffers::default();
        let read = path(b"GET", raw, &mut buffers).ok();
        assert_eq!(
            read.as_ref().map(
                |interpretations| String::from_utf8_lossy(interpretations.first()).into_owned()
            ),
            case.canonical
        );
        let interpretations = read.map_or(0, |interpretations| interpretations.all().count());
        assert!(
            if case.interpretations == 0 {
                interpretations != 1
            } else {
                interpretations == case.interpretations
            },
            "{interpretations}"
        );
        let canonical = case.canonical.as_deref().map(str::as_bytes);
        group.bench_function(BenchmarkId::from_parameter(case.name), |bencher| {
            bencher.iter(|| {
                let read = path(black_box(b"GET"), black_box(raw), &mut buffers);
                assert_eq!(
                    read.as_ref().ok().map(|interpretations| interpretations.first()),
                    canonical
                );
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
    targets = paths
}
criterion_main!(benches);
