//! What a condition costs: one comparison or three, by rolegate, by `cel`, an interpreter of CEL,
//! and by the virtual machine of regorus.
//!
//! Of rolegate a whole decision is timed, from the host and the path to the answer. Of the others
//! only the condition is, with variables that are there before; of `cel` also together with the
//! variables, which a server makes for each request.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use ::regorus::languages::rego::compiler::Compiler;
use ::regorus::rvm::vm::RegoVM;
use ::regorus::{Engine as Rego, Value};
use cel::{Context, Program};
use condition::{CallerClaims, CallerInputs, Fault, Headers, RequestInputs};
use criterion::{BenchmarkId, Criterion};
use document::MapFiles;
use engine::{AccessRequest, ConditionInputs, Decision, Engine, PatternSubject};
use serde_json::{Value as Json, json};

/// A condition in CEL, of which ours is a subset, and in Rego.
struct Comparisons {
    count: usize,
    cel: &'static str,
    rego: &'static str,
}

const CONDITIONS: [Comparisons; 2] = [
    Comparisons {
        count: 1,
        cel: "request.headers['x-level'] == '2'",
        rego: r#"input.request.headers["x-level"] == "2""#,
    },
    Comparisons {
        count: 3,
        cel: "request.headers['x-level'] == '2' && claims.tenant == path.tenant \
              && request.method in ['GET', 'HEAD']",
        rego: r#"input.request.headers["x-level"] == "2"
                 input.claims.tenant == input.path.tenant
                 input.request.method in {"GET", "HEAD"}"#,
    },
];

/// The header lines of a request.
struct Lines;

impl Headers for Lines {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        if name == "x-level" { Ok(b"2") } else { Err(Fault::Absent) }
    }

    fn count(&self) -> usize {
        1
    }
}

/// Times each condition by each evaluator.
pub(crate) fn conditions(criterion: &mut Criterion) {
    for condition in &CONDITIONS {
        measure_rolegate(criterion, condition);
        measure_cel(criterion, condition);
        measure_regorus(criterion, condition);
    }
}

fn variables() -> Json {
    json!({
        "request": { "method": "GET", "headers": { "x-level": "2" } },
        "claims": { "tenant": "acme" },
        "path": { "tenant": "acme" },
    })
}

fn measure_rolegate(criterion: &mut Criterion, condition: &Comparisons) {
    let text = format!(
        "version: 1\nroles:\n  authenticated:\n    allow:\n      \
         - {{ rule: \"GET /v1/{{tenant}}\", when: \"{}\" }}\n\
         identity: {{ basic: {{ verify: false }} }}\n",
        condition.cel
    );
    let files = MapFiles::new("policy.yaml", text);
    let engine = Engine::compile(&policy::load(&files, Path::new("policy.yaml")).unwrap().policy);
    let roles = engine.roles_of("alice", [], []);
    let claims = json!({ "tenant": "acme" });
    let caller = CallerInputs {
        user: Some("alice"),
        claims: CallerClaims::Known(claims.as_object().unwrap()),
        ..CallerInputs::default()
    };
    let caller = engine.caller_conditions(&roles, caller);
    let request = RequestInputs { headers: Some(&Lines), ..RequestInputs::default() };
    let inputs = ConditionInputs { request, caller: caller.as_ref(), steps_left: None };
    measure(criterion, "rolegate", condition, || {
        let request = black_box(AccessRequest {
            action: b"GET",
            scope: b"api.example.com",
            resource: b"/v1/acme",
        });
        let subject = Some(PatternSubject::named(b"alice"));
        let decision = engine.decide_with(&roles, subject, request, &inputs);
        matches!(decision, Decision::Allowed(_))
    });
}

fn measure_cel(criterion: &mut Criterion, condition: &Comparisons) {
    let program = Program::compile(condition.cel).unwrap();
    let mut context = Context::default();
    for (name, value) in variables().as_object().unwrap() {
        context.add_variable(name.as_str(), value).unwrap();
    }
    measure(criterion, "cel", condition, || {
        program.execute(black_box(&context)).unwrap() == cel::Value::Bool(true)
    });
    let variables = variables();
    measure(criterion, "cel with variables", condition, || {
        let mut context = Context::default();
        for (name, value) in black_box(&variables).as_object().unwrap() {
            context.add_variable(name.as_str(), value).unwrap();
        }
        program.execute(&context).unwrap() == cel::Value::Bool(true)
    });
}

fn measure_regorus(criterion: &mut Criterion, condition: &Comparisons) {
    const RULE: &str = "data.gate.allow";
    let text = format!(
        "package gate\nimport rego.v1\ndefault allow := false\nallow if {{\n{}\n}}\n",
        condition.rego
    );
    let mut engine = Rego::new();
    engine.add_policy("gate.rego".to_owned(), text).unwrap();
    let compiled = engine.compile_with_entrypoint(&RULE.into()).unwrap();
    let program = Compiler::compile_from_policy(&compiled, &[RULE]).unwrap();
    let mut machine = RegoVM::new();
    machine.load_program(Arc::clone(&program));
    let input = Value::from_json_str(&variables().to_string()).unwrap();
    measure(criterion, "regorus, virtual machine", condition, || {
        machine.set_input(black_box(&input).clone());
        machine.execute().unwrap() == Value::from(true)
    });
}

/// Every evaluator must find that the condition is true.
fn measure(
    criterion: &mut Criterion,
    name: &str,
    condition: &Comparisons,
    mut is_true: impl FnMut() -> bool,
) {
    let mut group = criterion.benchmark_group(format!("peer-conditions/{name}"));
    group.bench_function(BenchmarkId::from_parameter(condition.count), |bencher| {
        bencher.iter(|| assert!(is_true()));
    });
    group.finish();
}
