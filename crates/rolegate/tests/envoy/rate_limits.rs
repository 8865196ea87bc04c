//! The configuration on the page `docs/rate-limits.md`: Envoy's filters `local_ratelimit` and
//! `ratelimit` with what rolegate tells of a caller.

use std::collections::BTreeMap;
use std::path::Path;

use document::MapFiles;
use policy::model::Identity;
use tempfile::TempDir;
use testbed::client::Version;
use testbed::tokens::Signer;
use testbed::{Options, RateLimits, Stack};

use super::{authorization, each_form, start};

const PAGE: &str = include_str!("../../../../docs/rate-limits.md");

/// The blocks of YAML on the page: the policy, the filters, and the cluster of the service. With
/// small limits that are not refilled while a test runs, and a service that may be slow.
fn blocks() -> [String; 4] {
    let mut text = PAGE.to_owned();
    for (from, to, count) in [
        ("requests_per_unit: 1000,", "requests_per_unit: 5,", 1),
        ("requests_per_unit: 100,", "requests_per_unit: 2,", 1),
        ("max_tokens: 1000,", "max_tokens: 5,", 1),
        ("max_tokens: 100,", "max_tokens: 2,", 1),
        ("fill_interval: 60s", "fill_interval: 36000s", 3),
        ("timeout: 0.1s", "timeout: 60s", 1),
    ] {
        assert_eq!(text.matches(from).count(), count, "{from}");
        text = text.replace(from, to);
    }
    let blocks = text.split("```yaml\n").skip(1);
    let blocks: Vec<String> =
        blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect();
    blocks.try_into().unwrap()
}

/// A token with these claims.
fn token(signer: &Signer, identity: &Identity, claims: &str) -> [(String, String); 1] {
    let claims =
        format!("{{ \"iss\": \"https://login.example.com\", \"sub\": \"ann\", {claims} }}");
    authorization(&format!("Bearer {}", signer.valid(identity, &claims).unwrap()))
}

/// Envoy with this filter, and tokens of: a tenant with `gold`, one without, and no tenant.
async fn with_filter(
    mut options: Options,
    filter: &str,
    clusters: String,
) -> (Stack, [[(String, String); 1]; 3], TempDir) {
    let (folder, signer, [policy, ..]) =
        (tempfile::tempdir().unwrap(), Signer::default(), blocks());
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, &policy).unwrap();
    std::fs::write(folder.path().join("jwks.json"), signer.key_set()).unwrap();
    let files = MapFiles::new("policy.yaml", policy).and("jwks.json", signer.key_set());
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    options.envoy.filters = if options.module.is_some() {
        filter.replace("{ key: envoy.filters.http.ext_authz,", "{ key: rolegate,")
    } else {
        filter.to_owned()
    };
    options.envoy.clusters = clusters;
    let stack = start(&file, &options).await;
    let tokens = [
        r#""tenant": "acme", "groups": ["gold"]"#,
        r#""tenant": "initech", "groups": []"#,
        r#""groups": []"#,
    ];
    let tokens = tokens.map(|claims| token(&signer, &loaded.policy.identity, claims));
    (stack, tokens, folder)
}

/// How many of eight requests of a caller pass. The others get 429.
async fn passed(stack: &Stack, token: &[(String, String)]) -> usize {
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    let mut passed = 0;
    for _ in 0..8 {
        let answer = connection.send("GET", "/orders", "localhost", token, b"").await.unwrap();
        match answer.status {
            200 => passed += 1,
            status => assert_eq!(status, 429, "{}", stack.envoy.log()),
        }
    }
    passed
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_has_the_limit_of_its_plan() {
    let [_, local, ..] = blocks();
    for options in each_form() {
        let (stack, [gold, free, none], _folder) =
            with_filter(options, &local, String::new()).await;
        assert_eq!(passed(&stack, &gold).await, 5);
        assert_eq!(passed(&stack, &free).await, 2);
        assert_eq!(passed(&stack, &none).await, 2);
        assert_eq!(passed(&stack, &gold).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_service_is_told_the_limit() {
    let [_, _, global, cluster] = blocks();
    let (without_limit, _) = global.split_once("        limit:\n").unwrap();
    for options in each_form() {
        let service = RateLimits::start().await.unwrap();
        let [shipped, ours] = [
            "address: ratelimit.internal, port_value: 8081".to_owned(),
            format!("address: 127.0.0.1, port_value: {}", service.address().port()),
        ];
        assert_eq!(cluster.matches(&shipped).count(), 1);
        // An older Envoy takes no `limit` in a filter, and no metadata with fields from a module.
        let has_limits = options.module.is_none() || options.program.is_none();
        let cluster = cluster.replace(&shipped, &ours);
        let filter = if has_limits { &global } else { without_limit };
        let (stack, [gold, free, none], _folder) = with_filter(options, filter, cluster).await;
        let mut passing = [0; 3];
        for (count, token) in passing.iter_mut().zip([&gold, &free, &none]) {
            *count = passed(&stack, token).await;
        }
        let (passing_wanted, limits) = if has_limits {
            ([5, 2, 2], ["5 per MINUTE", "2 per MINUTE", "2 per MINUTE"])
        } else {
            ([8; 3], ["no limit"; 3])
        };
        assert_eq!(passing, passing_wanted);
        let tenants = ["acme", "initech", "none"].into_iter().zip(limits);
        let wanted: BTreeMap<String, u32> =
            tenants.map(|(tenant, limit)| (format!("tenant={tenant}, {limit}"), 8)).collect();
        assert_eq!(service.counts(), wanted);
        if !has_limits {
            assert!(stack.envoy.log().contains("it needs Envoy 1.40"), "{}", stack.envoy.log());
        }
    }
}
