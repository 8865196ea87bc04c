//! rolegate inside Envoy beside Envoy's own filters for the same task (`basic_auth`, `jwt_authn`,
//! `rbac`), with few and with many rules: a closed loop through one Envoy that has a listener for
//! each.

use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use benches::people;
use clap::Args;
use load::report::document::{Part, table};
use load::report::units;
use load::{Exit, Plan, Rate, Request, Stop, Workload};
use serde_json::json;
use testbed::client::get;
use testbed::envoy::{Envoy, Listener, Module, Settings};
use testbed::tokens::{AUDIENCE, ISSUER, Signer};
use testbed::{Failed, block_on};

use crate::compare::CONNECTIONS;
use crate::machine::{self, Facts, Usage};
use crate::pin::{Pins, on};
use crate::records::Record;
use crate::spread::{Spread, median_within};
use crate::verdict::{Limit, Verdict, tabled};
use crate::{exit, publish, start_app, temporary_folder, write};

/// The arguments of `filters`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FiltersArgs {
    /// The folder of `librolegate.so` (`make module`).
    #[arg(long, value_name = "FOLDER")]
    pub(crate) module: PathBuf,
    /// The folder for `filters.txt` and `records.csv`.
    #[arg(long, value_name = "FOLDER", default_value = "target/load")]
    pub(crate) out: PathBuf,
    /// Number of rounds; in each, every variant is measured once. Where the speed of the machine
    /// varies, many short rounds tell more than few long ones.
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Duration of each measurement.
    #[arg(long, short = 'd', default_value = "200ms", value_name = "TIME", value_parser = load::units::duration)]
    pub(crate) duration: Duration,
    /// Number of requests after which the memory of Envoy is read.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub(crate) requests: u64,
}

/// The numbers of rules.
const SIZES: [usize; 4] = [2, 100, 1_000, 10_000];
/// The numbers of rules with a condition, which all match the request; only the last one's is true.
const CONDITION_COUNTS: [usize; 2] = [1, 100];
/// The load before each measurement.
const WARMUP: Duration = Duration::from_millis(100);
const TITLE: &str = "rolegate inside Envoy beside Envoy's own filters";
const FIRST: &str = "no filter";
/// How often a password that was not hashed in time is sent again.
const RETRIES: usize = 5;

/// Runs the experiment.
pub(crate) fn run(args: &FiltersArgs) -> Result<Exit, Box<dyn Error>> {
    let stop = Stop::default();
    stop.on_signals();
    let done = Filters::measure(args, &stop)?;
    let file = args.out.join("filters.txt");
    publish(&file, TITLE, &done.parts(), &done.facts, &done.records())?;
    Ok(exit(&stop, done.variants.iter().any(|variant| variant.wrong > 0)))
}

/// The results.
#[derive(Debug)]
struct Filters {
    variants: Vec<Variant>,
    own: Own,
    facts: Facts,
}

/// One listener of Envoy.
#[derive(Debug)]
struct Variant {
    name: String,
    filters: String,
    policy: Option<PathBuf>,
    /// Whether any request is denied.
    authorizes: bool,
    credentials: Credentials,
    /// The requests per second of each round.
    rounds: Vec<f64>,
    wrong: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credentials {
    None,
    Basic,
    Token,
}

/// What the filter costs by its own measure, with the policy `policies/people`.
#[derive(Debug)]
struct Own {
    /// The resident bytes of an Envoy with it, and of one without.
    memory: [u64; 2],
    /// Percentiles of its time per request, as Envoy prints them.
    time: String,
    /// The median of that, in nanoseconds.
    median: Option<f64>,
}

impl Filters {
    fn measure(args: &FiltersArgs, stop: &Stop) -> Result<Self, Failed> {
        let folder = temporary_folder("filters")?;
        let module =
            std::path::absolute(&args.module).map_err(|error| Failed::io("module", &error))?;
        let (signer, pins) = (Signer::default(), Pins::new());
        let (_app, app) = on(pins.outside.as_deref(), || start_app(folder.path()))?;
        let mut variants = variants(folder.path(), &signer)?;
        let token = people::token(&signer);
        let listeners: Vec<Listener> = variants
            .iter()
            .enumerate()
            .map(|(number, variant)| variant.listener(number, &module))
            .collect();
        let envoy =
            on(pins.envoy.as_deref(), || block_on(Envoy::start(folder.path(), app, &listeners)))?;
        for (variant, at) in variants.iter().zip(&envoy.addresses) {
            variant.check(*at, &token)?;
        }
        for round in 0..usize::from(args.rounds) {
            eprintln!("round {} of {}", round + 1, args.rounds);
            for step in 0..variants.len() {
                // Each round begins with another one, so that none always follows the same one.
                let number = (step + round) % variants.len();
                if let (Some(variant), Some(at)) =
                    (variants.get_mut(number), envoy.addresses.get(number))
                    && !stop.is_requested()
                {
                    let plan = variant.plan(*at, &token, stop)?;
                    let plan = Plan { duration: Some(args.duration), warmup: WARMUP, ..plan };
                    let measured = on(pins.outside.as_deref(), || load::run(&plan))?;
                    variant.rounds.push(measured.generator.achieved);
                    variant.wrong += measured.errors() + measured.unexpected;
                }
            }
        }
        drop(envoy);
        let own = on(pins.envoy.as_deref(), || {
            Own::measure(folder.path(), &module, app, args.requests, stop)
        })?;
        let facts = machine::facts(Some(&testbed::envoy::program()?));
        Ok(Self { variants, own, facts })
    }

    /// The ratio of two variants in each round.
    fn ratios(&self, name: &str, to: &str) -> Vec<f64> {
        let of = |name: &str| self.variants.iter().find(|variant| variant.name == name);
        let (Some(first), Some(second)) = (of(name), of(to)) else { return Vec::new() };
        first.rounds.iter().zip(&second.rounds).map(|(first, second)| first / second).collect()
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        let at_least = |name: &str, to: &str, least: f64| {
            let what = format!("requests/s, closed loop: {name} ÷ {to}");
            Verdict::of_ratios("P8", what, &self.ratios(name, to), Limit::AtLeast(least, " ×"))
        };
        for headers in ["", ", without x-roles"] {
            all.extend(at_least(&format!("rolegate, Basic{headers}"), "basic_auth + rbac", 1.05));
            all.extend(at_least(
                &format!("rolegate, JWT{headers}"),
                "jwt_authn with cache + rbac",
                1.15,
            ));
        }
        all.extend(at_least("rolegate, 1,000 rules", "rbac, 1,000 rules", 3.0));
        all.extend(at_least("rolegate, 10,000 rules", "rbac, 10,000 rules", 50.0));
        for count in CONDITION_COUNTS {
            let [name, to] =
                ["rolegate", "rbac with CEL"].map(|name| format!("{name}, conditions: {count}"));
            all.extend(at_least(&name, &to, 1.0));
        }
        let rates: Vec<f64> = SIZES
            .iter()
            .filter_map(|size| {
                Spread::of(self.ratios(&rolegate(*size), FIRST)).map(|spread| spread.median)
            })
            .collect();
        if let Some(Spread { low, high, .. }) = Spread::of(rates) {
            let what =
                "requests/s by the number of rules, 2 to 10,000: the highest median ÷ the lowest";
            let measured = (high / low, format!("{:.3} ×", high / low));
            all.push(Verdict::new("P8", what, Limit::AtMost(1.03, " ×"), Some(measured)));
        }
        let [with, without] = self.own.memory.map(|bytes| units::float(bytes) / 1_048_576.0);
        let measured =
            (with - without, format!("{:.1} MiB ({with:.1} − {without:.1})", with - without));
        let what = "resident memory added to Envoy, policies/people";
        all.push(Verdict::new("P8", what, Limit::AtMost(15.0, " MiB"), Some(measured)));
        let time = self.own.median.map(|time| (time / 1e3, format!("{:.2} µs", time / 1e3)));
        let what = "time in the filter per request, known Basic caller (p50)";
        all.push(Verdict::new("P8", what, Limit::AtMost(1.5, " µs"), time));
        all
    }

    fn parts(&self) -> Vec<Part> {
        let row = |variant: &Variant| {
            let ratios = self.ratios(&variant.name, FIRST);
            let of_first = Spread::of(ratios.iter().copied());
            let sure = median_within(&ratios).map(|(low, high)| format!("{low:.3}–{high:.3}"));
            let rate = Spread::of(variant.rounds.iter().copied());
            vec![
                variant.name.clone(),
                rate.map_or_else(String::new, |rate| rate.shown(units::grouped)),
                of_first
                    .map_or_else(String::new, |ratio| ratio.shown(|ratio| format!("{ratio:.3}"))),
                sure.unwrap_or_default(),
            ]
        };
        let mut all = vec![
            Part::Text(format!(
                "One Envoy with a listener for each row, {CONNECTIONS} connections, closed loop, GET /people. Medians of {} rounds, \
                 in round brackets the lowest and the highest, in square ones the 95 % confidence interval of the median (sign test); \
                 ratios are taken within each round.",
                self.variants.first().map_or(0, |variant| variant.rounds.len())
            )),
            tabled(&self.verdicts()),
            table(
                &["filters", "requests/s", "÷ no filter", "95 % of the median"],
                self.variants.iter().map(row).collect(),
            ),
            Part::Text(LIMITS.to_owned()),
            Part::Text(format!(
                "Time in the filter, from Envoy's histogram, in ns: {}",
                self.own.time
            )),
        ];
        if self.variants.iter().any(|variant| variant.wrong > 0) {
            let text = "Some requests had no response, or were denied: do not trust these figures.";
            all.push(Part::Warning(text.to_owned()));
        }
        all.push(Part::Facts(self.facts.clone()));
        all
    }

    fn records(&self) -> Vec<Record> {
        let rate = |variant: &Variant| {
            Record::of_rounds(
                &format!("filters/{}/rate", variant.name),
                "requests/s",
                &variant.rounds,
            )
        };
        let ratio = |variant: &Variant| {
            let ratios = self.ratios(&variant.name, FIRST);
            Record::of_rounds(&format!("filters/{}/to no filter", variant.name), "ratio", &ratios)
        };
        self.variants.iter().flat_map(|variant| [rate(variant), ratio(variant)]).flatten().collect()
    }
}

/// What is not equal, because it cannot be.
const LIMITS: &str = "A route that disables rolegate shows what Envoy needs for a filter of a library that does nothing. With 100 rules and more, the request matches the last one: `rbac` evaluates them in the order of their names. \
`basic_auth` and `jwt_authn` set `x-user` here, as rolegate does; without `x-roles` rolegate sets no more than they can. What Envoy's filters cannot express of policies/people: passwords \
hashed with argon2id or bcrypt (`basic_auth` has SHA-1 only), `x-roles`, the removal of other spellings of these headers, and \
decisions on all interpretations of a path.";

impl Variant {
    fn new(name: impl Into<String>, credentials: Credentials, filters: String) -> Self {
        Self {
            name: name.into(),
            filters,
            policy: None,
            authorizes: true,
            credentials,
            rounds: Vec::new(),
            wrong: 0,
        }
    }

    fn open(self) -> Self {
        Self { authorizes: false, ..self }
    }

    fn inside(name: impl Into<String>, credentials: Credentials, policy: PathBuf) -> Self {
        Self { policy: Some(policy), ..Self::new(name, credentials, String::new()) }
    }

    fn listener(&self, number: usize, module: &Path) -> Listener {
        let policy = self.policy.clone();
        let module = policy.map(|policy| inside(module, policy));
        let disabled = self.policy.is_some() && !self.authorizes;
        let settings = Settings { filters: self.filters.clone(), disabled, ..Settings::default() };
        Listener { module, settings, ..Listener::new(format!("filters-{number}")) }
    }

    fn request(&self, token: &str) -> Request {
        let request = Request { expect: vec![200], ..Request::get("/people") };
        match self.credentials {
            Credentials::None => request,
            Credentials::Basic => request.basic("alice:wonderland"),
            Credentials::Token => request.bearer(token),
        }
    }

    fn plan(&self, at: SocketAddr, token: &str, stop: &Stop) -> Result<Plan, Failed> {
        let plan = Plan::http(&format!("http://{at}/people"))?;
        let workload = Workload::single(self.request(token));
        Ok(Plan { workload, rate: Rate::Max, connections: CONNECTIONS, stop: stop.clone(), ..plan })
    }

    /// Verifies that it allows the request, and denies one without credentials if it wants any, and
    /// one to another path.
    fn check(&self, at: SocketAddr, token: &str) -> Result<(), Failed> {
        let headers = self.request(token).headers;
        let status = |path: &str, headers: &[(String, String)]| {
            block_on(get(at, path, headers)).map(|response| response.status)
        };
        let wrong = |what: &str, status: u16| {
            Err(Failed::new(self.name.clone(), format!("{what}: {status}")))
        };
        let mut with = status("/people", &headers)?;
        // A busy machine may need longer for the first hash than rolegate waits.
        for _ in 0..RETRIES {
            if with == 503 {
                with = status("/people", &headers)?;
            }
        }
        if with != 200 {
            return wrong("the request of the measurement is not allowed", with);
        }
        let without = status("/people", &[])?;
        if (without == 401) != (self.credentials != Credentials::None && self.authorizes) {
            return wrong("a request without credentials", without);
        }
        let elsewhere = status("/elsewhere", &headers)?;
        if matches!(elsewhere, 401 | 403) != self.authorizes {
            return wrong("a request to another path", elsewhere);
        }
        Ok(())
    }
}

impl Own {
    fn measure(
        folder: &Path,
        module: &Path,
        app: SocketAddr,
        requests: u64,
        stop: &Stop,
    ) -> Result<Self, Failed> {
        let (mut memory, mut stats) = ([0; 2], String::new());
        let people = testbed::repository().join("policies/people");
        let with = Variant::inside("", Credentials::Basic, people);
        let without = Variant::new(FIRST, Credentials::Basic, String::new()).open();
        for (variant, memory) in [with, without].iter().zip(&mut memory) {
            let envoy = block_on(Envoy::start(folder, app, &[variant.listener(0, module)]))?;
            variant.check(envoy.address, "")?;
            let plan = variant.plan(envoy.address, "", stop)?;
            load::run(&Plan { requests: Some(requests), ..plan })?;
            // Envoy merges the histograms of its workers every five seconds, and rolegate returns
            // freed memory as often.
            std::thread::sleep(Duration::from_secs(6));
            *memory = Usage::of(envoy.id()).resident;
            if variant.policy.is_some() {
                stats = block_on(get(envoy.admin, "/stats?filter=authorization_ns&usedonly", &[]))?
                    .text();
            }
        }
        let time = stats
            .lines()
            .find_map(|line| Some(line.split_once("authorization_ns: ")?.1.to_owned()));
        let time = time.unwrap_or_default();
        // `P50(nan,1234)`: of the last interval and of all.
        let median = time.split_once("P50(").and_then(|(_, rest)| {
            rest.split_once(')')?.0.rsplit(',').next().and_then(|value| value.parse().ok())
        });
        Ok(Self { memory, time, median })
    }
}

fn inside(folder: &Path, policy: PathBuf) -> Module {
    Module { folder: folder.to_owned(), policy, decisions: None, more: Vec::new() }
}

fn rolegate(size: usize) -> String {
    format!("rolegate, {} rules", units::count(size as u64))
}

fn variants(folder: &Path, signer: &Signer) -> Result<Vec<Variant>, Failed> {
    let tokens = folder.join("tokens.yaml");
    write(&folder.join("jwks.json"), &signer.key_set())?;
    write(&tokens, &people::with_tokens())?;
    let people = testbed::repository().join("policies/people");
    // What Envoy's filters can express of them, but for the passwords.
    let (user_only, user_only_tokens) =
        (folder.join("user-only.yaml"), folder.join("user-only-tokens.yaml"));
    write(&user_only, &people::without_roles(people::BASIC))?;
    write(&user_only_tokens, &people::without_roles(&people::with_tokens()))?;
    let basic = format!("{BASIC_AUTH}{}", rbac(&["GET /people", "POST /people"], ALICE));
    let jwt = |cache: &str| {
        format!("{}{}", jwt_authn(signer, cache), rbac(&["GET /people", "POST /people"], GUEST))
    };
    let mut all = vec![
        Variant::new(FIRST, Credentials::Basic, String::new()).open(),
        Variant::inside("rolegate, disabled by the route", Credentials::Basic, people.clone())
            .open(),
        Variant::inside("rolegate, Basic", Credentials::Basic, people),
        Variant::inside("rolegate, Basic, without x-roles", Credentials::Basic, user_only),
        Variant::new("basic_auth + rbac", Credentials::Basic, basic),
        Variant::inside("rolegate, JWT", Credentials::Token, tokens),
        Variant::inside("rolegate, JWT, without x-roles", Credentials::Token, user_only_tokens),
        Variant::new("jwt_authn with cache + rbac", Credentials::Token, jwt(CACHE)),
        Variant::new("jwt_authn + rbac", Credentials::Token, jwt("")),
    ];
    for size in SIZES {
        let mut rules: Vec<String> =
            (2..size).map(|number| format!("GET /items/{number:05}")).collect();
        rules.extend(["POST /people".to_owned(), "GET /people".to_owned()]);
        let policy = folder.join(format!("rules-{size}.yaml"));
        let mut text = "version: 1\nroles:\n  anyone:\n    allow:\n".to_owned();
        for rule in &rules {
            // Writing to a string does not fail.
            let _ = writeln!(text, "      - {rule}");
        }
        write(&policy, &text)?;
        all.push(Variant::inside(rolegate(size), Credentials::None, policy));
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let name = format!("rbac, {} rules", units::count(size as u64));
        all.push(Variant::new(name, Credentials::None, rbac(&rules, "{ any: true }")));
    }
    for count in CONDITION_COUNTS {
        let policy = folder.join(format!("conditions-{count}.yaml"));
        write(&policy, &conditional_policy(count))?;
        let name = format!("rolegate, conditions: {count}");
        all.push(Variant::inside(name, Credentials::None, policy));
        let name = format!("rbac with CEL, conditions: {count}");
        all.push(Variant::new(name, Credentials::None, conditional_rbac(count)));
    }
    Ok(all)
}

/// The user that `basic_auth` sets.
const ALICE: &str = "{ header: { name: x-user, string_match: { exact: alice } } }";
/// A role of the token.
const GUEST: &str = "{ metadata: { filter: envoy.filters.http.jwt_authn, path: [{ key: token }, { key: realm_access }, { key: roles }], \
                     value: { list_match: { one_of: { string_match: { exact: guest } } } } } }";
const CACHE: &str = ", jwt_cache_config: { jwt_cache_size: 100 }";

/// The users of `policies/people`, whose passwords are public, as SHA-1: `basic_auth` has no other.
const BASIC_AUTH: &str = "                  - name: envoy.filters.http.basic_auth
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
                      users: { inline_string: \"alice:{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=\\nbob:{SHA}9SMYoF5RilWWASry7TjeaKwmpGg=\" }
                      forward_username_header: x-user
";

fn jwt_authn(signer: &Signer, cache: &str) -> String {
    let keys = json!({ "keys": [signer.jwk("ES256")] });
    format!(
        "                  - name: envoy.filters.http.jwt_authn
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
                      providers:
                        people: {{ issuer: \"{ISSUER}\", audiences: [{AUDIENCE}], local_jwks: {{ inline_string: '{keys}' }}, \
         payload_in_metadata: token, claim_to_headers: [{{ header_name: x-user, claim_name: preferred_username }}]{cache} }}
                      rules: [{{ match: {{ prefix: / }}, requires: {{ provider_name: people }} }}]
"
    )
}

/// Allows these methods and paths, in this order, to this principal.
fn rbac(rules: &[&str], principal: &str) -> String {
    let mut text = "                  - name: envoy.filters.http.rbac
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
                      rules:
                        action: ALLOW
                        policies:
"
    .to_owned();
    for (number, rule) in rules.iter().enumerate() {
        let (method, path) = rule.split_once(' ').unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:26}rule-{number:05}: {{ permissions: [{{ and_rules: {{ rules: [{{ header: {{ name: \":method\", string_match: {{ exact: {method} }} }} }}, \
             {{ url_path: {{ path: {{ exact: {path} }} }} }}] }} }}], principals: [{principal}] }}",
            ""
        );
    }
    text
}

/// The hosts that the conditions compare, each with the operator. Only the last comparison is true.
fn compared_hosts(count: usize) -> impl Iterator<Item = (&'static str, String)> {
    let hosts = (1..count).map(|number| ("==", format!("tenant-{number:03}.example.com")));
    hosts.chain([("!=", "internal.example.com".to_owned())])
}

fn conditional_policy(count: usize) -> String {
    let mut text = "version: 1\nroles:\n  anyone:\n    allow:\n".to_owned();
    for (operator, host) in compared_hosts(count) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "      - {{ rule: GET /people, when: \"request.host {operator} '{host}' && request.method != 'HEAD'\" }}"
        );
    }
    text
}

/// The same, with conditions as Envoy reads them: parsed expressions of CEL.
fn conditional_rbac(count: usize) -> String {
    let mut text = rbac(&[], "");
    let compare = |field: &str, operator: &str, value: &str| {
        format!(
            "{{ call_expr: {{ function: \"_{operator}_\", args: [\
             {{ select_expr: {{ operand: {{ ident_expr: {{ name: request }} }}, field: {field} }} }}, \
             {{ const_expr: {{ string_value: {value} }} }}] }} }}"
        )
    };
    for (number, (operator, host)) in compared_hosts(count).enumerate() {
        let (host, method) = (compare("host", operator, &host), compare("method", "!=", "HEAD"));
        let _ = writeln!(
            text,
            "{:26}rule-{number:05}: {{ permissions: [{{ and_rules: {{ rules: [{{ header: {{ name: \":method\", string_match: {{ exact: GET }} }} }}, \
             {{ url_path: {{ path: {{ exact: /people }} }} }}] }} }}], principals: [{{ any: true }}], \
             condition: {{ call_expr: {{ function: _&&_, args: [{host}, {method}] }} }} }}",
            ""
        );
    }
    text
}
