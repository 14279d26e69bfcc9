//! The git host of `deploy/load/git-host`, for as long as the value lives.

use std::path::PathBuf;
use std::process::Command;

use crate::Place;

/// The password of every user.
pub const TOKEN: &str = "load-token";

/// A running host.
pub struct Host {
    folder: PathBuf,
    address: String,
}

/// One request that the host has answered.
#[derive(serde::Deserialize)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub status: u16,
    pub received: u64,
    pub seconds: f64,
}

impl Host {
    pub fn start(place: &Place) -> Self {
        let folder = place.folder.join(format!("host-{}", place.port));
        let address = script(&["start", &folder.display().to_string(), &place.port.to_string()]);
        Self { folder, address }
    }

    /// Where a repository must lie to be served.
    pub fn repository(&self, name: &str) -> PathBuf {
        self.folder.join("repos").join(format!("{name}.git"))
    }

    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}.git", self.address)
    }

    /// The address with user and token, for programs that take it only so.
    pub fn url_with_token(&self, name: &str) -> String {
        let place = self.address.trim_start_matches("http://");
        format!("http://x-access-token:{TOKEN}@{place}/{name}.git")
    }

    /// Every request since the start of the host that `filter` wants.
    pub fn requests(&self, filter: impl Fn(&Request) -> bool) -> Vec<Request> {
        let log = std::fs::read_to_string(self.folder.join("log/requests.jsonl"));
        let log = log.unwrap_or_default();
        let requests = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        requests.filter(|request| filter(request)).collect()
    }

    /// Forgets all requests.
    pub fn forget(&self) {
        std::fs::write(self.folder.join("log/requests.jsonl"), "").expect("the log is ours");
    }
}

impl Request {
    /// Whether it moved a branch, or tried to.
    pub fn is_push(&self) -> bool {
        self.method == "POST" && self.path.ends_with("/git-receive-pack")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        script(&["stop", &self.folder.display().to_string()]);
    }
}

fn script(arguments: &[&str]) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/load/git-host");
    let output = Command::new(path)
        .args(arguments)
        .env("TOKEN", TOKEN)
        .output()
        .expect("deploy/load/git-host");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "deploy/load/git-host {arguments:?}: {words}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
