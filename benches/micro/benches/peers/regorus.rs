//! regorus: a policy in Rego over data that are laid out to be looked up: roles by user, and by
//! role and method the literal paths as the keys of an object, beside a list of patterns. Only the
//! patterns of the caller's own roles are tried, and compiled globs are cached. Once by the
//! interpreter, once by the virtual machine.

use std::sync::Arc;

use ::regorus::languages::rego::compiler::Compiler;
use ::regorus::rvm::vm::RegoVM;
use ::regorus::{Engine, Value, cache};
use aws_lc_rs::digest::{SHA256, digest};
use policy::Policy;
use serde_json::{Map, json};

use crate::{Decider, Form, rules, users};

const RULE: &str = "data.people.allow";
const REGO: &str = r#"
package people

import rego.v1

default allow := false

allow if {
    some role in data.grants[input.user]
    data.roles[role][input.method].literal[input.path]
}

allow if {
    some role in data.grants[input.user]
    some pattern in data.roles[role][input.method].patterns
    glob.match(pattern, ["/"], input.path)
}
"#;

/// Its interpreter.
pub(crate) struct Interpreter(Engine);

/// Its virtual machine.
pub(crate) struct Machine(RegoVM);

impl Decider for Interpreter {
    type Asked = Value;

    fn new(policy: &Policy) -> Self {
        Self(engine(policy))
    }

    fn prepare(&self, user: &str, path: &str) -> Value {
        input(user, path)
    }

    fn allows(&mut self, asked: &Value) -> bool {
        self.0.set_input(asked.clone());
        self.0.eval_rule(RULE.to_owned()).unwrap() == Value::from(true)
    }
}

impl Decider for Machine {
    type Asked = Value;

    fn new(policy: &Policy) -> Self {
        let compiled = engine(policy).compile_with_entrypoint(&RULE.into()).unwrap();
        let program = Compiler::compile_from_policy(&compiled, &[RULE]).unwrap();
        let mut machine = RegoVM::new();
        machine.load_program(Arc::clone(&program));
        machine.set_data(data(policy)).unwrap();
        Self(machine)
    }

    fn prepare(&self, user: &str, path: &str) -> Value {
        input(user, path)
    }

    fn allows(&mut self, asked: &Value) -> bool {
        self.0.set_input(asked.clone());
        self.0.execute().unwrap() == Value::from(true)
    }
}

/// Runs requests through the policy that `benches/README.md` names for a comparison with OPA-Envoy.
pub(crate) fn check_policy_for_opa() {
    let mut engine = Engine::new();
    // OPA has it built in, regorus has not.
    let sha256 = |arguments: Vec<Value>| {
        let text = arguments.first().and_then(|text| text.as_string().ok()).unwrap();
        let hash = digest(&SHA256, text.as_bytes());
        Ok(Value::from(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    };
    engine.add_extension("crypto.sha256".to_owned(), 1, Box::new(sha256)).unwrap();
    engine
        .add_policy("policy.rego".to_owned(), include_str!("../../../opa/policy.rego").to_owned())
        .unwrap();
    for (authorization, method, path, expected) in [
        ("Basic YWxpY2U6d29uZGVybGFuZA==", "GET", "/people", 200),
        ("basic YWxpY2U6d29uZGVybGFuZA==", "GET", "/people?page=2", 200),
        ("Basic YWxpY2U6d29uZGVybGFuZA==", "POST", "/people", 403),
        ("Basic Ym9iOmJ1aWxkZXI=", "POST", "/people", 200),
        ("Basic Ym9iOmJ1aWxkZXI=", "GET", "/people/1", 403),
        ("Basic YWxpY2U6YnVpbGRlcg==", "GET", "/people", 401),
        ("Bearer YWxpY2U6d29uZGVybGFuZA==", "GET", "/people", 401),
    ] {
        let headers = json!({ "authorization": authorization });
        let http = json!({ "method": method, "path": path, "headers": headers });
        let input = json!({ "attributes": { "request": { "http": http } } });
        engine.set_input(Value::from_json_str(&input.to_string()).unwrap());
        let answer = engine.eval_rule("data.envoy.authz.answer".to_owned()).unwrap();
        let status = if answer["allowed"] == Value::from(true) {
            Value::from(200)
        } else {
            answer["http_status"].clone()
        };
        assert_eq!(status, Value::from(expected), "{authorization} {method} {path}");
    }
}

fn engine(policy: &Policy) -> Engine {
    cache::configure(cache::Config {
        glob: cache::Config::MAX_CAPACITY,
        ..cache::Config::default()
    });
    let mut engine = Engine::new();
    engine.add_policy("people.rego".to_owned(), REGO.to_owned()).unwrap();
    engine.add_data(data(policy)).unwrap();
    engine
}

fn data(policy: &Policy) -> Value {
    let mut grants = Map::new();
    for (role, users) in users(policy) {
        for user in users {
            let roles = grants.entry(user).or_insert_with(|| json!([]));
            roles.as_array_mut().unwrap().push(role.into());
        }
    }
    let mut roles = Map::new();
    for (role, form) in rules(policy) {
        let role = roles
            .entry(role)
            .or_insert_with(|| json!({ "GET": { "literal": {}, "patterns": [] } }));
        add(&mut role["GET"], form);
    }
    Value::from_json_str(&json!({ "grants": grants, "roles": roles }).to_string()).unwrap()
}

fn add(of_method: &mut serde_json::Value, form: Form) {
    let literal = match &form {
        Form::Exact(path) | Form::Below(path) => Some(path.clone()),
        Form::One(_) | Form::Glob(_) => None,
    };
    let pattern = match form {
        Form::Exact(_) => None,
        Form::One(path) => Some(format!("{path}/?*")),
        Form::Glob(path) => Some(format!("{path}*")),
        Form::Below(path) => Some(format!("{path}/**")),
    };
    if let Some(literal) = literal {
        of_method["literal"][literal] = true.into();
    }
    of_method["patterns"].as_array_mut().unwrap().extend(pattern.map(Into::into));
}

fn input(user: &str, path: &str) -> Value {
    let input = json!({ "user": user, "method": "GET", "path": path });
    Value::from_json_str(&input.to_string()).unwrap()
}
