//! An Argo CD on loopback, as far as its webhook goes: it reads an event as Argo CD's own code does
//! (version 3.6, `util/webhook` and `util/app/path`), refreshes the Applications that Argo CD would,
//! and carries over the same renderings to the new commit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::Value as Json;
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::git::Bare;
use crate::harness::receiver;

/// Its `webhook.github.secret`.
pub(crate) const SECRET: &str = "of-argo-cd-0123456789";

/// An Application that it has.
#[derive(Debug, Clone)]
struct Application {
    name: String,
    repo_url: String,
    target_revision: String,
    path: String,
    generate_paths: Option<String>,
    /// The commit that its manifests were rendered at last, or count for.
    rendered: Option<String>,
}

/// An event that it took.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) push: Push,
    /// The Applications that it refreshed.
    pub(crate) refreshed: BTreeSet<String>,
    /// The Applications whose manifests count for the new commit without being rendered.
    pub(crate) carried_over: BTreeSet<String>,
}

/// What it reads of a push. Other fields it leaves alone; these must have their types.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Push {
    pub(crate) r#ref: String,
    pub(crate) before: String,
    pub(crate) after: String,
    created: bool,
    deleted: bool,
    forced: bool,
    commits: Vec<Commit>,
    pub(crate) repository: Repository,
}

#[derive(Debug, Clone, Deserialize)]
struct Commit {
    id: String,
    #[serde(rename = "message")]
    _message: String,
    #[serde(rename = "timestamp")]
    _timestamp: String,
    added: Vec<String>,
    removed: Vec<String>,
    modified: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Repository {
    pub(crate) html_url: String,
    pub(crate) clone_url: String,
    full_name: String,
    default_branch: String,
}

impl Push {
    /// Every path, with `A`, `M` or `D` as git writes it, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut all = Vec::new();
        for commit in &self.commits {
            for (letter, paths) in
                [("A", &commit.added), ("M", &commit.modified), ("D", &commit.removed)]
            {
                all.extend(paths.iter().map(|path| format!("{path} {letter}")));
            }
        }
        all.sort();
        all
    }
}

#[derive(Default)]
struct State {
    applications: Vec<Application>,
    came: Vec<Came>,
    /// Requests of any kind.
    requests: usize,
    plan: VecDeque<u16>,
    down: bool,
    secret: String,
    /// What it answered 400 to.
    refused: Vec<String>,
}

/// One on loopback.
pub(crate) struct ArgoCd {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl ArgoCd {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { secret: SECRET.to_owned(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                if shared.lock().unwrap().down {
                    continue;
                }
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { state, address, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/api/webhook", self.address)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// It has the Applications that lie in the repository, and has rendered each there.
    pub(crate) fn syncs(&self, bare: &Bare) {
        let tip = bare.tip();
        let applications = bare.files().into_iter().filter(|(path, _)| path.starts_with("apps/"));
        let read = applications.filter_map(|(_, text)| application(&text, &tip));
        self.lock().applications = read.collect();
    }

    /// The statuses of its next answers, whatever came; afterwards it is itself.
    pub(crate) fn will(&self, plan: impl IntoIterator<Item = u16>) {
        self.lock().plan.extend(plan);
    }

    /// Connections are closed before a word is read, until it is up again.
    pub(crate) fn down(&self, down: bool) {
        self.lock().down = down;
    }

    /// Its secret is another one from now on.
    pub(crate) fn secret(&self, secret: &str) {
        secret.clone_into(&mut self.lock().secret);
    }

    /// What it took, in order.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.lock().came.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.lock().requests
    }

    /// Every test ends with this: it believed everything that came since it was asked last.
    pub(crate) fn settled(&self) {
        let mut state = self.lock();
        assert_eq!(std::mem::take(&mut state.refused), Vec::<String>::new());
        assert_eq!(state.plan, VecDeque::new(), "no request met these");
    }

    /// What it did not believe.
    pub(crate) fn refused(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().refused)
    }
}

impl Drop for ArgoCd {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some((path, headers, body)) = receiver::read(&mut stream).await else { return };
    let (status, kind) = {
        let mut state = state.lock().unwrap();
        state.requests += 1;
        match state.plan.pop_front() {
            Some(status) => (status, "text/plain"),
            // Its page is for who asks with GET; a POST gets it nowhere but at the root.
            None if path == "/" => (200, "text/html; charset=utf-8"),
            None if path != "/api/webhook" => (404, "text/plain; charset=utf-8"),
            None => (state.take(&headers, &body), "text/plain"),
        }
    };
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

impl State {
    fn take(&mut self, headers: &BTreeMap<String, String>, body: &[u8]) -> u16 {
        match self.parsed(headers, body) {
            Ok(push) => {
                let came = self.handle(push);
                self.came.push(came);
                200
            }
            Err(wrong) => {
                self.refused.push(wrong);
                400
            }
        }
    }

    /// As the library does it that Argo CD reads GitHub's events with.
    fn parsed(&self, headers: &BTreeMap<String, String>, body: &[u8]) -> Result<Push, String> {
        let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        if header("x-github-event") != "push" {
            return Err(format!("unknown webhook event: {headers:?}"));
        }
        let signature = header("x-hub-signature-256");
        let signature = signature.strip_prefix("sha256=").unwrap_or(signature);
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).unwrap();
        mac.update(body);
        if signature != hex::encode(mac.finalize().into_bytes()) {
            return Err("HMAC verification failed".to_owned());
        }
        // GitHub has two content types, and Argo CD reads only this one.
        if header("content-type") != "application/json" {
            return Err("not JSON".to_owned());
        }
        let push: Push = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        push.is_in_itself_right().map(|()| push)
    }

    /// `HandleEvent`
    fn handle(&mut self, push: Push) -> Came {
        let revision = short(&push.r#ref).to_owned();
        let touched_head = push.repository.default_branch == revision;
        let changed: Vec<String> = push
            .commits
            .iter()
            .flat_map(|commit| commit.added.iter().chain(&commit.modified).chain(&commit.removed))
            .cloned()
            .collect();
        let (mut refreshed, mut carried_over) = (BTreeSet::new(), BTreeSet::new());
        for one in &mut self.applications {
            let follows = match one.target_revision.as_str() {
                "" | "HEAD" => touched_head,
                target => short(target) == revision,
            };
            if !follows || !uses(&one.repo_url, &push.repository.html_url) {
                continue;
            }
            if have_changed(&one.refresh_paths(), &changed) {
                refreshed.insert(one.name.clone());
                one.rendered = Some(push.after.clone());
            } else if one.rendered.as_ref() == Some(&push.before) {
                carried_over.insert(one.name.clone());
                one.rendered = Some(push.after.clone());
            }
        }
        Came { push, refreshed, carried_over }
    }
}

impl Push {
    /// What GitHub's pushes always are, but that nothing may be said of the commit before.
    fn is_in_itself_right(&self) -> Result<(), String> {
        let last = self.commits.last().map(|commit| commit.id.as_str());
        let right = !self.deleted
            && !self.forced
            && last == Some(self.after.as_str())
            && self.created == (self.before == "0".repeat(40))
            && self.repository.html_url.ends_with(&self.repository.full_name);
        if right { Ok(()) } else { Err(format!("no push of GitHub's: {self:?}")) }
    }
}

impl Application {
    /// `GetSourceRefreshPaths`
    fn refresh_paths(&self) -> Vec<String> {
        let items = self.generate_paths.as_deref().unwrap_or_default().split(';');
        let items = items.map(str::trim).filter(|item| !item.is_empty());
        let path = |item: &str| match item {
            "." => self.path.clone(),
            item => item
                .strip_prefix('/')
                .map_or_else(|| format!("{}/{item}", self.path), str::to_owned),
        };
        items.map(path).collect()
    }
}

fn application(text: &str, tip: &str) -> Option<Application> {
    let json: Json = serde_yaml::from_str(text).ok()?;
    let source = &json["spec"]["source"];
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let annotations = &json["metadata"]["annotations"];
    (json["kind"] == "Application").then(|| Application {
        name: text(&json["metadata"]["name"]).unwrap(),
        repo_url: text(&source["repoURL"]).unwrap(),
        target_revision: text(&source["targetRevision"]).unwrap_or_default(),
        path: text(&source["path"]).unwrap(),
        generate_paths: text(&annotations["argocd.argoproj.io/manifest-generate-paths"]),
        rendered: Some(tip.to_owned()),
    })
}

/// `ParseRevision`
fn short(reference: &str) -> &str {
    reference.splitn(3, '/').last().unwrap()
}

/// `AppFilesHaveChanged`; nothing is known is everything.
fn have_changed(refresh_paths: &[String], changed: &[String]) -> bool {
    let is_in = |file: &String, path: &String| {
        file == path || file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    };
    changed.is_empty()
        || refresh_paths.is_empty()
        || changed.iter().any(|file| refresh_paths.iter().any(|path| is_in(file, path)))
}

/// `GetWebURLRegex`: the scheme, a user, `ssh.`, a port and `.git` are all as one likes.
fn uses(repo_url: &str, web_url: &str) -> bool {
    let (repo, web) = (repo_url.to_lowercase(), web_url.to_lowercase());
    let web = web.split_once("://").map_or(web.as_str(), |(_, rest)| rest);
    let (authority, path) = web.split_once('/').unwrap_or((web, ""));
    let host = authority.rsplit('@').next().unwrap().split(':').next().unwrap();
    let schemes = ["https://", "http://", "ssh://"];
    let rest = schemes.iter().find_map(|scheme| repo.strip_prefix(scheme)).unwrap_or(&repo);
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    let Some(rest) = rest.strip_prefix(host) else { return false };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let after_port = rest.strip_prefix(':').and_then(|rest| {
        let (port, rest) = rest.split_once('/')?;
        is_port(port).then_some(rest)
    });
    let found = after_port.or_else(|| rest.strip_prefix([':', '/']));
    found.is_some_and(|found| found.strip_suffix(".git").unwrap_or(found) == path)
}

#[test]
fn it_knows_its_repository_by_every_address() {
    for repo_url in [
        "https://github.com/example/manifests.git",
        "https://github.com/Example/manifests",
        "git@github.com:example/manifests.git",
        "ssh://git@github.com:22/example/manifests",
    ] {
        assert!(uses(repo_url, "https://github.com/example/manifests"), "{repo_url}");
    }
    assert!(!uses("https://github.com/example/other", "https://github.com/example/manifests"));
    assert!(!uses("https://gitlab.com/example/manifests", "https://github.com/example/manifests"));
    assert!(uses("/srv/m.git", "/srv/m"));
}
