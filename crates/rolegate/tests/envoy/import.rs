//! Imported policies, compared with Envoy's own RBAC filter in one Envoy, on random configurations
//! and requests.

mod generated;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use fastrand::Rng;
use import::{Effect, Imported, Options, envoy_rbac};
use serde_json::json;
use testbed::client::{Connection, Version};
use testbed::envoy::{Envoy, Listener, Settings, Target};
use testbed::tokens::Signer;
use testbed::{App, Rolegate};

use super::{PATIENT, ROLEGATE};
use generated::{Generated, Sent};

/// How many configurations one Envoy has.
const CONFIGURATIONS: usize = 20;

/// What was compared.
#[derive(Debug, Default)]
struct Counts {
    /// Requests.
    requests: usize,
    /// Those that both allow.
    allowed: usize,
    /// Those that rolegate denies because something could not be expressed, which the notes say.
    stricter: usize,
    /// Those that only rolegate allows, which was accepted.
    wider: usize,
    /// Those that rolegate denies as ambiguous.
    ambiguous: usize,
    /// Those that rolegate denies because a condition cannot be computed.
    unusual: usize,
    /// Those whose token Envoy does not read, and rolegate cannot verify.
    unverified: usize,
    /// Configurations without such notes.
    exact: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_policy_never_allows_more_than_the_rbac_filter() {
    let counts = compare(1, 1, 25).await;
    assert!(counts.allowed > 50 && counts.exact > CONFIGURATIONS / 4, "{counts:?}");
}

/// The same with 20,000 requests: `cargo test --test envoy -- --ignored --nocapture imported`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn imported_policies_never_allow_more_than_the_rbac_filter() {
    let counts = compare(1_000, 10, 100).await;
    assert_eq!(counts.requests, 20_000);
}

/// Compares this many batches of configurations. The start of Envoy and of one rolegate for each
/// configuration takes most of the time, so each gets many `requests`.
async fn compare(seed: u64, batches: u64, requests: usize) -> Counts {
    let (mut counts, started) = (Counts::default(), Instant::now());
    for batch in 0..batches {
        compare_batch(seed + batch, requests, &mut counts).await;
        eprintln!("batch {} of {batches}, {:.0?}: {counts:?}", batch + 1, started.elapsed());
    }
    counts
}

async fn compare_batch(seed: u64, requests: usize, counts: &mut Counts) {
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (app, signer) = (App::start().await.unwrap(), Signer::default());
    let (mut all, mut listeners, mut rolegates) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..CONFIGURATIONS {
        let generated = if number % 2 == 0 {
            Generated::new(&mut rng, &signer)
        } else {
            Generated::of_conditions(&mut rng, &signer)
        };
        let original = json!({ "http_filters": generated.filters, "normalize_path": true, "merge_slashes": true, "use_remote_address": generated.uses_remote_address });
        let options = Options { allow_wider: rng.u8(..4) == 0, ..Options::default() };
        let imported =
            envoy_rbac(Path::new("envoy.json"), original.to_string().as_bytes(), &options).unwrap();
        let own = folder.path().join(number.to_string());
        let policy = write(&own, &imported);
        let listen = Target::Unix(own.join("s"));
        let rolegate =
            Rolegate::start(Path::new(ROLEGATE), &policy, listen.clone(), &own, &[]).await;
        rolegates.push(rolegate.unwrap_or_else(|error| panic!("{error}\n{}", imported.policy)));
        let filters: String =
            generated.filters.iter().map(|filter| format!("{:18}- {filter}\n", "")).collect();
        let settings = Settings {
            filters,
            timeout: PATIENT,
            health_checks: false,
            use_remote_address: generated.uses_remote_address,
            ..Settings::default()
        };
        let listener = |name: &str, targets| Listener {
            name: format!("{name}-{number}"),
            targets,
            module: None,
            settings: settings.clone(),
        };
        listeners.extend([listener("rbac", Vec::new()), listener("rolegate", vec![listen])]);
        all.push((generated, imported, original));
    }
    let envoy = Envoy::start(folder.path(), app.address, &listeners).await.unwrap();
    for ((generated, imported, original), addresses) in all.iter().zip(envoy.addresses.chunks(2)) {
        counts.exact += usize::from(
            imported
                .notes
                .iter()
                .all(|note| !matches!(note.effect, Effect::Stricter | Effect::Wider)),
        );
        let mut connections = Vec::new();
        for address in addresses {
            connections.push(Connection::open(*address, Version::Http1).await.unwrap());
        }
        for _ in 0..requests {
            let sent = generated.request(&mut rng, &signer);
            let mut statuses = Vec::new();
            for (connection, address) in connections.iter_mut().zip(addresses) {
                statuses.push(status(connection, *address, &sent).await);
            }
            if let Err(wrong) = judge(&sent, [statuses[0], statuses[1]], imported, counts) {
                let Sent { method, path, host, caller, .. } = &sent;
                let request = format!("{method} {host} {path} of {caller}");
                panic!("seed {seed}: {wrong}: {request}\n{original}\n{}", shown(imported));
            }
        }
    }
}

/// The status of the answer. Envoy closes the connection after some answers: then a new one takes
/// its place.
async fn status(connection: &mut Connection, address: SocketAddr, sent: &Sent) -> u16 {
    let Sent { method, path, host, headers, .. } = sent;
    if let Ok(answer) = connection.send(method, path, host, headers, b"").await {
        return answer.status;
    }
    *connection = Connection::open(address, Version::Http1).await.unwrap();
    connection.send(method, path, host, headers, b"").await.unwrap().status
}

fn write(folder: &Path, imported: &Imported) -> std::path::PathBuf {
    std::fs::create_dir(folder).unwrap();
    for (name, key_set) in &imported.key_sets {
        std::fs::write(folder.join(name), key_set).unwrap();
    }
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, &imported.policy).unwrap();
    policy
}

/// Compares the answer of the filter with that of rolegate.
fn judge(
    sent: &Sent,
    [filter, rolegate]: [u16; 2],
    imported: &Imported,
    counts: &mut Counts,
) -> Result<(), String> {
    let has = |effect| imported.notes.iter().any(|note| note.effect == effect);
    counts.requests += 1;
    match (filter, rolegate) {
        (200, 200) => counts.allowed += 1,
        (200, 400) => counts.ambiguous += 1,
        (200, 401 | 403) if has(Effect::Stricter) || has(Effect::Wider) => counts.stricter += 1,
        (200, 401) if sent.has_unknown_token => counts.unverified += 1,
        (200, 401 | 403) if has(Effect::Unusual) && sent.is_unusual => counts.unusual += 1,
        // Its other interpretations must be allowed, too.
        (200, 401 | 403) if sent.path.contains([';', '%']) => counts.ambiguous += 1,
        (200, _) => return Err(format!("rolegate answers {rolegate}, the filter 200")),
        (_, 200) if has(Effect::Wider) => counts.wider += 1,
        (_, 200) => return Err(format!("rolegate allows, the filter answers {filter}")),
        _ => {}
    }
    Ok(())
}

fn shown(imported: &Imported) -> String {
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    format!("{}\n{}", imported.policy, notes.join("\n"))
}
