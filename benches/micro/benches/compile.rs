//! What compiling a policy costs: time, and the most memory that is taken at once, by the policy
//! and by its index.
//!
//! `compile` starts from a policy as data, `load` from its text, as the program does: text, policy
//! and index are all there at the end. `reload` makes a new authorizer beside the one active: of
//! the same policy (its keys are new, say), or of a changed one.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that fails ends, and says what it found"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::Authorizer;
use benches::note::note;
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use document::MapFiles;
use engine::{AccessRequest, Decision, Engine};
use generator::{Regular, to_yaml};
use identity::FetchedKeys;
use policy::Loaded;

/// 100,000 rules, 1,000 roles and 1,000,000 grants to users: one each, and ten each.
const SIZES: [(&str, Regular); 3] = [
    ("small", Regular { resources: 100, roles: 10, callers: 100, roles_per_caller: 1 }),
    (
        "1-role-each",
        Regular { resources: 100_000, roles: 1_000, callers: 1_000_000, roles_per_caller: 1 },
    ),
    (
        "10-roles-each",
        Regular { resources: 100_000, roles: 1_000, callers: 100_000, roles_per_caller: 10 },
    ),
];

fn compile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    for (name, size) in SIZES {
        let policy = size.policy();
        let mut engine = None;
        let taken = allocation_counter::measure(|| engine = Some(Engine::compile(&policy)));
        let with_policy = allocation_counter::measure(|| drop(Engine::compile(&size.policy())));
        assert_answers(&engine.unwrap(), size);
        println!(
            "compile/{name}: {} rules; index {} KiB, while it is made {} KiB, with its policy {} KiB",
            size.rules(),
            taken.bytes_current / 1024,
            taken.bytes_max / 1024,
            with_policy.bytes_max / 1024,
        );
        note_memory(&format!("compile/{name}/index"), taken.bytes_current.unsigned_abs());
        note_memory(&format!("compile/{name}/peak"), with_policy.bytes_max);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_batched(|| (), |()| Engine::compile(&policy), BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    for (name, size) in SIZES {
        let text = to_yaml(&size.policy());
        let length = text.len();
        let files = MapFiles::new("policy.yaml", text);
        let mut made = None;
        let taken = allocation_counter::measure(|| made = Some(load_and_compile(&files)));
        let (loaded, engine) = made.unwrap();
        assert_eq!(loaded.policy.rules().count(), size.rules());
        assert_answers(&engine, size);
        drop((loaded, engine));
        println!(
            "load/{name}: {} rules, {} KiB of text; text, policy and index {} KiB, while they are made {} KiB",
            size.rules(),
            length / 1024,
            taken.bytes_current / 1024,
            taken.bytes_max / 1024,
        );
        note_memory(&format!("load/{name}/all"), taken.bytes_current.unsigned_abs());
        note_memory(&format!("load/{name}/peak"), taken.bytes_max);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_batched(|| (), |()| load_and_compile(&files), BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn reload(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reload");
    // Of the two large ones the text of one is enough: the tests run this too.
    for (name, size) in SIZES.into_iter().filter(|(name, _)| *name != "1-role-each") {
        let files = MapFiles::new("policy.yaml", to_yaml(&size.policy()));
        let again = || Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
        let loaded = again();
        let in_force = authorizer(Arc::clone(&loaded), None);
        for (kind, changed) in [("same policy", false), ("changed policy", true)] {
            group.bench_function(BenchmarkId::new(kind, name), |bencher| {
                let reload = |()| {
                    let loaded = if changed { again() } else { Arc::clone(&loaded) };
                    let fresh = authorizer(loaded, Some(&in_force));
                    assert_eq!(fresh.revision(), in_force.revision());
                };
                bencher.iter_batched(|| (), reload, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

fn authorizer(loaded: Arc<Loaded>, in_force: Option<&Authorizer>) -> Authorizer {
    Authorizer::compile(loaded, &FetchedKeys::new(), in_force).unwrap().0
}

fn load_and_compile(files: &MapFiles) -> (Loaded, Engine) {
    let loaded = policy::load(files, Path::new("policy.yaml")).unwrap();
    let engine = Engine::compile(&loaded.policy);
    (loaded, engine)
}

fn assert_answers(engine: &Engine, size: Regular) {
    for caller in (0..size.callers).step_by(size.callers / 100) {
        let roles = engine.roles_of(&size.user(caller), [], []);
        for resource in [size.allowed_resource(caller, caller), caller % size.resources, 0] {
            let asked = size.request(resource);
            let request = AccessRequest {
                action: asked.action.as_bytes(),
                scope: asked.scope.as_bytes(),
                resource: asked.resource.as_bytes(),
            };
            let allowed = matches!(engine.decide(&roles, None, request), Decision::Allowed(_));
            assert_eq!(allowed, size.allowed(caller, resource));
        }
    }
}

fn note_memory(name: &str, bytes: u64) {
    let mebibytes = f64::from(u32::try_from(bytes / 1024).unwrap()) / 1024.0;
    note(&format!("memory/{name}"), "MiB", mebibytes).unwrap();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).sample_size(10);
    targets = compile, load, reload
}
criterion_main!(benches);
