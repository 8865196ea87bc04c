//! The example of the policy language, the whole of it, and the policies that are shipped.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::time::Duration;

use document::MapFiles;
use lint::load;
use policy::Loaded;
use policy::model::{Keys, Piece, Template};
use policy::pattern::{Actions, Segment};

const EXAMPLE: &str = r#"version: 1

identity:
  basic:
    realm: people
    users:
      alice: { password: "$argon2id$v=19$m=19456,t=2,p=1$..." }
      bob:   { password: "$2b$12$...", groups: [staff] }
  jwt:
    - issuer: https://id.example.com
      audiences: [people]
      keys: { file: jwks.json }            # or { url: "https://…/jwks.json", refresh: 5m }
      claims: { user: sub, roles: /realm_access/roles, groups: /groups }

roles:
  guest:
    allow: ["GET /people"]
  admin:
    extends: [guest]
    allow: ["POST /people", "* /people/{id}"]
    deny:  ["DELETE /people/1"]

grants:
  guest: { users: [alice] }
  admin: { users: [bob], groups: [staff] }

allow_response:
  set_headers: { x-user: "{user}", x-roles: "{roles}" }
"#;

fn example() -> Loaded {
    let files = MapFiles::new("p/policy.yaml", EXAMPLE).and("p/jwks.json", "{}");
    load(&files, Path::new("p/policy.yaml")).unwrap()
}

#[test]
fn the_example_names_its_callers() {
    let policy = example().policy;
    let basic = policy.identity.basic.unwrap();
    assert_eq!(&*basic.realm, "people");
    assert!(basic.verify);
    assert_eq!(basic.users.iter().map(|user| &*user.name).collect::<Vec<_>>(), ["alice", "bob"]);
    assert_eq!(&*basic.users[1].password.as_ref().unwrap().0, "$2b$12$...");
    assert_eq!(basic.users[1].at.to_string(), "p/policy.yaml:8:26");
    assert_eq!(&*basic.users[1].groups[0], "staff");
    let [issuer] = policy.identity.jwt.try_into().unwrap_or_else(|_| panic!("one issuer"));
    assert_eq!(&*issuer.issuer, "https://id.example.com");
    assert_eq!(&*issuer.audiences[0], "people");
    assert_eq!(issuer.clock_skew, Duration::from_secs(60));
    assert_eq!(*issuer.claims.user.0, ["sub".into()]);
    assert_eq!(*issuer.claims.roles.as_ref().unwrap().0, ["realm_access".into(), "roles".into()]);
    assert!(issuer.may_give("admin"));
    let Keys::File { path, bytes, .. } = issuer.keys else { panic!("a file") };
    assert_eq!((&*path, &*bytes), ("p/jwks.json", b"{}".as_slice()));
}

#[test]
fn the_example_names_its_roles() {
    let policy = example().policy;
    let admin = &policy.roles[1];
    assert_eq!(&*admin.name, "admin");
    assert_eq!(admin.extends.len(), 1);
    assert_eq!(&*admin.allow[1].name, "* /people/{id}");
    assert_eq!(admin.allow[1].actions, Actions::Any);
    let segments = [Segment::Literal("people".into()), Segment::Any("id".into())];
    assert_eq!(*admin.allow[1].resources[0].segments, segments);
    assert_eq!(admin.deny[0].at.to_string(), "p/policy.yaml:21:13");
    assert_eq!(policy.grants.len(), 2);
    assert_eq!(&*policy.grants[1].groups[0], "staff");
    let header = &policy.allow_response.set_headers[0];
    assert_eq!((&*header.name, &header.value), ("x-user", &Template(vec![Piece::User])));
}

#[test]
fn the_example_names_its_files() {
    let loaded = example();
    let paths: Vec<_> = loaded.files.iter().map(|source| source.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["p/policy.yaml", "p/jwks.json"]);
}

#[test]
fn the_example_is_warned_of_names_and_roles_that_two_sources_may_give() {
    let warnings: Vec<String> = example()
        .warnings
        .iter()
        .map(|warning| format!("{}: {}", warning.at, warning.message))
        .collect();
    let sources = "Basic and from `https://id.example.com`";
    let expected = [
        format!("callers from {sources} can have the same user name, and it is granted"),
        format!("callers from {sources} can have the same group name, and it is granted"),
        "each token of `https://id.example.com` gives the roles that it names, also those that the \
         policy grants"
            .to_owned(),
        "users of Basic and of `https://id.example.com` with the same name cannot be told apart by \
         headers"
            .to_owned(),
    ];
    assert_eq!(warnings, expected.map(|warning| format!("p/policy.yaml:10:7: {warning}")));
}
