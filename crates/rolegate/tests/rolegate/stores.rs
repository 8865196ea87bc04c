//! A policy bundle in an object store: S3 with a server that verifies signatures, Google and Azure
//! with one that does not.

use crate::bundle_server::{Answer as Sent, BundleServer};
use crate::bundles::{Publisher, result, wait_for_another};
use crate::client::{Answer, Envoy};
use crate::discovery::Authority;
use crate::process::{PolicyFolder, Server, ended, open_to_all, rolegate, wait_until};
use crate::s3_server::{ACCESS_KEY, S3Server, SECRET_KEY};

const URL: &str = "s3://policies/team/bundle.tar.gz";
const KEY: &str = "team/bundle.tar.gz";

/// The arguments and the environment of a rolegate.
struct Setup {
    args: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Setup {
    /// One that fetches this URL every second and needs a signature of the publisher.
    fn of(url: &str, publisher: &Publisher) -> Self {
        let (key, cache) = (publisher.arg("key.pub"), publisher.arg("cache"));
        let args = ["serve", "--policy", url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let more = [
            "--bundle-interval",
            "1s",
            "--bundle-public-key",
            &key,
            "--bundle-cache",
            &cache,
            "--keys-wait",
            "3s",
        ];
        let args = args.into_iter().chain(more).map(str::to_owned).collect();
        Self { args, environment: Vec::new() }
    }

    /// One that fetches [`URL`] from this server.
    fn of_s3(server: &S3Server, publisher: &Publisher) -> Self {
        Self::of(URL, publisher)
            .with("AWS_ENDPOINT_URL", &server.endpoint())
            .with("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .with("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.to_owned()));
        self
    }

    fn and(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn command(&self) -> std::process::Command {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut command = rolegate(&args);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn start(&self) -> Server {
        let server = Server::spawn(self.command());
        server.wait_for_log("listening");
        server
    }

    /// Runs it to its end.
    fn run(&self) -> (i32, String, String) {
        ended(&self.command().output().unwrap())
    }

    /// No value of the environment that is a secret is in the log.
    fn assert_no_secret_in(&self, log: &str) {
        for (name, value) in &self.environment {
            let is_secret = ["SECRET", "KEY", "TOKEN"].iter().any(|part| name.contains(part));
            assert!(
                !is_secret || *name == "AWS_ACCESS_KEY_ID" || !log.contains(value),
                "{name}: {log}"
            );
        }
    }
}

#[tokio::test]
async fn a_bundle_in_s3_is_activated_and_an_unchanged_one_is_not_sent_again() {
    let publisher = Publisher::new();
    let store = S3Server::start();
    store.put(KEY, &publisher.signed("/a", 1));
    let setup = Setup::of_s3(&store, &publisher);
    let server = setup.start();
    assert_eq!(server.page("/readyz").0, 200, "{}", server.log());
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    wait_for_another(&server, "unchanged");
    assert_eq!(store.answered(200), 1);
    assert!(store.answered(304) > 0);
    store.put(KEY, &publisher.signed("/b", 2));
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
    assert_eq!(server.metric(&result("activated")), Some(2.0));

    // What must not be used is not, and the last good policy stays active.
    store.put(KEY, &publisher.unsigned(&open_to_all("/c"), 3));
    wait_for_another(&server, "unsigned");
    store.away(true);
    wait_for_another(&server, "failed");
    server.wait_for_log_line(&["policy bundle not fetched", &store.host()]);
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
    drop(server);
    // A start without the store uses the cached bundle.
    let server = setup.start();
    server.wait_for_log("the cached policy bundle is used");
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
    store.put(KEY, &publisher.signed("/c", 3));
    store.away(false);
    server.wait_for_metric("rolegate_bundle_revision", 3.0);
    setup.assert_no_secret_in(&server.log());
}

#[test]
fn an_error_of_s3_says_what_to_do() {
    let publisher = Publisher::new();
    let store = S3Server::start();
    store.put(KEY, &publisher.signed("/a", 1));
    store.put("large", &vec![0; 9 << 20]);
    let setup = || Setup::of_s3(&store, &publisher);
    let elsewhere = |url: &str| Setup { args: Setup::of(url, &publisher).args, ..setup() };
    for (setup, errors) in [
        (
            setup().with("AWS_SECRET_ACCESS_KEY", "an0ther-secret"),
            &[
                "403 (SignatureDoesNotMatch)",
                "the credentials are not accepted: check `AWS_ACCESS_KEY_ID`",
            ][..],
        ),
        (setup().with("AWS_ACCESS_KEY_ID", "AKIANOBODY"), &["the credentials"]),
        (
            elsewhere("s3://nowhere/bundle.tar.gz"),
            &["404 (NoSuchBucket)", "the bucket or container does not exist"],
        ),
        (
            elsewhere("s3://policies/large").and(&["--bundle-max-size", "1KiB"]),
            &["the object is larger than 8 MiB"],
        ),
        (elsewhere("s3://policies/nothing"), &["404 (NoSuchKey)", "the object does not exist"]),
        (setup().with("AWS_ENDPOINT_URL", "https://127.0.0.1:1"), &["`127.0.0.1:1`", "refused"]),
        (
            Setup::of(URL, &publisher)
                .with("AWS_ENDPOINT_URL", &store.endpoint())
                .with("AWS_EC2_METADATA_DISABLED", "true"),
            &["no credentials: check `AWS_ACCESS_KEY_ID`", "`AWS_EC2_METADATA_DISABLED`"],
        ),
    ] {
        let server = setup.start();
        server.wait_for_log_line(&[&["policy bundle not fetched", "next try in"], errors].concat());
        assert_eq!(server.page("/readyz").0, 503);
        setup.assert_no_secret_in(&server.log());
    }
}

#[test]
fn a_store_that_cannot_be_asked_is_an_error_at_the_start() {
    let publisher = Publisher::new();
    let of = |url: &str| Setup::of(url, &publisher);
    for (setup, error) in [
        (of("s3://bucket"), "does not name an object: write `s3://bucket/path`"),
        (of("az://container/b?sig=s3cret-token"), "does not name an object"),
        (of("s3://key:s3cret-token@bucket/b"), "does not name an object"),
        (of("s3a://bucket/b"), "is not one of `https`, `s3`, `gs` and `az`"),
        (
            of(URL).with("AWS_ENDPOINT_URL", "minio:9000"),
            "`AWS_ENDPOINT_URL`: not a URL: write `https://host/path`",
        ),
        (
            of(URL).with("AWS_ENDPOINT_URL_S3", "http://minio:9000"),
            "`AWS_ENDPOINT_URL_S3`: `http` is accepted only on a loopback address",
        ),
        (of(URL).with("AWS_SECRET_ACCESS_KEY", SECRET_KEY), "Missing AccessKeyId"),
        (of("az://container/b"), "name the storage account in `AZURE_STORAGE_ACCOUNT_NAME`"),
        (
            of("az://container/b")
                .with("AZURE_STORAGE_ACCOUNT", "a")
                .with("AZURE_STORAGE_KEY", "no base64: s3cret"),
            "Invalid Access Key",
        ),
        (
            of("gs://bucket/b").with("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json"),
            "/nowhere/key.json",
        ),
        (
            of("gs://bucket/b").with(
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                r#"{"private_key": 1, "s3cret": "s3cret-token"}"#,
            ),
            "the credentials are not JSON of a supported type: line 1",
        ),
    ] {
        let (code, out, errors) = setup.run();
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(error), "{error}: {errors}");
        assert!(!(out + &errors).contains("s3cret-token"));
        setup.assert_no_secret_in(&errors);
    }
}

/// As in a pod with a role: the token of its service account is exchanged for credentials.
#[test]
fn the_role_of_a_service_account_is_assumed() {
    let publisher = Publisher::new();
    let store = S3Server::start();
    store.put(KEY, &publisher.signed("/a", 1));
    let roles = BundleServer::start(Sent::Untagged(
        format!(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>{ACCESS_KEY}</AccessKeyId><SecretAccessKey>{SECRET_KEY}</SecretAccessKey>\
             <SessionToken>s3ssion-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
             </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )
        .into_bytes(),
    ));
    let token = publisher.path("token");
    std::fs::write(&token, "t0ken-of-the-pod").unwrap();
    let setup = Setup::of(URL, &publisher)
        .with("AWS_ENDPOINT_URL", &store.endpoint())
        .with("AWS_ENDPOINT_URL_STS", roles.url().trim_end_matches("/bundle.tar.gz"))
        .with("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/policies")
        .with("AWS_WEB_IDENTITY_TOKEN_FILE", &token.display().to_string());
    let server = setup.start();
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    wait_for_another(&server, "unchanged");
    assert!(
        roles.requests()[0].head.contains("WebIdentityToken=t0ken-of-the-pod"),
        "{:?}",
        roles.requests()
    );
    assert_eq!(roles.requests().len(), 1, "credentials are kept until they expire");
    drop(server);
    roles.answer(Sent::Status(403));
    let server = setup.start();
    server.wait_for_log_line(&[
        "policy bundle not fetched",
        "status 403",
        "the credentials do not permit it",
    ]);
    for secret in ["t0ken-of-the-pod", "s3ssion-token", SECRET_KEY] {
        assert!(!server.log().contains(secret), "{}", server.log());
    }
}

#[test]
fn a_private_endpoint_is_trusted_by_its_authority() {
    let publisher = Publisher::new();
    let (authority, other) = (Authority::new("private"), Authority::new("other"));
    let store = S3Server::start_tls(authority.server());
    store.put(KEY, &publisher.signed("/a", 1));
    std::fs::write(publisher.path("ca.pem"), other.pem()).unwrap();
    let setup = Setup::of_s3(&store, &publisher).and(&["--bundle-ca", &publisher.arg("ca.pem")]);
    let server = setup.start();
    server.wait_for_log(
        "its certificate was not issued by an authority in the file that is configured for it",
    );
    assert_eq!(server.page("/readyz").0, 503);
    // The file is read again at each fetch.
    std::fs::write(publisher.path("ca.pem"), authority.pem()).unwrap();
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
}

#[test]
fn an_object_may_be_the_shadow_policy() {
    let publisher = Publisher::new();
    let store = S3Server::start();
    store.put(KEY, &publisher.signed("/b", 1));
    let active = PolicyFolder::new(&open_to_all("/a"));
    let environment = Setup::of_s3(&store, &publisher).environment;
    let setup =
        Setup { environment, ..Setup::of(&active.arg(), &publisher) }.and(&["--shadow", URL]);
    let server = setup.start();
    server.wait_for_log_line(&["policy bundle active", r#""span":{"name":"shadow"}"#, URL]);
}

/// As in a pod of Google with a service account: its metadata service gives a token.
#[test]
fn a_bundle_in_google_cloud_storage_is_fetched_with_the_token_of_the_machine() {
    let publisher = Publisher::new();
    let store = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let token = br#"{"access_token": "t0ken-of-the-machine", "expires_in": 3600}"#;
    let metadata = BundleServer::start(Sent::Untagged(token.to_vec()));
    let address =
        |server: &BundleServer| server.url().trim_end_matches("/bundle.tar.gz").to_owned();
    let setup = Setup::of("gs://policies/team/bundle.tar.gz", &publisher)
        .with("GOOGLE_BASE_URL", &address(&store))
        .with("GCE_METADATA_HOST", address(&metadata).trim_start_matches("http://"));
    let server = setup.start();
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    let asked = &store.requests()[0].head;
    assert!(asked.starts_with("GET /policies/team%2Fbundle%2Etar%2Egz "), "{asked}");
    assert!(asked.contains("authorization: Bearer t0ken-of-the-machine"), "{asked}");
    wait_for_another(&server, "unchanged");
    assert_eq!((store.answered(200), metadata.requests().len()), (1, 1));
    store.answer(Sent::Status(403));
    server.wait_for_log_line(&["status 403", "they need the role `roles/storage.objectViewer`"]);
    assert!(!server.log().contains("t0ken-of-the-machine"), "{}", server.log());
}

#[test]
fn a_bundle_in_azure_is_fetched_with_a_key_or_a_signature() {
    let publisher = Publisher::new();
    let store = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let endpoint = store.url().trim_end_matches("/bundle.tar.gz").to_owned();
    let url = "az://policies/team/bundle.tar.gz";
    let emulator = Setup::of(url, &publisher)
        .with("AZURE_STORAGE_USE_EMULATOR", "true")
        .with("AZURITE_BLOB_STORAGE_URL", &endpoint);
    let server = emulator.start();
    server.wait_for_metric("rolegate_bundle_revision", 1.0);
    let asked = store.requests()[0].head.clone();
    assert!(asked.starts_with("GET /devstoreaccount1/policies/team/bundle.tar.gz "), "{asked}");
    assert!(asked.contains("authorization: SharedKey devstoreaccount1:"), "{asked}");
    wait_for_another(&server, "unchanged");
    drop(server);

    let signature = "sv=2024-01-01&sp=r&sig=s3cret-signature";
    let signed = Setup::of(url, &publisher)
        .with("AZURE_STORAGE_ACCOUNT", "account")
        .with("AZURE_STORAGE_ENDPOINT", &endpoint)
        .with("AZURE_STORAGE_SAS_TOKEN", signature);
    store.answer(Sent::File(publisher.signed("/b", 2)));
    let server = signed.start();
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
    let has_signature =
        || store.requests().iter().any(|request| request.head.contains("sig=s3cret-signature"));
    wait_until(has_signature, || format!("{:?}", store.requests()));
    for (sent, logged) in [
        (Sent::Status(403), "they need the role `Storage Blob Data Reader`"),
        (Sent::Status(500), "status 500"),
        (Sent::Away, "policy bundle not fetched"),
        (Sent::Truncated(publisher.signed("/c", 3)), "policy bundle not fetched"),
    ] {
        store.answer(sent);
        wait_for_another(&server, "failed");
        server.wait_for_log(logged);
    }
    assert!(!server.log().contains("s3cret-signature"), "{}", server.log());
    signed.assert_no_secret_in(&server.log());
}
