//! The pages: how long the service takes to answer, how large the answers are, what 500 open ones cost at rest, and how long
//! a change takes to them. The open ones are all of the grid, and then each of another app.
//!
//! `cargo bench --profile fast --bench pages`; with `POSTGRES=postgres://…` naming an empty database, on PostgreSQL, too.
//! The grid has 500 apps on three targets, and the database 100,000 deployments of 90 days. The real program answers over
//! HTTP.
//!
//! Each page is `within` its bounds or `over` one. A page that is too large is so on every machine: the benchmark ends
//! with 1. One that is too slow may be so on this machine alone.

#![allow(
    missing_docs,
    dead_code,
    clippy::large_futures,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/service.rs"]
mod service;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::deployments::{Fleet, app_name, fill, newest, on_each_database, repository};
use crate::service::RunningService;

const APPS: i64 = 500;
const TARGETS: i64 = 3;
const RUNS: usize = 11;
/// The number of open pages.
const OPEN: usize = 500;
/// The time for which nothing changes on them.
const REST: Duration = Duration::from_secs(20);
/// The most bytes of a page.
const MOST_BYTES: usize = 300_000;
/// The longest median of a page.
const LONGEST: Duration = Duration::from_millis(50);
/// The longest median of a page that computes over all deployments.
const LONGEST_OF_ALL: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    println!("{:<12} {:<40} {:>10} {:>10} {:>10}", "", "", "median", "longest", "bytes");
    let is_too_large = AtomicBool::new(false);
    on_each_database("pages", &async |name: &str, database: &str, home: &Path| {
        if !measure(name, database, home).await {
            is_too_large.store(true, Ordering::Relaxed);
        }
    });
    if is_too_large.into_inner() {
        println!("a page has more than {MOST_BYTES} bytes");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Measures on a database; returns true if no page is too large.
async fn measure(name: &str, database: &str, home: &Path) -> bool {
    let fleet = Fleet { apps: APPS, targets: TARGETS, now: Timestamp::now() };
    std::fs::create_dir_all(home).expect("a folder");
    write_manifests(&home.join("manifests.git"), fleet);
    let variables = [("THE_DEPLOYER_STORAGE_URL", database)];
    let service = RunningService::start(home, &variables).await;
    let address = service.address;
    fill(database, fleet).await;
    let app = format!("/apps/prod-cluster-1/shop/{}", app_name(1));
    let deployment = format!("/deployments/{}", newest(fleet, 1, 1));
    let mut are_small = true;
    for (what, path, bound) in [
        ("grid of 500 apps on 3 targets", "/", LONGEST),
        ("grid, one that is searched", "/?q=app-499&sort=state", LONGEST),
        ("app", &*app, LONGEST),
        ("deployment", &*deployment, LONGEST),
        ("newest deployments", "/deployments", LONGEST),
        ("insights of 90 days", "/insights?window=90d", LONGEST_OF_ALL),
        ("insights of 6 hours", "/insights?window=6h", LONGEST_OF_ALL),
        ("system", "/system", LONGEST),
    ] {
        let (times, bytes) = load(address, path).await;
        let (median, longest): (Duration, Duration) = (times[RUNS / 2], times[RUNS - 1]);
        let verdict = judge(median, bound, bytes);
        println!("{name:<12} {what:<40} {median:>10.1?} {longest:>10.1?} {bytes:>10} {verdict}");
        are_small &= bytes <= MOST_BYTES;
    }
    let grids = vec!["/".to_owned(); OPEN];
    let lock = format!("{{\"target\": \"prod-cluster-0\", \"app\": \"shop/{}\"}}", app_name(7));
    measure_open_pages(name, address, ("grids", &grids), &lock, "event: patch").await;
    // The grid is read once for all open pages; of these each has a record of its own, which the lock changes.
    let apps = (0..APPS).map(|app| format!("/apps/prod-cluster-0/shop/{}", app_name(app)));
    let apps: Vec<String> = apps.take(OPEN).collect();
    let lock = "{\"target\": \"prod-cluster-0\"}";
    measure_open_pages(name, address, ("different apps", &apps), lock, "event: page").await;
    service.end().await;
    are_small
}

/// Returns `within`, or which bounds a page is over.
fn judge(median: Duration, bound: Duration, bytes: usize) -> String {
    let slow = (median > bound).then(|| format!("{median:.1?} of {bound:.1?}"));
    let large = (bytes > MOST_BYTES).then(|| format!("{bytes} of {MOST_BYTES} bytes"));
    let over: Vec<String> = slow.into_iter().chain(large).collect();
    if over.is_empty() { "within".to_owned() } else { format!("over: {}", over.join(", ")) }
}

/// Opens pages; says what they cost while nothing changes, the time of a second and the memory of all, and how long a lock
/// of that scope takes to them, which comes as that event.
async fn measure_open_pages(
    name: &str,
    address: SocketAddr,
    (what, paths): (&str, &[String]),
    scope: &str,
    event: &'static str,
) {
    let before = resident_bytes();
    let pages = open_pages(address, paths).await;
    let bytes = resident_bytes().saturating_sub(before);
    let before = processor_time();
    tokio::time::sleep(REST).await;
    let busy = processor_time().saturating_sub(before).div_f64(REST.as_secs_f64());
    let title = format!("{OPEN} open {what}, a second of rest");
    println!("{name:<12} {title:<40} {busy:>10.1?} {:>10} {bytes:>10}", "");
    let (first, last) = change_open_pages(address, pages, scope, event).await;
    let title = format!("a lock, on {OPEN} open {what}");
    println!("{name:<12} {title:<40} {first:>10.1?} {last:>10.1?}");
}

/// Loads a page some times; returns the times in order, and its size.
async fn load(address: SocketAddr, path: &str) -> (Vec<Duration>, usize) {
    let url = format!("http://{address}{path}");
    let (mut times, mut bytes) = (Vec::new(), 0);
    for run in 0..=RUNS {
        let begun = Instant::now();
        let answer = reqwest::get(&url).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        bytes = answer.bytes().await.expect("its body").len();
        // The first one builds the index.
        times.extend((run > 0).then(|| begun.elapsed()));
    }
    times.sort();
    (times, bytes)
}

/// Returns the time that processors have spent on this process: on the service, and on the readers of its pages.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the memory of this process that is resident.
fn resident_bytes() -> usize {
    let memory = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize =
        memory.split_whitespace().nth(1).expect("a field").parse().expect("a number");
    pages * 4096
}

/// Opens pages: loads each that differs from the one before, and follows its changes.
async fn open_pages(address: SocketAddr, paths: &[String]) -> Vec<Reader> {
    let mut pages = Vec::new();
    let (mut loaded, mut version) = ("", String::new());
    for path in paths {
        if loaded != path {
            (loaded, version) = (path, read_version(address, path).await);
        }
        let mut page = TcpStream::connect(address).await.expect("a connection");
        let request =
            format!("GET /live{path}?version={version} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        page.write_all(request.as_bytes()).await.expect("it is read");
        let mut page = Reader { stream: page, text: String::new() };
        page.read_until("event: alive").await;
        pages.push(page);
    }
    pages
}

/// Loads a page; returns its version.
async fn read_version(address: SocketAddr, path: &str) -> String {
    let page = reqwest::get(format!("http://{address}{path}")).await.expect("an answer");
    let page = page.text().await.expect("its body");
    let version = page.split_once("data-version=\"").expect("a live page").1;
    version.split_once('"').expect("its end").0.to_owned()
}

/// Places a lock; returns the times after which the first and the last of the open pages have it.
async fn change_open_pages(
    address: SocketAddr,
    pages: Vec<Reader>,
    scope: &str,
    event: &'static str,
) -> (Duration, Duration) {
    let lock = format!("{{\"scope\": {scope}, \"reason\": \"x\"}}");
    let begun = Instant::now();
    let waiting = pages.into_iter().map(|mut page| {
        tokio::spawn(async move {
            page.read_until(event).await;
            begun.elapsed()
        })
    });
    let waiting: Vec<_> = waiting.collect();
    let request = reqwest::Client::new().post(format!("http://{address}/api/v1/locks"));
    let request = request.header("content-type", "application/json").body(lock);
    assert_eq!(request.send().await.expect("an answer").status(), 201);
    let mut times = Vec::new();
    for page in waiting {
        times.push(page.await.expect("no fault"));
    }
    times.sort();
    (times[0], times[OPEN - 1])
}

struct Reader {
    stream: TcpStream,
    text: String,
}

impl Reader {
    async fn read_until(&mut self, words: &str) {
        let mut bytes = [0; 16 * 1024];
        while !self.text.contains(words) {
            let count = self.stream.read(&mut bytes).await.expect("an open stream");
            assert!(count > 0, "the stream ended: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

/// Writes a manifest repository in which the newest deployment of each app is live.
fn write_manifests(path: &Path, fleet: Fleet) {
    git(Path::new("."), &["init", "-q", "--bare", "-b", "main", &path.display().to_string()]);
    let mut stream =
        "commit refs/heads/main\ncommitter b <b@example.com> 1767225600 +0000\ndata 1\nx\n"
            .to_owned();
    for app in 0..fleet.apps {
        for target in 0..fleet.targets {
            let name = app_name(app);
            let id = newest(fleet, app, target);
            let service = format!(
                "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\n"
            );
            let folder = format!("manifests/prod-cluster-{target}/shop/{name}");
            for place in [id.as_str(), "latest"] {
                file(&mut stream, &format!("{folder}/{place}/service.yaml"), &service);
            }
            let application = format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: shop.{name}\nspec:\n  info:\n  \
                 - name: Owner\n    value: squad-{}@example.com\n  - name: Repository\n    value: {}\n",
                app % 20,
                repository(app)
            );
            file(
                &mut stream,
                &format!("apps/prod-cluster-{target}/shop.{name}.yaml"),
                &application,
            );
        }
    }
    stream.push_str("done\n");
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--force"])
        .current_dir(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git fast-import");
    import.stdin.take().expect("its input").write_all(stream.as_bytes()).expect("it is read");
    assert!(import.wait().expect("git fast-import").success());
}

fn file(stream: &mut String, path: &str, text: &str) {
    let _infallible = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .expect("git");
    assert!(status.success(), "git {arguments:?}");
}
