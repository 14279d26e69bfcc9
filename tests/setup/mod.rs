//! `the-deployer setup`, as an operator runs it: the real program, a GitHub that registers Apps, a browser.

mod registration; // the App, by its manifest
mod steps; // the other steps, and the whole way

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use the_deployer::support::clock::Clock;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin};

use crate::cli::program;
use crate::harness::github::{CLIENT_SECRET, HOOK_SECRET, World};

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(2);
/// The address of the service in these tests; nothing answers there.
const SERVICE: &str = "http://127.0.0.1:9";

/// An operator's folder, and a GitHub at which somebody has signed in.
struct Place {
    folder: TempDir,
    github: World,
}

/// What a run has left.
struct Outcome {
    code: i32,
    /// Standard output, then standard error.
    text: String,
}

/// A run that is under way.
struct Run {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStderr>>,
    heard: String,
}

impl Place {
    async fn new() -> Self {
        let github = World::start(&Clock::system()).await;
        github.sits_at_browser("octocat");
        Self { folder: tempfile::tempdir().unwrap(), github }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the setup.
    fn file(&self, name: &str) -> PathBuf {
        self.path("deployer").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// The names and texts of the setup's files, but for the clone of a repository.
    fn files(&self) -> Vec<(String, String)> {
        fn below(folder: &Path, root: &Path, files: &mut Vec<(String, String)>) {
            let Ok(entries) = fs::read_dir(folder) else { return };
            for path in entries.map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    below(&path, root, files);
                } else {
                    let name = path.strip_prefix(root).unwrap().display().to_string();
                    files.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let root = self.path("deployer");
        let mut files = Vec::new();
        below(&root, &root, &mut files);
        files.retain(|(name, _)| !name.starts_with("data/"));
        files.sort();
        files
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = program("the-deployer", self.folder.path());
        command.arg("setup").args(arguments).args(["--github-api", &self.github.api_url()]);
        let mut command = tokio::process::Command::from(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs it to its end, without anybody at the terminal.
    async fn runs(&self, arguments: &[&str]) -> Outcome {
        let output = self.command(arguments).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(PATIENCE, output).await.unwrap().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        no_secret_in(&text);
        Outcome { code: output.status.code().unwrap(), text }
    }

    /// Begins a run whose standard input the test writes.
    fn begins(&self, arguments: &[&str]) -> Run {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let stdin = child.stdin.take();
        Run { child, stdin, lines, heard: String::new() }
    }

    /// Begins to register an App, and waits for the address of the page.
    async fn registers(&self, more: &[&str]) -> (Run, String) {
        let arguments = ["github", "--service-url", SERVICE, "--organization", "acme"];
        let name = ["--app-name", "the-deployer"];
        let name = if more.contains(&"--app-name") { &[][..] } else { &name[..] };
        let mut run = self.begins(&[&arguments[..], name, more].concat());
        let line = run.says("http://127.0.0.1:").await;
        let start = line.find("http://").unwrap();
        (run, line[start..].trim().to_owned())
    }
}

impl Run {
    /// The next line on standard error with that text.
    async fn says(&mut self, text: &str) -> String {
        let wait = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.heard += &line;
                self.heard.push('\n');
                if line.contains(text) {
                    return line;
                }
            }
            panic!("{text:?} was not said:\n{}", self.heard);
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{text:?} is late"))
    }

    /// Types a line.
    async fn types(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    fn interrupts(&self) {
        let id = self.child.id().unwrap().to_string();
        let status = std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(status.success());
    }

    async fn ends(mut self) -> Outcome {
        let wait = async {
            let mut text = String::new();
            self.child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.heard += &line;
                self.heard.push('\n');
            }
            (text, self.child.wait().await.unwrap())
        };
        let (text, status) = tokio::time::timeout(PATIENCE, wait).await.expect("it does not end");
        let text = text + &self.heard;
        no_secret_in(&text);
        Outcome { code: status.code().unwrap_or(-1), text }
    }
}

/// The text without the breaks of its lines, which depend on the lengths of addresses.
fn unwrapped(text: &str) -> String {
    let indent = " ".repeat(12);
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix(&indent).filter(|rest| !rest.starts_with(' ')) {
            Some(rest) => out = format!("{} {rest}\n", out.trim_end_matches('\n')),
            None => out += &format!("{line}\n"),
        }
    }
    out
}

/// Nothing that is printed has a secret in it.
fn no_secret_in(text: &str) {
    for secret in [HOOK_SECRET, CLIENT_SECRET, "PRIVATE KEY", "tdp_"] {
        assert!(!text.contains(secret), "{secret} is printed:\n{text}");
    }
}

/// No line is wider than a terminal, unless it is one long word or a command.
fn fits(text: &str) {
    for line in text.lines() {
        let is_command = line.trim_start().starts_with("kubectl")
            || line.trim_start().starts_with("export")
            || line.contains("://")
            || line.contains('/');
        assert!(is_command || line.chars().count() <= 80, "{line:?}");
    }
}

/// A browser that follows nothing by itself.
struct Browser(reqwest::Client);

/// A form as the page has it.
struct Form {
    action: String,
    manifest: String,
}

impl Browser {
    fn new() -> Self {
        let policy = reqwest::redirect::Policy::none();
        Self(reqwest::Client::builder().redirect(policy).user_agent("Mozilla/5.0").build().unwrap())
    }

    /// Opens an address: the status and the page.
    async fn opens(&self, url: &str) -> (u16, String) {
        let answer = self.0.get(url).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Presses the button: the status, where it leads, and the page.
    async fn presses(&self, form: &Form) -> (u16, Option<String>, String) {
        let request = self.0.post(&form.action);
        let body = format!("manifest={}", percent(&form.manifest));
        let request =
            request.header("content-type", "application/x-www-form-urlencoded").body(body);
        let answer = request.send().await.unwrap();
        let location = answer.headers().get("location");
        let location = location.map(|location| location.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location, answer.text().await.unwrap())
    }

    /// Opens the page, presses its button, and confirms at GitHub: where GitHub leads back to.
    async fn confirms(&self, url: &str, github: &str) -> String {
        let (status, page) = self.opens(url).await;
        assert_eq!(status, 200, "{page}");
        let (status, _, page) = self.presses(&form_of(&page)).await;
        assert_eq!(status, 200, "{page}");
        let form = form_of(&page);
        let form = Form { action: format!("{github}{}", form.action), ..form };
        let (status, location, page) = self.presses(&form).await;
        assert_eq!(status, 302, "{page}");
        location.unwrap()
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The only form of a page.
fn form_of(page: &str) -> Form {
    let attribute = |name: &str| {
        let start = page.split(&format!("{name}=\"")).nth(1).unwrap_or_else(|| panic!("{page}"));
        unescape(start.split('"').next().unwrap())
    };
    Form { action: attribute("action"), manifest: attribute("value") }
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&amp;", "&")
}

/// The rights on a file, as `ls` has them: 600.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
