//! The part of the demo about the identity header: the application verifies the caller itself, and
//! refuses requests that bypass the proxy.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use testbed::client::{Answer, Connection, Version, get};
use testbed::policies::{self, Example};
use testbed::port::ReservedPort;
use testbed::tokens::{Signer, private_key};

use super::setup::Setup;

const AUDIENCE: &str = "people-app";
const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";

/// A request with the expected outcome.
struct Sent {
    what: String,
    /// Past the proxy, straight to the application.
    past: bool,
    authorization: Option<&'static str>,
    identity: Option<String>,
    /// The user that the application sees; `None` if it must refuse.
    user: Option<&'static str>,
}

/// Shows this part of the demo. Returns whether the application saw who it should see.
pub(crate) async fn show(
    out: &mut impl Write,
    example: &Example,
    setup: &Setup,
) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let policy = signing(example, folder.path())?;
    // The address of the module's admin pages. It is chosen here, because `rolegates` has the
    // address of a rolegate beside the proxy only.
    let port = ReservedPort::new()?;
    let line: &'static str = format!("admin: \"{}\"", port.address()).leak();
    let stack = setup.start_with(&policy, &[line]).await?;
    let admin = stack.rolegates().first().map_or(port.address(), |rolegate| rolegate.admin);
    let keys = get(admin, "/jwks", &[]).await?.text();
    stack.app().trust(&keys, AUDIENCE)?;
    writeln!(
        out,
        "\nThe application verifies `x-identity`, a token of rolegate \
         (keys: http://{admin}/jwks):\n"
    )?;
    let mut right = true;
    for sent in requests(stack.proxy(), &keys)? {
        let address = if sent.past { stack.app().address } else { stack.address() };
        let answer = send(address, &sent).await?;
        let echo = answer.json();
        let user = echo.pointer("/identity/sub").and_then(Value::as_str);
        let ok = user == sent.user && (answer.status == 200) == sent.user.is_some();
        right &= ok;
        let (mark, status) = (if ok { " " } else { "!" }, answer.status);
        writeln!(out, "{mark} {:<52}  {status}  {}", sent.what, describe(&echo))?;
    }
    Ok(right)
}

/// The application's view of the caller.
fn describe(echo: &Value) -> String {
    let roles = echo.pointer("/identity/roles").unwrap_or(&Value::Null);
    match echo.pointer("/identity/sub").and_then(Value::as_str) {
        Some(user) => format!("it sees {user}, roles {roles}"),
        None => {
            let why = echo.get("refused").and_then(Value::as_str).unwrap_or_default();
            format!("refused by the application: {why}")
        }
    }
}

async fn send(to: SocketAddr, sent: &Sent) -> Result<Answer, Box<dyn std::error::Error>> {
    let authorization =
        sent.authorization.map(|value| ("authorization".to_owned(), value.to_owned()));
    let identity = sent.identity.clone().map(|value| ("x-identity".to_owned(), value));
    let headers: Vec<_> = authorization.into_iter().chain(identity).collect();
    let mut connection = Connection::open(to, Version::Http1).await?;
    Ok(connection.send("GET", "/people", "localhost", &headers, b"").await?)
}

/// A copy of the example with an identity header and a new key.
fn signing(
    example: &Example,
    folder: &Path,
) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let from = example.file.parent().ok_or("the policy has no folder")?;
    let to = folder.join("policy");
    policies::copy(from, &to)?;
    std::fs::write(to.join("identity.pem"), private_key())?;
    let policy = to.join("policy.yaml");
    let mut file = std::fs::OpenOptions::new().append(true).open(&policy)?;
    writeln!(
        file,
        "identity_header: {{ format: jwt, keys: [identity.pem], audience: {AUDIENCE} }}"
    )?;
    Ok(policy)
}

fn requests(proxy: &str, keys: &str) -> Result<Vec<Sent>, Box<dyn std::error::Error>> {
    let forged = Some(forged(keys)?);
    let (alice, user) = (Some(ALICE), Some("alice"));
    let requests = [
        (format!("alice, through {proxy}"), false, alice, None, user),
        (
            format!("alice, with a forged header for bob, through {proxy}"),
            false,
            alice,
            forged.clone(),
            user,
        ),
        (format!("past {proxy}, with alice's password"), true, alice, None, None),
        (format!("past {proxy}, with a forged header for bob"), true, None, forged, None),
    ];
    let requests = requests.map(|(what, past, authorization, identity, user)| Sent {
        what,
        past,
        authorization,
        identity,
        user,
    });
    Ok(requests.into())
}

/// A token for bob that names rolegate's key, but is signed with a different key.
fn forged(keys: &str) -> Result<String, Box<dyn std::error::Error>> {
    let keys: Value = serde_json::from_str(keys)?;
    let far = 32_503_680_000_u64; // the year 3000
    let claims =
        json!({ "iss": "rolegate", "sub": "bob", "aud": AUDIENCE, "exp": far, "roles": ["admin"] });
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": keys.pointer("/keys/0/kid") });
    Ok(Signer::default().sign(&header, &claims))
}
