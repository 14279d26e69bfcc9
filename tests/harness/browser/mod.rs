//! A real Chromium, driven by chromedriver: one for all tests of this process, used by one test at a time.
//!
//! ```ignore
//! let Some(page) = Page::take("the overview").await else { return };
//! page.open(&deployer.url(), "/").await;
//! assert_eq!(page.text("h1").await, "deployments");
//! page.assert_accessible().await;
//! page.screenshot("overview").await;
//! ```
//!
//! Each test begins with a blank page, without cookies, at 1280 × 800 in light colours. What is waited for is bounded
//! and ends with what the page shows.

mod driver; // the client of chromedriver

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::harness::browser::driver::{DriverError, ELEMENT, Session};
use crate::harness::folder;
use crate::harness::is_missing;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often a condition is looked at that nobody announces.
const LOOK: Duration = Duration::from_millis(20);
/// The checker of accessibility; `axe/README.md` says where it is from.
const AXE: &str = include_str!("axe/axe.min.js");

/// The browser lives as long as its watchdog's standard input is open.
struct Browser {
    session: Session,
    turn: Mutex<()>,
    _alive: ChildStdin,
}

static BROWSER: OnceCell<Browser> = OnceCell::const_new();

/// The browser's window, for one test.
pub(crate) struct Page {
    browser: &'static Browser,
    /// Whether the scripts of pages run.
    scripts: AtomicBool,
    _turn: MutexGuard<'static, ()>,
}

impl Page {
    /// Waits for the browser; `None` where Chromium is not installed, which is said with the name of the tests.
    pub(crate) async fn take(tests: &str) -> Option<Self> {
        if is_missing("chromium", tests) || is_missing("chromedriver", tests) {
            return None;
        }
        let browser = BROWSER.get_or_init(start).await;
        let page =
            Self { browser, scripts: AtomicBool::new(true), _turn: browser.turn.lock().await };
        page.reset().await;
        Some(page)
    }

    /// Undoes what an earlier test has left.
    async fn reset(&self) {
        let session = &self.browser.session;
        let windows = session.get("window/handles").await.unwrap();
        let windows: Vec<String> = serde_json::from_value(windows).unwrap();
        let (first, others) = windows.split_first().unwrap();
        for window in others {
            session.post("window", json!({"handle": window})).await.unwrap();
            session.delete("window").await.unwrap();
        }
        session.post("window", json!({"handle": first})).await.unwrap();
        self.scripts(true).await;
        self.open("about:blank", "").await;
        self.cdp("Network.clearBrowserCookies", json!({})).await;
        // A picture is as wide as the window.
        self.cdp("Emulation.setScrollbarsHidden", json!({"hidden": true})).await;
        self.resize(1280, 800).await;
        self.colors("light").await;
        self.console().await;
    }

    /// Opens the page of that service.
    pub(crate) async fn open(&self, service: &str, path: &str) {
        let url = format!("{service}{path}");
        self.browser.session.post("url", json!({"url": url})).await.unwrap();
    }

    /// Opens the page again.
    pub(crate) async fn reload(&self) {
        self.browser.session.post("refresh", json!({})).await.unwrap();
    }

    /// Switches JavaScript on or off, from the next page on. The test's own scripts run nevertheless.
    pub(crate) async fn scripts(&self, on: bool) {
        self.scripts.store(on, Ordering::SeqCst);
        self.let_scripts_run(on).await;
    }

    async fn let_scripts_run(&self, on: bool) {
        self.cdp("Emulation.setScriptExecutionDisabled", json!({"value": !on})).await;
    }

    /// Sets the size that the page sees, in CSS pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.cdp("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Sets the colours that the reader prefers, `light` or `dark`.
    pub(crate) async fn colors(&self, scheme: &str) {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.cdp("Emulation.setEmulatedMedia", media).await;
    }

    /// A command of the protocol of developer tools (<https://chromedevtools.github.io/devtools-protocol/>).
    pub(crate) async fn cdp(&self, command: &str, params: Json) -> Json {
        let body = json!({"cmd": command, "params": params});
        let answer = self.browser.session.post("goog/cdp/execute", body).await;
        answer.unwrap_or_else(|error| panic!("{command}: {error:?}"))
    }

    /// Where the page is.
    pub(crate) async fn url(&self) -> String {
        self.browser.session.get("url").await.unwrap().as_str().unwrap().to_owned()
    }

    /// The path and query of where the page is.
    pub(crate) async fn path(&self) -> String {
        let url = self.url().await;
        let (_, rest) = url.split_once("://").unwrap_or(("", &url));
        rest.find('/').map_or_else(String::new, |at| rest[at..].to_owned())
    }

    pub(crate) async fn title(&self) -> String {
        self.browser.session.get("title").await.unwrap().as_str().unwrap().to_owned()
    }

    /// The text that people see of the first such element.
    pub(crate) async fn text(&self, css: &str) -> String {
        let element = self.find("css selector", css).await;
        let text = self.browser.session.get(&format!("element/{element}/text")).await;
        text.unwrap().as_str().unwrap().to_owned()
    }

    /// The same of all such elements.
    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let script =
            "return [...document.querySelectorAll(arguments[0])].map(one => one.innerText.trim())";
        serde_json::from_value(self.run(script, json!([css])).await).unwrap()
    }

    /// How many such elements there are.
    pub(crate) async fn count(&self, css: &str) -> usize {
        self.browser.session.find_all("css selector", css).await.len()
    }

    /// An attribute of the first such element.
    pub(crate) async fn attribute(&self, css: &str, name: &str) -> Option<String> {
        let element = self.find("css selector", css).await;
        let value = self.browser.session.get(&format!("element/{element}/attribute/{name}")).await;
        value.unwrap().as_str().map(str::to_owned)
    }

    /// Clicks on the button or link that reads so, and waits for the page that it leads to: a browser that has much to do
    /// has not left the page yet when the click has ended.
    pub(crate) async fn press(&self, words: &str) {
        let named =
            format!("//*[self::button or self::a or self::summary][normalize-space()=\"{words}\"]");
        let element = self.find("xpath", &named).await;
        let marked = "document.pressed = arguments[0].closest('a[href], form') !== null; \
                      return document.pressed";
        let reference = json!([{ELEMENT: element}]);
        let leads_on = self.run(marked, reference).await == json!(true);
        self.click_on(&element).await;
        if leads_on {
            let arrived = "return document.pressed !== true && document.readyState === 'complete'";
            self.wait_until(arrived, json!([])).await;
        }
    }

    /// Whether there is a button or link that reads so.
    pub(crate) async fn offers(&self, words: &str) -> bool {
        let named =
            format!("//*[self::button or self::a or self::summary][normalize-space()=\"{words}\"]");
        !self.browser.session.find_all("xpath", &named).await.is_empty()
    }

    /// Writes into the first such field, in place of what is there.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let element = self.find("css selector", css).await;
        let session = &self.browser.session;
        session.post(&format!("element/{element}/clear"), json!({})).await.unwrap();
        session.post(&format!("element/{element}/value"), json!({"text": text})).await.unwrap();
    }

    /// Runs a script in the page; what it returns.
    pub(crate) async fn run(&self, script: &str, args: Json) -> Json {
        let body = json!({"script": script, "args": args});
        self.browser.session.post("execute/sync", body).await.unwrap()
    }

    /// Waits until the first such element contains the text.
    pub(crate) async fn wait_for_text(&self, css: &str, text: &str) {
        let script = "const one = document.querySelector(arguments[0]); \
                      return one !== null && one.innerText.includes(arguments[1])";
        self.wait_until(script, json!([css, text])).await;
    }

    /// Waits until the script returns true.
    pub(crate) async fn wait_until(&self, script: &str, args: Json) {
        let looking = async {
            while !self.is_true(script, &args).await {
                tokio::time::sleep(LOOK).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        let Ok(()) = found else {
            panic!("waited in vain for {script} {args} at {}", self.picture().await)
        };
    }

    /// A page that is being replaced cannot be asked, and the next one is.
    async fn is_true(&self, script: &str, args: &Json) -> bool {
        let body = json!({"script": script, "args": args});
        match self.browser.session.post("execute/sync", body).await {
            Ok(value) => value == true,
            Err(DriverError { word, message }) if word == "javascript error" => {
                panic!("{script}: {message}")
            }
            Err(_) => false,
        }
    }

    /// What the browser has complained about since it was last asked: scripts that fail, and whatever the content
    /// security policy refuses. Not the icon that GitHub's stand-in does not have, nor hints about forms.
    pub(crate) async fn console(&self) -> Vec<String> {
        let lines = self.browser.session.post("se/log", json!({"type": "browser"})).await.unwrap();
        let lines = lines.as_array().unwrap().iter();
        let messages = lines.map(|line| line["message"].as_str().unwrap().to_owned());
        messages.filter(|one| !one.contains(" [DOM] ") && !one.contains("/favicon.ico ")).collect()
    }

    /// Checks the page by axe-core: WCAG 2.2 A and AA, and its best practices.
    pub(crate) async fn assert_accessible(&self) {
        // It goes on in callbacks, which do not run where scripts are off.
        self.let_scripts_run(true).await;
        self.run(AXE, json!([])).await;
        let script = "const done = arguments[0]; axe.run().then(result => done(result.violations.map(one => \
                      `${one.id}: ${one.help}\\n` + one.nodes.map(node => `    ${node.html}\\n    ${node.failureSummary}`)\
                      .join('\\n'))))";
        let body = json!({"script": script, "args": []});
        let violations = self.browser.session.post("execute/async", body).await.unwrap();
        let violations: Vec<String> = serde_json::from_value(violations).unwrap();
        self.let_scripts_run(self.scripts.load(Ordering::SeqCst)).await;
        assert!(violations.is_empty(), "{}\n{}", self.url().await, violations.join("\n"));
    }

    /// Checks that nothing is wider than the window, so that people scroll in one direction only.
    pub(crate) async fn assert_fits(&self) {
        let script = "return [document.documentElement.scrollWidth, window.innerWidth]";
        let widths: [u64; 2] = serde_json::from_value(self.run(script, json!([])).await).unwrap();
        assert!(widths[0] <= widths[1], "{} is {widths:?} wide", self.url().await);
    }

    /// Writes a picture of the whole page to `target/tmp/screenshots/NAME.png`, for people to look at.
    pub(crate) async fn screenshot(&self, name: &str) -> PathBuf {
        let picture =
            self.cdp("Page.captureScreenshot", json!({"captureBeyondViewport": true})).await;
        let picture = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, picture).unwrap();
        path
    }

    async fn find(&self, using: &str, what: &str) -> String {
        match self.browser.session.find(using, what).await {
            Ok(element) => element,
            Err(error) => panic!("{what}: {error:?} at {}", self.picture().await),
        }
    }

    async fn click_on(&self, element: &str) {
        let path = format!("element/{element}/click");
        if let Err(error) = self.browser.session.post(&path, json!({})).await {
            panic!("it cannot be clicked: {error:?} at {}", self.picture().await);
        }
    }

    /// What people see, for who reads why a test fails.
    async fn picture(&self) -> String {
        let text = self.run("return document.body.innerText", json!([])).await;
        format!("{}\n{}", self.url().await, text.as_str().unwrap_or_default())
    }
}

async fn start() -> Browser {
    let (driver, debugger, alive) = tokio::task::spawn_blocking(launch).await.unwrap();
    let session = Session::attach(&driver, &debugger).await;
    Browser { session, turn: Mutex::new(()), _alive: alive }
}

/// Starts both programs; where the driver listens, where the browser does, and what they live by. The shell outlives
/// this process by a moment: its `read` ends when we do, killed or not.
#[expect(clippy::zombie_processes, reason = "the watchdog is there to outlive this process")]
fn launch() -> (String, String, ChildStdin) {
    // The sandbox does not work for root, nor in most containers; only the tests' own pages are opened.
    let script = r#"
        chromedriver --port=0 &
        driver=$!
        chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
            --no-proxy-server --disable-background-networking --disable-component-update --disable-sync \
            --disable-extensions --password-store=basic --remote-debugging-port=0 \
            --user-data-dir="$0" about:blank >/dev/null 2>&1 &
        browser=$!
        read -r _
        kill $driver $browser
        wait
        rm -rf "$0"
    "#;
    let folder = folder::named("deployer-browser").keep();
    let mut shell = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(&folder)
        .env("HOME", &folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(shell.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = |line: String| {
        line.strip_prefix("ChromeDriver was started successfully on port ")
            .and_then(|rest| rest.strip_suffix('.'))
            .map(str::to_owned)
    };
    let port = log.by_ref().find_map(port).expect("chromedriver says where it listens");
    // Read on, or it would block once the pipe is full.
    std::thread::spawn(move || log.for_each(drop));
    let begin = std::time::Instant::now();
    let debugger = loop {
        let text = std::fs::read_to_string(folder.join("DevToolsActivePort")).unwrap_or_default();
        // The port, and a path that is of no use here.
        if let Some((debugger, _)) = text.split_once('\n') {
            break debugger.to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "chromium does not start");
        std::thread::sleep(LOOK);
    };
    let alive = shell.stdin.take().unwrap();
    (format!("http://127.0.0.1:{port}"), format!("127.0.0.1:{debugger}"), alive)
}
