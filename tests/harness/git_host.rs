//! A git server on the loopback address: the real `git http-backend` behind real HTTP.
//!
//! Asks for a token, counts requests, and can misbehave the ways servers do.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::harness::folder;
use crate::harness::git::{Bare, hermetic};

/// The token that this host accepts at first.
pub(crate) const TOKEN: &str = "t0ken-of-the-deployer";

/// How the host treats requests.
#[derive(Debug, Clone, Default)]
pub(crate) enum Behaviour {
    #[default]
    Good,
    /// Answers everything with this status, and `Retry-After` if one is given.
    Status(u16, Option<u64>),
    /// Takes a push, then cuts the connection before it answers.
    CutAfterPush,
    /// Cuts the connection in the middle of a push: git gets nothing of it.
    CutDuringPush,
    /// Cuts the connection in the middle of a pack that it sends.
    CutDuringFetch,
    /// Sends everybody to another path on this host, where a program of git's is nothing to read.
    Moved,
    /// Answers like a login page.
    Html,
    /// Takes no request that is larger than so many bytes.
    LargestBody(usize),
    /// Says that it is closed, in place of the report of a push.
    Complains,
    /// Cannot read a pack that builds on objects it has: git's own word for that.
    NoThinPacks,
}

pub(crate) struct GitHost {
    root: TempDir,
    world: Arc<World>,
    address: String,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct World {
    root: PathBuf,
    door: Mutex<Door>,
    behaviour: Mutex<Behaviour>,
    requests: Mutex<Vec<String>>,
    at_work: AtomicUsize,
}

/// Who says whether a token may do something to a repository: the HTTP status, 200 for yes.
type Guard = Box<dyn Fn(&str, &str, Access) -> u16 + Send>;

/// What somebody wants of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Fetch,
    Push,
}

/// Whom the host lets in.
struct Door {
    token: String,
    /// After how many requests more another token is the one.
    then: Option<(usize, String)>,
    /// In place of the one token.
    guard: Option<Guard>,
}

impl Default for Door {
    fn default() -> Self {
        Self { token: TOKEN.to_owned(), then: None, guard: None }
    }
}

impl Door {
    /// The status of a refusal, if there is one.
    fn refuses(&mut self, request: &Request) -> Option<u16> {
        let status = match &self.guard {
            Some(guard) => guarded(guard, request),
            None => return (!self.lets_in(request)).then_some(401),
        };
        (status != 200).then_some(status)
    }

    fn lets_in(&mut self, request: &Request) -> bool {
        match &mut self.then {
            Some((0, next)) => {
                self.token = std::mem::take(next);
                self.then = None;
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        request.headers().get(header::AUTHORIZATION) == Some(&basic(&self.token))
    }
}

fn guarded(guard: &Guard, request: &Request) -> u16 {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let Some(encoded) = header.and_then(|header| header.strip_prefix("Basic ")) else { return 401 };
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
    let Some(token) = text.strip_prefix("x-access-token:") else { return 401 };
    let repository = request.uri().path().trim_start_matches('/').split(".git/").next().unwrap();
    let pushes = request.uri().to_string().contains("git-receive-pack");
    guard(token, repository, if pushes { Access::Push } else { Access::Fetch })
}

/// Basic auth, as git hosts take tokens.
fn basic(token: &str) -> header::HeaderValue {
    let request = crate::harness::process::client().get("http://localhost");
    let request = request.basic_auth("x-access-token", Some(token)).build().unwrap();
    request.headers()[header::AUTHORIZATION].clone()
}

impl GitHost {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    /// On an address that somebody looks for it at.
    pub(crate) async fn start_at(listen: &str) -> Self {
        let root = folder::temporary();
        let world = Arc::new(World { root: root.path().to_owned(), ..World::default() });
        let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        // Else head and body of an answer wait for each other for 40 ms.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        let router = Router::new().fallback(serve).with_state(Arc::clone(&world));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { root, world, address, server }
    }

    /// Makes an empty repository on the host.
    pub(crate) fn create(&self, name: &str) -> Bare {
        Bare::create(&self.root.path().join(name))
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.world.behaviour.lock().unwrap() = behaviour;
    }

    /// From now on that token is the one that is accepted.
    pub(crate) fn accept(&self, token: &str) {
        self.accept_after(0, token);
    }

    /// The same, after so many requests more: the one before has expired in the middle.
    pub(crate) fn accept_after(&self, requests: usize, token: &str) {
        self.world.door.lock().unwrap().then = Some((requests, token.to_owned()));
    }

    /// From now on somebody else says who is let in, by token, `owner/name` and what is wanted.
    pub(crate) fn guarded_by(&self, guard: impl Fn(&str, &str, Access) -> u16 + Send + 'static) {
        self.world.door.lock().unwrap().guard = Some(Box::new(guard));
    }

    /// The requests since the last call: `GET info/refs git-receive-pack`.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.world.requests.lock().unwrap())
    }

    /// Whether git works on no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.world.at_work.load(Ordering::SeqCst) == 0
    }

    /// Until git works on no request any more.
    pub(crate) async fn idle(&self) {
        let looking = async {
            while !self.is_idle() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), looking).await.expect("git is still at work");
    }
}

impl Drop for GitHost {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(State(world): State<Arc<World>>, request: Request) -> Response {
    let behaviour = world.behaviour.lock().unwrap().clone();
    let line = format!("{} {}", request.method(), request.uri());
    world.requests.lock().unwrap().push(line.clone());
    if let Some(status) = world.door.lock().unwrap().refuses(&request) {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, [(header::WWW_AUTHENTICATE, "Basic")]).into_response();
    }
    match behaviour {
        Behaviour::Status(status, wait) => refuse(status, wait),
        Behaviour::Html => {
            ([(header::CONTENT_TYPE, "text/html")], "<h1>Log in</h1>").into_response()
        }
        Behaviour::LargestBody(most) => {
            let (parts, body) = request.into_parts();
            // As real servers linger: who closes with something unread cuts off its own answer.
            match to_bytes(body, 64 * 1024 * 1024).await {
                Ok(body) if body.len() <= most => {
                    undisturbed(&world, Request::from_parts(parts, Body::from(body))).await
                }
                Ok(_) | Err(_) => refuse(413, None),
            }
        }
        Behaviour::NoThinPacks if line.contains("POST") && line.contains("receive-pack") => {
            without_thin_packs(&world, request).await
        }
        Behaviour::Complains if line.contains("POST") && line.contains("receive-pack") => {
            let kind = [(header::CONTENT_TYPE, "application/x-git-receive-pack-result")];
            (kind, "0019ERR closed for today\n").into_response()
        }
        Behaviour::Moved if !line.contains("/moved/") => {
            let to = format!("/moved{}", request.uri());
            (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, to)]).into_response()
        }
        Behaviour::Moved if line.starts_with("GET") && !line.contains("/info/refs") => {
            refuse(404, None)
        }
        Behaviour::CutAfterPush if line.contains("POST") && line.contains("receive-pack") => {
            cut(backend(&world, request).await, 0).await
        }
        Behaviour::CutDuringPush if line.contains("POST") && line.contains("receive-pack") => {
            cut(StatusCode::OK.into_response(), 0).await
        }
        Behaviour::CutDuringFetch if line.contains("POST") && line.contains("upload-pack") => {
            cut(backend(&world, request).await, 50).await
        }
        _ => undisturbed(&world, request).await,
    }
}

/// Indexes the pack by itself: one that is not whole is not unpacked.
async fn without_thin_packs(world: &Arc<World>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let pack = body.windows(4).position(|four| four == b"PACK").unwrap();
    let file = world.root.join(format!("{}.pack", uuid::Uuid::now_v7()));
    std::fs::write(&file, &body[pack..]).unwrap();
    let indexed = crate::harness::git::git(&world.root).arg("index-pack").arg(&file).output();
    if indexed.unwrap().status.success() {
        return undisturbed(world, Request::from_parts(parts, Body::from(body))).await;
    }
    let status = "0024unpack index-pack abnormal exit\n0026ng refs/heads/main unpacker error\n0000";
    let kind = [(header::CONTENT_TYPE, "application/x-git-receive-pack-result")];
    (kind, status).into_response()
}

/// As servers do: what has been received is worked on although the client has gone.
async fn undisturbed(world: &Arc<World>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let world = Arc::clone(world);
    let working = tokio::spawn(async move {
        world.at_work.fetch_add(1, Ordering::SeqCst);
        let response = backend(&world, Request::from_parts(parts, Body::from(body))).await;
        world.at_work.fetch_sub(1, Ordering::SeqCst);
        response
    });
    working.await.unwrap()
}

fn refuse(status: u16, wait: Option<u64>) -> Response {
    let mut response = StatusCode::from_u16(status).unwrap().into_response();
    if let Some(seconds) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The first `keep` bytes of an answer, then the end of the connection.
async fn cut(response: Response, keep: usize) -> Response {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let first: Result<_, std::io::Error> = Ok(bytes.slice(..keep.min(bytes.len())));
    let broken = Err(std::io::Error::other("cut"));
    let body = Body::from_stream(futures::stream::iter([first, broken]));
    Response::from_parts(parts, body)
}

/// The program behind `git http-backend`: started by itself, a request costs one process less.
static HTTP_BACKEND: LazyLock<PathBuf> = LazyLock::new(|| {
    let output = std::process::Command::new("git").arg("--exec-path").output().unwrap();
    let folder = String::from_utf8(output.stdout).unwrap();
    Path::new(folder.trim_end()).join("git-http-backend")
});

/// One run of `git http-backend`, as a CGI program.
async fn backend(world: &World, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut command = tokio::process::Command::new(&*HTTP_BACKEND);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(hermetic())
        .env("GIT_PROJECT_ROOT", &world.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "x-access-token")
        .env("PATH_INFO", parts.uri.path().trim_start_matches("/moved"))
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header(header::CONTENT_TYPE))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let input = to_bytes(body, usize::MAX).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program may answer without reading all of it.
    let feeder = tokio::spawn(async move {
        let _ = stdin.write_all(&input).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    feeder.await.unwrap();
    parse_cgi(&output)
}

fn parse_cgi(output: &[u8]) -> Response {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).unwrap()
}
