//! What deciding about requests to a search cluster costs: on one index, for a bulk request and for
//! a pattern, over the numbers of indices and of roles; and what compiling the roles costs, in time
//! and memory.
//!
//! Index `NN-index-I` belongs to group `NN`, of which there are fifty, and role `I` reads and
//! writes one group. So a pattern for a group is two per cent of the indices.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark that fails ends, and says what it found"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use benches::note::note;
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use document::MapFiles;
use search::{
    Action, Caller, EvaluationSettings, Expression, Inventory, InventoryBuilder, Need, Options,
    Privileges, Request, RequestBody, SecurityConfig, Subject, Target,
};

const GROUPS: usize = 50;
const WARM: usize = 64;

fn actions(names: &[&str]) -> &'static [Action] {
    Vec::leak(names.iter().map(|name| Action::named(name).unwrap()).collect())
}

fn index(number: usize) -> String {
    format!("{:02}-index-{number}", number % GROUPS)
}

fn inventory(indices: usize, aliases: usize) -> InventoryBuilder {
    let mut builder = InventoryBuilder::default();
    for number in 0..indices {
        builder.index(&index(number), true, false);
    }
    for number in 0..aliases {
        builder
            .alias(&format!("{:02}-alias-{number}", number % GROUPS), [&*index(number % indices)]);
    }
    builder
}

/// Roles with a pattern for a group and two of their own.
fn config(roles: usize) -> SecurityConfig {
    let mut text = "_meta: { type: roles, config_version: 2 }\n".to_owned();
    for role in 0..roles {
        let group = role % GROUPS;
        writeln!(
            text,
            "role{role}: {{ cluster_permissions: [cluster_composite_ops], index_permissions: [{{ index_patterns: \
             ['{group:02}-*', 'role{role}-*', '{group:02}-alias-{role}'], allowed_actions: [crud, 'indices:admin/mapping/put', create_index] }}] }}"
        )
        .unwrap();
    }
    SecurityConfig::load(&MapFiles::new("os/roles.yml", text), Path::new("os")).unwrap().config
}

fn privileges(config: SecurityConfig, inventory: Option<Inventory>) -> Privileges {
    Privileges::new(Arc::new(config), EvaluationSettings::default(), inventory.map(Arc::new))
}

fn caller(privileges: &Privileges, roles: usize) -> Caller {
    let roles = (0..roles).map(|role| format!("role{role}")).collect();
    privileges.caller(&Subject { name: "user".to_owned(), roles, ..Subject::default() })
}

fn on_one_index(
    criterion: &mut Criterion,
    name: &str,
    indices: usize,
    privileges: &Privileges,
    caller: &Caller,
) {
    let search = actions(&["indices:data/read/search"]);
    // The same number of requests however many indices there are, so that all sizes read as much
    // memory.
    let known = indices.div_ceil(GROUPS);
    let names: Vec<String> = (0..WARM).map(|number| index(number % known * GROUPS)).collect();
    let needs: Vec<Need<'_>> = names
        .iter()
        .map(|name| Need {
            actions: search,
            target: Target::Indices(Expression::new(&**name, Options::OPEN)),
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false,
        })
        .collect();
    assert!(privileges.permits(caller, &needs));
    let mut at = 0;
    criterion.benchmark_group(format!("search/{name}")).bench_function(
        BenchmarkId::from_parameter(indices),
        |bencher| {
            bencher.iter(|| {
                at = (at + 1) % WARM;
                assert!(privileges.permits(black_box(caller), [black_box(&needs[at])]));
            });
        },
    );
}

fn decide(criterion: &mut Criterion) {
    for indices in [10, 100, 1_000, 10_000, 100_000] {
        let privileges = privileges(config(100), Some(inventory(indices, indices / 10).build()));
        let all = Subject { roles: vec!["all_access".to_owned()], ..Subject::default() };
        let all = privileges.caller(&all);
        on_one_index(criterion, "one-index/all_access", indices, &privileges, &all);
        for (name, roles) in [("1 role", 1), ("20 roles", 20), ("40 roles", 40)] {
            let caller = caller(&privileges, roles);
            on_one_index(criterion, &format!("one-index/{name}"), indices, &privileges, &caller);
        }
    }
    let without = privileges(config(100), None);
    for roles in [1, 20, 40] {
        let caller = caller(&without, roles);
        on_one_index(criterion, &format!("no-inventory/{roles} roles"), 10_000, &without, &caller);
    }
}

/// Reading the body, and deciding about each item. A document has 200 bytes.
fn bulk(criterion: &mut Criterion) {
    let privileges = privileges(config(100), Some(inventory(1_000, 100).build()));
    let caller = caller(&privileges, 20);
    let document = format!("{{\"text\":\"{}\"}}", "x".repeat(189));
    for items in [10, 1_000] {
        let mut body = String::new();
        for number in 0..items {
            let name = index(number % 20 + number / 20 % 20 * GROUPS);
            writeln!(body, "{{\"index\":{{\"_index\":\"{name}\"}}}}\n{document}").unwrap();
        }
        let request = Request {
            method: "POST",
            target: "/_bulk",
            content_type: Some("application/x-ndjson"),
            content_encoding: None,
            scrolls_are_checked: false,
            body: RequestBody::Whole(body.as_bytes()),
            now: Request::time(Duration::from_secs(1_800_000_000)),
        };
        criterion.benchmark_group("search/bulk").bench_function(
            BenchmarkId::from_parameter(items),
            |bencher| {
                bencher.iter(|| {
                    let mut needs = Vec::new();
                    search::read(black_box(&request), &mut needs).unwrap();
                    assert!(privileges.permits(&caller, &needs));
                });
            },
        );
    }
}

fn pattern(criterion: &mut Criterion) {
    let search = actions(&["indices:data/read/search"]);
    let privileges = privileges(config(100), Some(inventory(100_000, 1_000).build()));
    let caller = caller(&privileges, 50);
    let need = |text: String| Need {
        actions: search,
        target: Target::Indices(Expression::new(text, Options::OPEN)),
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    for (name, text) in [("2-per-cent", "07-*"), ("all", "*")] {
        let mut group = criterion.benchmark_group(format!("search/pattern/{name}"));
        let known = need(text.to_owned());
        assert!(privileges.permits(&caller, [&known]));
        group.bench_function("repeated", |bencher| {
            bencher.iter(|| assert!(privileges.permits(&caller, [black_box(&known)])));
        });
        let mut number = 0;
        group.bench_function("first", |bencher| {
            bencher.iter_batched(
                || {
                    number += 1;
                    need(format!("{text},-none-{number}"))
                },
                |need| assert!(privileges.permits(&caller, [&need])),
                BatchSize::SmallInput,
            );
        });
    }
}

fn compile(criterion: &mut Criterion) {
    let config = Arc::new(config(3_000));
    let all = inventory(6_000, 9_000);
    let compile = |inventory: Inventory| {
        Privileges::new(config.clone(), EvaluationSettings::default(), Some(Arc::new(inventory)))
    };
    let mut group = criterion.benchmark_group("search/compile");
    group.sample_size(10);
    group.bench_function("3000-roles-6000-indices-9000-aliases", |bencher| {
        bencher.iter(|| compile(all.build()));
    });
    group.finish();
    drop(config);
    memory();
}

/// The names, the tables, and what a caller with all roles needs for the actions of usual requests.
fn memory() {
    let config = Arc::new(config(100));
    let all = inventory(10_000, 0);
    let usual = [
        "indices:data/read/search",
        "indices:data/read/get",
        "indices:data/read/tv",
        "indices:data/read/field_caps",
        "indices:data/write/index",
        "indices:data/write/delete",
        "indices:data/write/update",
        "indices:data/write/bulk[s]",
        "indices:data/write/delete/byquery",
        "indices:data/write/update/byquery",
        "indices:admin/refresh",
    ];
    let mut kept = None;
    let taken = allocation_counter::measure(|| {
        let inventory = Some(Arc::new(all.build()));
        let privileges = Privileges::new(config.clone(), EvaluationSettings::default(), inventory);
        let callers: Vec<Caller> = [1, 20, 100].map(|roles| caller(&privileges, roles)).into();
        for action in usual.map(|name| actions(&[name])) {
            let need = Need {
                actions: action,
                target: Target::Name("00-index-0".into()),
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            };
            let permitted = callers.iter().all(|caller| privileges.permits(caller, [&need]));
            assert_eq!(permitted, action != actions(&["indices:admin/refresh"]));
        }
        kept = Some((privileges, callers));
    });
    drop(kept);
    println!("search/memory: 10,000 indices, 100 roles: {} kB", taken.bytes_current / 1_000);
    let kibibytes = f64::from(u32::try_from(taken.bytes_current / 1024).unwrap());
    note("search/memory/10000-indices-100-roles", "MiB", kibibytes / 1024.0).unwrap();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = decide, bulk, pattern, compile
}
criterion_main!(benches);
