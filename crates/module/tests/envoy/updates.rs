//! Updates of a listener: Envoy creates the new configuration of the filter while the old one still
//! serves requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::client::{Connection, Version};
use testbed::manifests::{deploy, yaml_of};
use testbed::policies::Example;
use testbed::{App, Envoy};

use super::admin_pages::{metric, metrics, page};
use super::library;

/// An Envoy whose listener comes from a file that it watches.
struct Watching {
    envoy: Envoy,
    listener: Value,
    updates: usize,
    folder: tempfile::TempDir,
    _app: App,
}

impl Watching {
    async fn start(settings: &Value) -> Self {
        let (folder, app) = (tempfile::tempdir().unwrap(), App::start().await.unwrap());
        let mut text = std::fs::read_to_string(deploy("envoy/module.yaml")).unwrap();
        for (from, to) in [
            ("port_value: 9901", "port_value: 0".to_owned()),
            ("port_value: 10000", "port_value: 0".to_owned()),
            ("port_value: 8080", format!("port_value: {}", app.address.port())),
        ] {
            text = text.replace(from, &to);
        }
        let mut config = yaml_of(&text).unwrap().remove(0);
        let listener = config["static_resources"]["listeners"][0].take();
        config["static_resources"]["listeners"] = json!([]);
        config["node"] = json!({ "id": "test", "cluster": "test" });
        let source = json!({ "path": folder.path().join("listeners.json") });
        config["dynamic_resources"] = json!({ "lds_config": { "path_config_source": source } });
        write(folder.path(), 0, &with(&listener, settings));
        let (program, text) = (testbed::envoy::program().unwrap(), config.to_string());
        let envoy =
            Envoy::start_with_modules(&program, folder.path(), &text, &["public"], &library())
                .await;
        Self { envoy: envoy.unwrap(), listener, updates: 1, folder, _app: app }
    }

    /// Updates the listener, and returns whether Envoy has accepted that.
    async fn update(&mut self, settings: &Value) -> bool {
        let stat = async |name: &str| {
            let name = format!("listener_manager.lds.update_{name}");
            self.envoy.stat(&name).await.unwrap().unwrap()
        };
        let (accepted, rejected) = (stat("success").await, stat("rejected").await);
        write(self.folder.path(), self.updates, &with(&self.listener, settings));
        for _ in 0..2000 {
            let now = (stat("success").await, stat("rejected").await);
            if now != (accepted, rejected) {
                self.updates += 1;
                return now.0 > accepted;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the update is not noticed: {}", self.envoy.log());
    }

    /// Sends a request without credentials, with a connection of its own.
    async fn denied(&self) {
        let mut connection = Connection::open(self.envoy.address, Version::Http1).await.unwrap();
        let answer = connection.send("GET", "/people", "localhost", &[], b"").await.unwrap();
        assert_eq!(answer.status, 401, "{}", self.envoy.log());
    }
}

/// The listener with these settings of the filter.
fn with(listener: &Value, settings: &Value) -> Value {
    let mut listener = listener.clone();
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["http_filters"][0]["typed_config"]["filter_config"]["value"] = settings.clone();
    listener
}

/// Replaces the file, which is what Envoy watches for.
fn write(folder: &Path, version: usize, listener: &Value) {
    let mut resource = listener.clone();
    resource["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
    let part = folder.join("listeners.part");
    std::fs::write(
        &part,
        json!({ "version_info": version.to_string(), "resources": [resource] }).to_string(),
    )
    .unwrap();
    std::fs::rename(part, folder.join("listeners.json")).unwrap();
}

/// How many requests the admin pages at this socket have seen denied; `None` if nothing listens.
fn shown(admin: &Path) -> Option<f64> {
    let name = r#"rolegate_checks_total{decision="denied",reason="missing_credentials"}"#;
    metrics(admin).map(|page| metric(&page, name))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_follows_updates_of_a_listener() {
    let sockets = tempfile::tempdir().unwrap();
    let admin: PathBuf = sockets.path().join("admin");
    let address = format!("unix:{}", admin.display());
    let policy = |name: &str| Example::named(name).unwrap().file;
    let settings = |policy: &Path, queue: u32| json!({ "policy": policy, "admin": address, "hash-queue": queue });
    let mut watching = Watching::start(&settings(&policy("people"), 256)).await;
    watching.denied().await;
    assert_eq!(shown(&admin), Some(1.0));
    // Another setting: the pages are about the new configuration, beside the old one.
    assert!(watching.update(&settings(&policy("people"), 255)).await, "{}", watching.envoy.log());
    assert_eq!(shown(&admin), Some(0.0));
    watching.denied().await;
    assert_eq!(shown(&admin), Some(1.0));
    // Another policy at the same address: the listener stays as it is.
    assert!(!watching.update(&settings(&policy("owner"), 255)).await);
    assert!(watching.envoy.log().contains("is that of the policy"), "{}", watching.envoy.log());
    watching.denied().await;
    assert_eq!(shown(&admin), Some(2.0));
    // None: the old one is drained for a second, and then nothing listens.
    assert!(watching.update(&json!({ "policy": policy("people") })).await);
    for _ in 0..2000 {
        if shown(&admin).is_none() {
            watching.denied().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it still listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_follows_updates_of_a_listener() {
    let sockets = tempfile::tempdir().unwrap();
    let admin: PathBuf = sockets.path().join("admin");
    let address = format!("unix:{}", admin.display());
    let policy = Example::named("people").unwrap().file;
    let settings =
        |console: bool| json!({ "policy": policy, "admin": address, "console": console });
    let console = || page(&admin, "/console").unwrap();
    let mut watching = Watching::start(&settings(false)).await;
    watching.denied().await;
    assert!(console().starts_with("HTTP/1.1 404 "), "{}", console());
    assert!(watching.update(&settings(true)).await, "{}", watching.envoy.log());
    assert!(console().contains("None since the start."), "{}", console());
    watching.denied().await;
    assert!(console().contains("<code>missing_credentials</code>"), "{}", console());
    assert!(watching.update(&settings(false)).await, "{}", watching.envoy.log());
    assert!(console().starts_with("HTTP/1.1 404 "), "{}", console());
    watching.denied().await;
}
