//! The console in a real browser: that it loads nothing from elsewhere and breaks no rule of its
//! own, that it works by keyboard, in light and dark, wide and narrow, and that its text has
//! contrast. Pictures of it are in `target/console/`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

mod contrast;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use load::check_message::{CHECK_PATH, Checked};
use testbed::envoy::Target;
use testbed::grpc::{Client, basic, call, handshake};
use testbed::rolegate::ANY_PORT;
use testbed::{Browser, Rolegate, repository};
use tokio::net::TcpStream;

/// Users with the passwords `password`; a token's issuer that cannot be reached.
const POLICY: &str = "version: 1
identity:
  basic:
    users:
      ann: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" }
      bob: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" }
ISSUER
roles:
  reader: { allow: [\"GET /orders/**\"] }
  clerk: { extends: [reader], allow: [\"POST|PUT /orders/{id}\"], deny: [\"* /orders/archive/**\"] }
  anyone: { allow: [\"GET /status\"] }
grants:
  reader: { users: [ann] }
  clerk: { users: [bob] }
";
const ISSUER: &str = "  jwt:
    - issuer: https://id.example
      audiences: [orders]
      keys: { url: \"http://127.0.0.1:9/keys\", refresh: 1h }";

/// A running rolegate with the console, and a browser.
struct Stage {
    rolegate: Rolegate,
    browser: Browser,
    envoy: Client,
    policy: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new(policy: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, policy).unwrap();
        Self::start(folder, file, more).await
    }

    async fn start(folder: tempfile::TempDir, file: PathBuf, more: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_rolegate"));
        let more =
            [&["--console", "--poll-interval", "50ms", "--keys-wait", "0"][..], more].concat();
        let rolegate = Rolegate::start(program, &file, Target::Tcp(ANY_PORT), folder.path(), &more)
            .await
            .unwrap();
        let browser = Browser::start(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let envoy = handshake(TcpStream::connect(rolegate.listen.tcp().unwrap()).await.unwrap())
            .await
            .unwrap();
        Self { rolegate, browser, envoy, policy: file, _folder: folder }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.rolegate.admin)
    }

    fn open(&mut self, path: &str) {
        let url = format!("{}{path}", self.origin());
        self.browser.open(&url).unwrap();
    }

    async fn check(&self, method: &str, path: &str, headers: &[(&str, &str)]) {
        let checked = Checked { method, path, headers, raw_headers: false, ..Checked::default() };
        call(&self.envoy, CHECK_PATH, checked.framed()).await.unwrap();
    }

    fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector('{selector}')?.innerText ?? ''");
        self.browser.value(&expression).unwrap().as_str().unwrap().to_owned()
    }

    /// Loads the page until a part of it has this text.
    fn wait_for(&mut self, selector: &str, text: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            self.open("/console");
            let shown = self.text(selector);
            if shown.contains(text) {
                return;
            }
            assert!(Instant::now() < end, "waited in vain for {text:?} in {shown}");
        }
    }

    /// Takes pictures, wide and narrow, light and dark, and looks at each for what is hard to read.
    fn pictures(&mut self, name: &str) {
        let folder = repository().join("target/console");
        std::fs::create_dir_all(&folder).unwrap();
        for (width, shape) in [(1280, "wide"), (390, "narrow")] {
            for (dark, scheme) in [(false, "light"), (true, "dark")] {
                self.browser.show(width, dark).unwrap();
                self.browser.picture(&folder.join(format!("{name}-{shape}-{scheme}.png"))).unwrap();
                let overflow =
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth";
                assert_eq!(
                    self.browser.value(overflow).unwrap(),
                    0,
                    "{name} {shape}: the page is too wide"
                );
                contrast::check(&mut self.browser, &format!("{name} {shape} {scheme}"));
            }
        }
        self.browser.show(1280, false).unwrap();
    }

    /// Nothing was blocked, failed, or came from elsewhere.
    fn complains_of_nothing(&self) {
        let complaints = self.browser.complaints(&self.origin());
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_console_has_nothing_to_complain_of() {
    let mut stage = Stage::new(&POLICY.replace("ISSUER\n", ""), &[]).await;
    let ann = basic("ann:password");
    for number in 0..30 {
        stage.check("GET", &format!("/orders/{number}"), &[("authorization", &ann)]).await;
    }
    stage.wait_for(".charts tr:has(path[d^=M])", "allowed per second");
    stage.open("/console?path=/orders/7&user=ann");
    assert!(stage.text("#wrong").contains("Nothing is wrong"), "{}", stage.text("#wrong"));
    assert!(stage.text("#explain .answer").contains("200 allowed"));
    assert_eq!(stage.browser.value("document.title").unwrap(), "ok · rolegate");
    stage.pictures("healthy");
    stage.complains_of_nothing();
}

/// A reload that failed, an issuer without keys, a shadow policy that disagrees, and denials.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_server_shows_what_is_wrong_first() {
    let shadow = tempfile::tempdir().unwrap();
    let candidate = POLICY.replace("ISSUER\n", "").replace("GET /orders/**", "GET /orders/{id}");
    std::fs::write(shadow.path().join("policy.yaml"), candidate).unwrap();
    let shadow = shadow.path().display().to_string();
    let mut stage = Stage::new(&POLICY.replace("ISSUER", ISSUER), &["--shadow", &shadow]).await;
    let (ann, wrong) = (basic("ann:password"), basic("bob:guessed"));
    for number in 0..8 {
        let path = format!("/orders/{number}/<script>alert(1)</script>");
        let request_id = format!("4f5c-{number}");
        let headers = [("authorization", ann.as_str()), ("x-request-id", request_id.as_str())];
        stage.check("GET", &path, &headers).await;
        stage.check("DELETE", &path, &headers).await;
        stage
            .check("GET", "/orders/7", &[("authorization", &wrong), ("x-request-id", "<b>")])
            .await;
        stage.check("GET", "/nowhere", &[]).await;
    }
    let broken = POLICY.replace("ISSUER", ISSUER).replace("extends: [reader]", "extends: [raeder]");
    std::fs::write(&stage.policy, broken).unwrap();
    stage.wait_for("#wrong", "the changed policy does not load");
    stage.wait_for("#wrong", "The shadow policy disagrees");
    stage.wait_for("#difference", "revoked");
    let wrong = stage.text("#wrong");
    for wanted in ["Problem", "did you mean `reader`?", "no keys of https://id.example"] {
        assert!(wrong.contains(wanted), "no {wanted} in {wrong}");
    }
    let first = stage.browser.value("document.querySelector('main').firstElementChild.id").unwrap();
    assert_eq!(first, "wrong", "what is wrong comes first");
    let denials = stage.text("#denials");
    assert!(denials.contains("bad_password") && denials.contains("claims to be bob"), "{denials}");
    assert!(denials.contains("<script>alert(1)</script>"), "shown as text: {denials}");
    // The link of a denial explains it.
    stage
        .browser
        .load(|browser| {
            let click = "document.querySelector('#denials a[href*=DELETE]').click()";
            browser.value(click).map(drop)
        })
        .unwrap();
    assert!(stage.text("#explain .answer").contains("403 denied"), "{}", stage.text("#explain"));
    stage.pictures("broken");
    stage.complains_of_nothing();
}

/// The roles of a search cluster have a table of their own.
#[tokio::test(flavor = "multi_thread")]
async fn the_roles_of_a_search_cluster_are_readable() {
    let policy = repository().join("policies/search");
    let mut stage = Stage::start(tempfile::tempdir().unwrap(), policy, &[]).await;
    stage.open("/console?path=https://search.example.com/logs-7/_search&user=leo");
    let rules = stage.text("#rules");
    for wanted in
        ["Roles of the search cluster", "logs_reader", "logs-*", "the backend role `oncall`"]
    {
        assert!(rules.contains(wanted), "no {wanted} in {rules}");
    }
    let answer = stage.text("#explain .answer");
    for wanted in [
        "200 allowed",
        "This assumes that the credentials of leo are valid",
        "its body, which is assumed to be empty",
    ] {
        assert!(answer.contains(wanted), "no {wanted} in {answer}");
    }
    assert!(stage.text("#status").contains("4 roles of the search cluster"));
    stage.pictures("search");
    stage.complains_of_nothing();
}

/// Every link, field and table that scrolls is reached by Tab, in the order of the page, and shows
/// that it has the focus.
#[tokio::test(flavor = "multi_thread")]
async fn a_keyboard_suffices() {
    let mut stage = Stage::new(&POLICY.replace("ISSUER\n", ""), &[]).await;
    stage.check("GET", "/nowhere", &[]).await;
    stage.open("/console");
    let focused = "(e => e === document.body ? '' : \
        [e.id || e.textContent.slice(0, 30), [...document.querySelectorAll('*')].indexOf(e), \
         getComputedStyle(e).outlineStyle, e.getBoundingClientRect().top >= 0].join('|'))(document.activeElement)";
    let mut visited = Vec::new();
    for _ in 0..100 {
        stage.browser.press("Tab", false).unwrap();
        let shown = stage.browser.value(focused).unwrap().as_str().unwrap().to_owned();
        if shown.is_empty() || visited.first() == Some(&shown) {
            break;
        }
        let parts: Vec<&str> = shown.split('|').collect();
        assert!(parts[2] != "none" && parts[3] == "true", "the focus is not seen: {shown}");
        visited.push(shown);
    }
    let place = |shown: &String| shown.split('|').nth(1).unwrap().parse::<usize>().unwrap();
    assert!(visited.windows(2).all(|pair| place(&pair[0]) < place(&pair[1])), "{visited:#?}");
    assert!(visited[0].starts_with("Skip to what is wrong"), "{visited:#?}");
    let all = "document.querySelectorAll('a, input, select, button, [tabindex=\"0\"]').length";
    assert_eq!(stage.browser.value(all).unwrap(), visited.len(), "{visited:#?}");

    // Explain a request without a mouse: go to the field of the path, type, and press Enter. A
    // fragment in the URL would move the focus once the browser scrolls to it.
    stage.open("/console?again");
    stage.browser.value("document.getElementById('explain-host').focus()").unwrap();
    stage.browser.press("Tab", false).unwrap();
    stage.browser.write("/orders/archive/1").unwrap();
    stage.browser.press("Tab", false).unwrap();
    stage.browser.write("bob").unwrap();
    let focused = stage.browser.value("document.activeElement.id").unwrap();
    assert_eq!(focused, "explain-user");
    stage.browser.load(|browser| browser.press("Enter", false)).unwrap();
    let answer = stage.text("#explain .answer");
    assert!(answer.contains("403 denied") && answer.contains("* /orders/archive/**"), "{answer}");
    assert_eq!(
        stage.browser.value("document.getElementById('explain-user').value").unwrap(),
        "bob"
    );
    stage.complains_of_nothing();
}
