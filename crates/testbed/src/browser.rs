//! A headless Chromium, driven by the DevTools protocol over a pipe: each message is JSON that ends
//! with a zero byte.
//!
//! It resolves no name and reaches only loopback addresses. [`Browser::complaints`] lists messages
//! of the console, issues such as violations of the Content-Security-Policy, and requests to other
//! servers.

#![expect(clippy::indexing_slicing, reason = "a field that a JSON value does not have is null")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::process::{Failed, Process, Stdout, find_program, repository};

/// The version that `make tools` installs.
const VERSION: &str = "147.0.0";
/// The maximum time for an answer of the browser, and for a page to load.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running browser with a single page. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    process: Process,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// The events so far.
    events: Vec<Value>,
}

impl Browser {
    /// Starts it, with its files in `folder`.
    pub fn start(folder: &Path) -> Result<Self, Failed> {
        let program = program()?;
        let program_folder = program.parent().unwrap_or(Path::new("/"));
        let fonts = folder.join("fonts.conf");
        let config = format!(
            "<?xml version=\"1.0\"?><fontconfig>\
             <dir>{}</dir><dir>/usr/share/fonts</dir><cachedir>{}</cachedir>\
             <alias><family>monospace</family>\
             <prefer><family>DejaVu Sans Mono</family></prefer></alias></fontconfig>",
            program_folder.join("fonts").display(),
            folder.join("fonts-cache").display(),
        );
        std::fs::write(&fonts, config).map_err(|error| Failed::io("fonts.conf", &error))?;
        // Chromium reads commands from file descriptor 3 and writes messages to 4: the shell moves
        // the pipes of standard input and output there.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2"])
            .arg(&program)
            .args(["--headless=shell", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
            .arg("--no-proxy-server")
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            .env("LD_LIBRARY_PATH", program_folder.join("lib"))
            .env("FONTCONFIG_FILE", &fonts)
            .env("HOME", folder);
        let log = folder.join("chromium.log");
        let mut process = Process::start("chromium", command, log, Stdout::Piped)?;
        let pipes = (process.child.stdin.take(), process.child.stdout.take());
        let (Some(commands), Some(messages)) = pipes else {
            return Err(process.failed("it has no pipes"));
        };
        let messages = receive(messages);
        let events = Vec::new();
        let mut browser = Self { process, commands, messages, session: None, last_id: 0, events };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method of the protocol, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Failed> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .map_err(|error| Failed::io("chromium", &error))?;
        loop {
            let mut answer = self
                .messages
                .recv_timeout(ANSWER_TIMEOUT)
                .map_err(|_| self.process.failed("it has ended or does not answer"))?;
            if answer["id"] != id {
                self.events.push(answer);
            } else if answer["error"].is_null() {
                return Ok(answer["result"].take());
            } else {
                return Err(Failed::new(method, answer["error"].to_string()));
            }
        }
    }

    /// Does something that loads a page, and waits until that page is loaded.
    ///
    /// The old page is marked with `isOld`, and the page without the mark is the new one. A load
    /// event would not tell: it could belong to the old page.
    pub fn load(
        &mut self,
        action: impl FnOnce(&mut Self) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        self.value("window.isOld = true")?;
        action(self)?;
        let end = Instant::now() + ANSWER_TIMEOUT;
        while Instant::now() < end {
            // An error means that the old page is gone and the new page is not there yet.
            let is_loaded = self.value("!window.isOld && document.readyState === 'complete'");
            if is_loaded.is_ok_and(|is_loaded| is_loaded == true) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(Failed::new("chromium", "no page was loaded"))
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) -> Result<(), Failed> {
        self.load(|browser| browser.call("Page.navigate", json!({ "url": url })).map(drop))
    }

    /// The value of an expression on the page. The debugger evaluates it, even if the page's
    /// Content-Security-Policy allows no script.
    pub fn value(&mut self, expression: &str) -> Result<Value, Failed> {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters)?;
        match result["exceptionDetails"].is_null() {
            true => Ok(result["result"]["value"].take()),
            false => Err(Failed::new(expression, result["exceptionDetails"].to_string())),
        }
    }

    /// Presses a key, such as `Tab`, with shift or without.
    pub fn press(&mut self, key: &str, shift: bool) -> Result<(), Failed> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => return Err(Failed::new("press", format!("not a known key: {key}"))),
        };
        for kind in ["keyDown", "keyUp"] {
            let parameters = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
                "modifiers": if shift { 8 } else { 0 },
            });
            self.call("Input.dispatchKeyEvent", parameters)?;
        }
        Ok(())
    }

    /// Types text into the field that has the focus.
    pub fn write(&mut self, text: &str) -> Result<(), Failed> {
        self.call("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Shows pages in a viewport of this width, in dark or light colours.
    pub fn show(&mut self, width: u32, dark: bool) -> Result<(), Failed> {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Writes a picture of the whole page, as PNG.
    pub fn picture(&mut self, file: &Path) -> Result<(), Failed> {
        let picture =
            self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))?;
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| Failed::new("picture", error.to_string()))?;
        std::fs::write(file, bytes).map_err(|error| Failed::io(file.display().to_string(), &error))
    }

    /// The events so far that should not occur: exceptions, messages of the console of any level,
    /// issues such as violations of the Content-Security-Policy, and requests to other addresses
    /// than `origin`.
    pub fn complaints(&self, origin: &str) -> Vec<String> {
        let wrong = self.events.iter().filter(|event| is_wrong(event, origin));
        wrong.map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        // A browser that closes also ends its helper processes. The field `process` is dropped
        // next: that stops a browser which has not answered.
        let _ = self.call("Browser.close", json!({}));
    }
}

fn is_wrong(event: &Value, origin: &str) -> bool {
    match event["method"].as_str() {
        Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => true,
        // Chromium reports this if a script of a test clicks a link on a page that no person has
        // used.
        Some("Audits.issueAdded") => !event.to_string().contains("NavigationEntryMarkedSkippable"),
        Some("Network.requestWillBeSent") => {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            !url.starts_with(origin) && url != "about:blank"
        }
        Some(_) | None => false,
    }
}

/// The messages of a pipe, until it is closed.
fn receive(pipe: ChildStdout) -> Receiver<Value> {
    let (send, messages) = channel();
    std::thread::spawn(move || {
        let parts = BufReader::new(pipe).split(0).map_while(Result::ok);
        let parsed = parts.filter_map(|message| serde_json::from_slice(&message).ok());
        // Sending fails once the browser is dropped.
        parsed.take_while(|message: &Value| send.send(message.clone()).is_ok()).for_each(drop);
    });
    messages
}

/// Chromium: `CHROMIUM=/path`, else as `make tools` installed it in `.tools/`.
fn program() -> Result<PathBuf, Failed> {
    let installed = repository().join(format!(".tools/chromium-{VERSION}/chromium"));
    find_program("CHROMIUM", "run `make tools`", [installed])
}
