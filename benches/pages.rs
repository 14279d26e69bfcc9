//! The pages: how long the service takes to answer, how large the answers are, what 500 open ones cost at rest, and how long
//! a change takes to them.
//!
//! `cargo bench --profile fast --bench pages`; with `POSTGRES=postgres://…` naming an empty database, on PostgreSQL, too.
//! The grid has 500 apps on three targets, and the database 100,000 deployments of 90 days. The real program answers over
//! HTTP.

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
use std::process::{Command, Stdio};
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

fn main() {
    println!("{:<12} {:<34} {:>10} {:>10} {:>10}", "", "", "median", "longest", "bytes");
    on_each_database("pages", &measure);
}

async fn measure(name: &str, database: &str, home: &Path) {
    let fleet = Fleet { apps: APPS, targets: TARGETS, now: Timestamp::now() };
    std::fs::create_dir_all(home).expect("a folder");
    write_manifests(&home.join("manifests.git"), fleet);
    let variables = [("THE_DEPLOYER_STORAGE_URL", database)];
    let service = RunningService::start(home, &variables).await;
    let address = service.address;
    fill(database, fleet).await;
    let app = format!("/apps/prod-cluster-1/shop/{}", app_name(1));
    for (what, path) in [
        ("grid of 500 apps on 3 targets", "/"),
        ("grid, one that is searched", "/?q=app-499&sort=state"),
        ("app", &*app),
        ("newest deployments", "/deployments"),
        ("insights of 90 days", "/insights?window=90d"),
        ("insights of 6 hours", "/insights?window=6h"),
        ("system", "/system"),
    ] {
        let (times, bytes) = load(address, path).await;
        let (median, longest): (Duration, Duration) = (times[RUNS / 2], times[RUNS - 1]);
        println!("{name:<12} {what:<34} {median:>10.1?} {longest:>10.1?} {bytes:>10}");
    }
    let before = resident_bytes();
    let pages = open_pages(address).await;
    let bytes = resident_bytes().saturating_sub(before);
    let (busy, per_second) = (processor_time(), |busy: Duration| busy.div_f64(REST.as_secs_f64()));
    tokio::time::sleep(REST).await;
    let busy = per_second(processor_time().saturating_sub(busy));
    println!(
        "{name:<12} {:<34} {busy:>10.1?} {:>10} {bytes:>10}",
        "500 open grids, a second of rest", ""
    );
    let (first, last) = change_open_pages(address, pages).await;
    println!("{name:<12} {:<34} {first:>10.1?} {last:>10.1?}", "a lock, on 500 open grids");
    service.end().await;
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

/// Opens many grids.
async fn open_pages(address: SocketAddr) -> Vec<Reader> {
    let page = reqwest::get(format!("http://{address}/")).await.expect("an answer");
    let page = page.text().await.expect("its body");
    let version = page.split_once("data-version=\"").expect("a live page").1;
    let version = version.split_once('"').expect("its end").0.to_owned();
    let mut pages = Vec::new();
    for _ in 0..OPEN {
        let mut page = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET /live/?version={version} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        page.write_all(request.as_bytes()).await.expect("it is read");
        let mut page = Reader { stream: page, text: String::new() };
        page.read_until("event: alive").await;
        pages.push(page);
    }
    pages
}

/// Places a lock; returns the times after which the first and the last of the open grids have it.
async fn change_open_pages(address: SocketAddr, pages: Vec<Reader>) -> (Duration, Duration) {
    let lock = format!(
        "{{\"scope\": {{\"target\": \"prod-cluster-0\", \"app\": \"shop/{}\"}}, \"reason\": \"x\"}}",
        app_name(7)
    );
    let begun = Instant::now();
    let waiting = pages.into_iter().map(|mut page| {
        tokio::spawn(async move {
            page.read_until("event: patch").await;
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
