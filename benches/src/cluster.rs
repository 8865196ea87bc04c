//! A search cluster behind Envoy with rolegate, without any authorization, and with its own
//! security plugin: bulk requests and searches with few and many indices, for users with few and
//! many roles.
//!
//! No process is pinned to a core. The node needs most of the processor time; if Envoy and rolegate
//! were pinned to one core and the node to none, that core would limit the rate while the other one
//! idles. The processor time of Envoy and rolegate per request is reported beside the rates,
//! because it varies much less from round to round.
//!
//! The clusters are started by hand, and their contents are replaced. Index `NN-index-I` belongs to
//! group `NN`, of which there are fifty, and role `I` reads and writes one group. So a pattern for
//! a group is two per cent of the indices.

mod report;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use load::report::units;
use load::{Exit, Plan, Rate, Request, Stop, Values, Variable, Workload};
use serde_json::{Value, json};
use testbed::client::{Connection, Version};
use testbed::envoy::Target;
use testbed::manifests::deploy;
use testbed::{Envoy, Failed, Rolegate, block_on};

use crate::machine::{self, Usage};
use crate::{exit, publish, temporary_folder, write};

/// The arguments of `cluster`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    /// The address of a node without the security plugin. All of its indices and data streams are
    /// deleted.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9200")]
    pub(crate) plain: SocketAddr,
    /// The address of a node with the plugin. All of its indices and data streams are deleted. It
    /// must take users and backend roles from the headers `x-proxy-user` and `x-proxy-roles`, and
    /// map the backend role `admins` to the role `all_access`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) secure: Option<SocketAddr>,
    /// The folder of `librolegate.so` (`make module`).
    #[arg(long, value_name = "FOLDER")]
    pub(crate) module: PathBuf,
    /// The folder for `cluster.txt`, its charts and `records.csv`.
    #[arg(long, value_name = "FOLDER", default_value = "target/load")]
    pub(crate) out: PathBuf,
    /// Number of rounds; in each, every variant is measured once.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Duration of each measurement.
    #[arg(long, short = 'd', default_value = "2s", value_name = "TIME", value_parser = load::units::duration)]
    pub(crate) duration: Duration,
    /// The numbers of indices.
    #[arg(long, value_delimiter = ',', default_value = "10,100,300,1000", value_name = "N,…")]
    pub(crate) indices: Vec<usize>,
}

const TITLE: &str = "A search cluster behind Envoy";
const HOST: &str = "search.example.com";
const GROUPS: usize = 50;
/// The load before each measurement.
const WARMUP: Duration = Duration::from_millis(500);
/// How long each node gets each kind of request through each Envoy before the first measurement: a
/// node that has just started is several times slower.
const FIRST_WARMUP: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 8;

/// The users: what they are called, and how many roles they have; none is `all_access`.
const USERS: [(&str, usize); 4] = [("full", 0), ("one", 1), ("twenty", 20), ("forty", 40)];

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody,
    Sidecar,
    Module,
    Plugin,
}

const ALL: [By; 4] = [By::Nobody, By::Sidecar, By::Module, By::Plugin];

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Bulk(u32),
    Search,
    Pattern,
}

const WHATS: [What; 4] = [What::Search, What::Pattern, What::Bulk(10), What::Bulk(1_000)];

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "no authorization",
            Self::Sidecar => "rolegate",
            Self::Module => "rolegate inside Envoy",
            Self::Plugin => "the plugin",
        }
    }
}

impl What {
    fn name(self) -> String {
        match self {
            Self::Bulk(items) => format!("bulk of {}", units::count(u64::from(items))),
            Self::Search => "search on one index".to_owned(),
            Self::Pattern => "search on 2 % of the indices".to_owned(),
        }
    }

    /// Documents or searches per request.
    const fn items(self) -> u32 {
        match self {
            Self::Bulk(items) => items,
            Self::Search | Self::Pattern => 1,
        }
    }
}

/// The rates of each variant.
#[derive(Debug)]
struct Row {
    indices: usize,
    user: &'static str,
    what: What,
    by: By,
    /// Documents or searches per second of each round.
    rounds: Vec<f64>,
    /// Processor time of Envoy and rolegate per request of each round, in microseconds.
    cpu: Vec<f64>,
    /// Requests without a response, or with another status than 200.
    wrong: u64,
    /// Why there was no response.
    errors: BTreeSet<String>,
}

impl Row {
    fn new(indices: usize, user: &'static str, what: What, by: By) -> Self {
        let (rounds, cpu, errors) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { indices, user, what, by, rounds, cpu, wrong: 0, errors }
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &ClusterArgs) -> Result<Exit, Box<dyn Error>> {
    let stop = Stop::default();
    stop.on_signals();
    let rows = measure(args, &stop)?;
    let facts = machine::facts(Some(&testbed::envoy::program()?));
    for (file, chart) in report::charts(&rows) {
        write(&args.out.join(file), &chart)?;
    }
    let (file, parts) = (args.out.join("cluster.txt"), report::parts(&rows, &facts));
    publish(&file, TITLE, &parts, &facts, &report::records(&rows))?;
    Ok(exit(&stop, rows.iter().any(|row| row.wrong > 0)))
}

/// An Envoy with who decides behind or inside it.
struct Gate {
    by: By,
    envoy: Envoy,
    /// The processes whose time counts.
    processes: Vec<u32>,
}

impl Gate {
    fn start(by: By, args: &ClusterArgs, folder: &Path, rolegate: u32) -> Result<Self, Failed> {
        let node = if by == By::Plugin { args.secure.unwrap_or(args.plain) } else { args.plain };
        let text = configuration(by, node, folder)?;
        let module =
            std::path::absolute(&args.module).map_err(|error| Failed::io("module", &error))?;
        let own = folder.join(format!("{by:?}"));
        std::fs::create_dir_all(&own).map_err(|error| Failed::io("temporary folder", &error))?;
        let envoy = block_on(Envoy::start_with_modules(
            &testbed::envoy::program()?,
            &own,
            &text,
            &["public"],
            &module,
        ))?;
        let of_rolegate = (by == By::Sidecar).then_some(rolegate);
        let processes = of_rolegate.into_iter().chain([envoy.id()]).collect();
        Ok(Self { by, envoy, processes })
    }

    /// The processor time so far, in nanoseconds.
    fn ran(&self) -> u64 {
        self.processes.iter().map(|process| Usage::of(*process).ran).sum()
    }

    /// Measures it once, and adds what was measured to `row`.
    fn measure(&self, plan: &Plan, args: &ClusterArgs, row: &mut Row) -> Result<(), Failed> {
        load::run(&Plan { duration: Some(WARMUP), ..plan.clone() })?;
        let before = self.ran();
        let measured = load::run(&Plan { duration: Some(args.duration), ..plan.clone() })?;
        let ran = units::float(self.ran().saturating_sub(before)) / 1e3;
        row.rounds.push(measured.generator.achieved * f64::from(row.what.items()));
        let answered: u64 = measured.corrected.len();
        if answered > 0 {
            row.cpu.push(ran / units::float(answered));
        }
        row.wrong += measured.errors() + measured.unexpected;
        row.errors.extend(measured.errors.into_keys().map(Into::into));
        Ok(())
    }
}

fn measure(args: &ClusterArgs, stop: &Stop) -> Result<Vec<Row>, Failed> {
    let folder = temporary_folder("cluster")?;
    let folder = folder.path();
    policy(folder, args.plain)?;
    let mut rows = Vec::new();
    for (number, indices) in args.indices.iter().enumerate() {
        eprintln!("{indices} indices");
        let refill = || {
            std::thread::scope(|threads| {
                let secure =
                    args.secure.map(|node| threads.spawn(move || fill(node, *indices, true)));
                fill(args.plain, *indices, false)?;
                let panicked = |_| Err(Failed::new("node with the plugin", "its thread panicked"));
                secure.map_or(Ok(()), |filling| filling.join().unwrap_or_else(panicked))
            })
        };
        refill()?;
        let program = testbed::program()?;
        let listen = Target::Unix(folder.join("rolegate.sock"));
        let more = ["--max-message-size", "12MiB", "--threads", "1"];
        let rolegate = block_on(Rolegate::start(
            &program,
            &folder.join("policy.yaml"),
            listen,
            folder,
            &more,
        ))?;
        let started = ALL.into_iter().filter(|by| *by != By::Plugin || args.secure.is_some());
        let gates: Vec<Gate> = started
            .map(|by| Gate::start(by, args, folder, rolegate.id()))
            .collect::<Result<_, _>>()?;
        if number == 0 {
            for (gate, what) in gates.iter().flat_map(|gate| WHATS.map(|what| (gate, what))) {
                let plan = plan(gate.envoy.address, ("twenty", 20), *indices, what, stop)?;
                load::run(&Plan { duration: Some(FIRST_WARMUP), ..plan })?;
            }
            refill()?;
        }
        // First all searches, while each index has one document.
        for what in WHATS {
            for (user, roles) in USERS {
                // A user with one role cannot write to many groups, nor read more than one.
                let mut of_this: Vec<Row> =
                    gates.iter().map(|gate| Row::new(*indices, user, what, gate.by)).collect();
                for round in 0..usize::from(args.rounds) {
                    for step in 0..gates.len() {
                        let number = (step + round) % gates.len();
                        if let (Some(gate), Some(row)) =
                            (gates.get(number), of_this.get_mut(number))
                            && !stop.is_requested()
                        {
                            let plan =
                                plan(gate.envoy.address, (user, roles), *indices, what, stop)?;
                            gate.measure(&plan, args, row)?;
                        }
                    }
                }
                rows.append(&mut of_this);
            }
        }
    }
    Ok(rows)
}

fn index(number: usize) -> String {
    format!("{:02}-index-{number}", number % GROUPS)
}

/// The indices that a user with so many roles may use; 0 is all.
fn permitted(indices: usize, roles: usize) -> Vec<String> {
    let groups = if roles == 0 { GROUPS } else { roles };
    (0..indices).filter(|number| number % GROUPS < groups).map(index).collect()
}

fn plan(
    at: SocketAddr,
    (user, roles): (&str, usize),
    indices: usize,
    what: What,
    stop: &Stop,
) -> Result<Plan, Failed> {
    let names = permitted(indices, roles);
    let backend: Vec<String> = (0..roles).map(|role| format!("role{role}")).collect();
    let backend = if roles == 0 { "admins".to_owned() } else { backend.join(",") };
    let request = match what {
        What::Bulk(items) => Request {
            method: "POST".to_owned(),
            body: format!(
                "{{\"index\":{{\"_index\":\"${{index}}\"}}}}\n{{\"message\":\"{}\"}}\n",
                "a document of two hundred bytes ".repeat(6)
            ),
            repeat: items,
            ..Request::get("/_bulk")
        }
        .header("content-type", "application/x-ndjson"),
        What::Search => Request::get("/${index}/_search?size=1"),
        What::Pattern => Request::get("/00-*/_search?size=1"),
    };
    let request = Request { host: Some(HOST.to_owned()), expect: vec![200], ..request }
        .basic(&format!("{user}:{user}"))
        .header("x-proxy-user", user)
        .header("x-proxy-roles", &backend);
    let variable = Variable { name: "index".to_owned(), values: Values::List(names) };
    let workload = Workload { variables: vec![variable], ..Workload::single(request) };
    let plan = Plan::http(&format!("http://{at}/"))?;
    Ok(Plan { workload, rate: Rate::Max, connections: CONNECTIONS, stop: stop.clone(), ..plan })
}

/// Replaces the contents of a node, and the roles of one with the plugin.
fn fill(node: SocketAddr, indices: usize, secure: bool) -> Result<(), Failed> {
    block_on(async {
        let mut connection = Connection::open(node, Version::Http1).await?;
        let mut send = async |method: &str, path: &str, body: Value, needed: bool| {
            let headers = [
                ("content-type", "application/json"),
                ("x-proxy-user", "admin"),
                ("x-proxy-roles", "admins"),
                ("x-forwarded-for", "127.0.0.1"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let answer =
                connection.send(method, path, "localhost", &headers, body.as_bytes()).await?;
            if needed && answer.status >= 300 {
                return Err(Failed::new(
                    "node",
                    format!("{method} {path}: {} {}", answer.status, answer.text()),
                ));
            }
            Ok(answer.status)
        };
        send("DELETE", "/_data_stream/*", Value::Null, false).await?;
        let all = "/*,-.opendistro_security?expand_wildcards=all";
        if send("DELETE", all, Value::Null, false).await? == 404 {
            send("DELETE", "/*?expand_wildcards=all", Value::Null, true).await?;
        }
        let limit = json!({ "persistent": { "cluster.max_shards_per_node": 20_000 } });
        send("PUT", "/_cluster/settings", limit, true).await?;
        let settings = json!({
            "settings": {
                "number_of_shards": 1,
                "number_of_replicas": 0,
                // Otherwise a search waits until its index shows what was written since the last
                // one, and a bulk request for the disk: both take much longer than any
                // authorization, and vary.
                "refresh_interval": "-1",
                "translog": { "durability": "async", "sync_interval": "60s", "flush_threshold_size": "1gb" }
            },
            "mappings": { "properties": { "message": { "type": "keyword", "ignore_above": 1_000 } } }
        });
        for number in 0..indices {
            let index = index(number);
            send("PUT", &format!("/{index}"), settings.clone(), true).await?;
            send("POST", &format!("/{index}/_doc"), json!({ "message": "the first" }), true)
                .await?;
        }
        send("POST", "/_refresh", Value::Null, true).await?;
        if secure {
            for (kind, entry) in [("roles", role as fn(usize) -> Value), ("rolesmapping", mapping)]
            {
                let changes: Vec<Value> = (0..GROUPS)
                    .map(|number| json!({ "op": "add", "path": format!("/role{number}"), "value": entry(number) }))
                    .collect();
                send("PATCH", &format!("/_plugins/_security/api/{kind}"), changes.into(), true)
                    .await?;
            }
        }
        Ok(())
    })
}

fn role(number: usize) -> Value {
    json!({
        "cluster_permissions": ["cluster_composite_ops"],
        "index_permissions": [{
            "index_patterns": [format!("{number:02}-*")],
            "allowed_actions": ["crud", "indices:admin/mapping/put"]
        }]
    })
}

fn mapping(number: usize) -> Value {
    json!({ "backend_roles": [format!("role{number}")] })
}

/// The policy, with the same roles, and users whose passwords are their names.
fn policy(folder: &Path, plain: SocketAddr) -> Result<(), Failed> {
    let cluster = folder.join("cluster");
    std::fs::create_dir_all(&cluster).map_err(|error| Failed::io("temporary folder", &error))?;
    write(
        &folder.join("policy.yaml"),
        &format!(
            "version: 1\nsearch:\n  folder: cluster\n  hosts: [{HOST}]\n  inventory: {{ url: \"http://{plain}\", refresh: 1h, \
             max_age: 1d }}\nallow_response: {{ remove_headers: [authorization] }}\n"
        ),
    )?;
    let entries = |kind: &str, entry: fn(usize) -> Value| {
        let mut all = json!({ "_meta": { "type": kind, "config_version": 2 } });
        for number in 0..GROUPS {
            if let Some(all) = all.as_object_mut() {
                all.insert(format!("role{number}"), entry(number));
            }
        }
        all
    };
    write(&cluster.join("roles.yml"), &entries("roles", role).to_string())?;
    let mut mappings = entries("rolesmapping", mapping);
    if let Some(mappings) = mappings.as_object_mut() {
        mappings.insert("all_access".to_owned(), json!({ "backend_roles": ["admins"] }));
    }
    write(&cluster.join("roles_mapping.yml"), &mappings.to_string())?;
    let mut users = "_meta: { type: internalusers, config_version: 2 }\n".to_owned();
    for (user, roles) in USERS {
        let hash = identity::hash_password(user, identity::HashAlgorithm::Bcrypt { cost: 10 })
            .map_err(|error| Failed::new("bcrypt", error.to_string()))?;
        let backend: Vec<String> = (0..roles).map(|role| format!("role{role}")).collect();
        let backend = if roles == 0 { "admins".to_owned() } else { backend.join(", ") };
        // Writing to a string does not fail.
        let _ = writeln!(users, "{user}: {{ hash: \"{}\", backend_roles: [{backend}] }}", hash);
    }
    write(&cluster.join("internal_users.yml"), &users)
}

/// The shipped configuration with these addresses. Without authorization, and for the node with the
/// plugin, it lacks the filter.
fn configuration(by: By, node: SocketAddr, folder: &Path) -> Result<String, Failed> {
    let file = if by == By::Module { "envoy/module-search.yaml" } else { "envoy/search.yaml" };
    let mut text =
        std::fs::read_to_string(deploy(file)).map_err(|error| Failed::io(file, &error))?;
    let socket = format!("pipe: {{ path: {} }}", folder.join("rolegate.sock").display());
    for (from, to) in [
        (
            "static_resources:",
            "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:",
        ),
        (
            "    - address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }",
            "    - name: public\n      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }",
        ),
        ("port_value: 9200", &format!("port_value: {}", node.port())),
        ("pipe: { path: /run/rolegate/rolegate.sock }", &socket),
        (
            "policy: /etc/rolegate/policy.yaml",
            &format!("policy: {}", folder.join("policy.yaml").display()),
        ),
    ] {
        text = text.replace(from, to);
    }
    // Its text goes to a terminal for each request.
    cut(
        &mut text,
        "                # Tells why a request",
        "                # The cluster receives",
    );
    if matches!(by, By::Nobody | By::Plugin) {
        cut(
            &mut text,
            "                  - name: envoy.filters.http.ext_authz\n",
            "                  - name: envoy.filters.http.router",
        );
    }
    Ok(text)
}

/// Cuts a part of a text, if it has it.
fn cut(text: &mut String, from: &str, until: &str) {
    if let Some((before, rest)) = text.split_once(from)
        && let Some((_, after)) = rest.split_once(until)
    {
        *text = format!("{before}{until}{after}");
    }
}
