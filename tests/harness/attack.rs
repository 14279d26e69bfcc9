//! Attacks on a service by a sender without the secret, which go on until they are stopped, against an address of this
//! machine, and signed webhooks beside them. Benchmarks include this file too, so that it uses nothing else of the
//! harness.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Whatever is waited for comes by then, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);
/// Before somebody whose connection was closed comes again.
const AGAIN: Duration = Duration::from_millis(100);

/// One way to attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// 1,024 bodies that do not come, below signatures that look like one.
    SlowBodies,
    /// 1,124 requests of which only the half comes.
    HalfRequests,
    /// 363 bodies of 1 MiB, signed by somebody else.
    UnsignedBodies,
    /// Six connections that speak HTTP/2 without being asked, with many requests each.
    Http2,
    /// 400 clients that ask for much and read nothing of it.
    SlowReaders,
}

impl Attack {
    #[allow(dead_code, reason = "the benchmark runs all of them, tests one each")]
    pub(crate) const ALL: [Self; 5] = [
        Self::SlowBodies,
        Self::HalfRequests,
        Self::UnsignedBodies,
        Self::Http2,
        Self::SlowReaders,
    ];

    fn connections(self) -> usize {
        match self {
            Self::SlowBodies => 1024,
            Self::HalfRequests => 1124,
            Self::UnsignedBodies => 363,
            Self::Http2 => 6,
            Self::SlowReaders => 400,
        }
    }

    /// Begins; it goes on until what is returned is dropped.
    pub(crate) async fn begin(self, address: SocketAddr) -> Running {
        let (established, closed) = (Arc::default(), Arc::default());
        let bytes: Arc<[u8]> = self.bytes().into();
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections() {
            let one = One {
                attack: self,
                bytes: bytes.clone(),
                established: Arc::clone(&established),
                closed: Arc::clone(&closed),
            };
            tasks.spawn(one.attack(address));
        }
        let running = Running { _tasks: tasks, established, closed };
        let all = self.connections();
        running.until("all are there", |running| running.established() >= all).await;
        running
    }

    /// What is sent on a connection at once.
    fn bytes(self) -> Vec<u8> {
        let post = "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: deployment\r\n\
                    X-GitHub-Delivery: d\r\nContent-Type: application/json\r\n";
        let signature = format!("X-Hub-Signature-256: sha256={}\r\n", "0".repeat(64));
        match self {
            Self::SlowBodies => {
                format!("{post}{signature}Content-Length: 5000\r\n\r\n{{\"action\":").into()
            }
            Self::HalfRequests => post.into(),
            Self::UnsignedBodies => {
                let head = format!("{post}{signature}Content-Length: 1048576\r\n\r\n");
                [head.into_bytes(), vec![b' '; 1024 * 1024]].concat()
            }
            Self::Http2 => {
                let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
                // An empty SETTINGS frame, then headers of many streams (RFC 9113, section 4.1).
                bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
                for stream in (1..=400_u16).map(|n| n * 2 - 1) {
                    bytes.extend([0, 0, 3, 1, 4, 0, 0]);
                    bytes.extend(stream.to_be_bytes());
                    bytes.extend([0x83, 0x84, 0x86]);
                }
                bytes
            }
            Self::SlowReaders => {
                "GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20).into()
            }
        }
    }
}

/// An attack that goes on.
pub(crate) struct Running {
    _tasks: JoinSet<()>,
    established: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Running {
    fn established(&self) -> usize {
        self.established.load(Ordering::Relaxed)
    }

    /// How many of its connections the service has closed.
    #[allow(dead_code, reason = "the benchmark does not ask")]
    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }

    /// Until it is so.
    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let looking = async {
            while !is(self) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(PATIENCE, looking).await.is_ok(), "waited in vain: {what}");
    }
}

/// One connection of an attack, made again whenever it is closed.
struct One {
    attack: Attack,
    bytes: Arc<[u8]>,
    established: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl One {
    async fn attack(self, address: SocketAddr) {
        let mut first = true;
        loop {
            if let Ok(mut stream) = TcpStream::connect(address).await {
                if std::mem::take(&mut first) {
                    self.established.fetch_add(1, Ordering::Relaxed);
                }
                let _ = stream.write_all(&self.bytes).await;
                self.until_closed(&mut stream).await;
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
            sleep(AGAIN).await;
        }
    }

    /// One that reads nothing finds out by writing more.
    async fn until_closed(&self, stream: &mut TcpStream) {
        if self.attack == Attack::SlowReaders {
            while stream.write_all(b"G").await.is_ok() {
                sleep(AGAIN).await;
            }
        } else {
            let mut answer = [0; 4096];
            while matches!(stream.read(&mut answer).await, Ok(n) if n > 0) {}
        }
    }
}

/// Sends signed webhooks one after the other, each on a connection of its own, and asks whether the
/// service lives. Returns how long each took until its 202.
pub(crate) async fn signed_webhooks(
    address: SocketAddr,
    secret: &str,
    count: usize,
    first: usize,
) -> Result<Vec<Duration>, String> {
    let mut took = Vec::new();
    for number in first..first + count {
        let begun = Instant::now();
        let answer = exchange(address, &delivery(secret, number)).await;
        took.push(begun.elapsed());
        let answer = answer.map_err(|error| format!("webhook {number}: {error}"))?;
        if !answer.starts_with("HTTP/1.1 202") {
            return Err(format!("webhook {number}: {answer}"));
        }
        if number % 10 == 0 {
            let probe = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            let answer = exchange(address, probe).await;
            let answer = answer.map_err(|error| format!("/healthz: {error}"))?;
            if !answer.starts_with("HTTP/1.1 200") {
                return Err(format!("/healthz: {answer}"));
            }
        }
    }
    Ok(took)
}

/// What is answered, on a connection that is closed afterwards.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> io::Result<String> {
    let exchanging = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        // A connection that is closed over what was not read is reset, after the answer.
        match stream.read_to_end(&mut answer).await {
            Err(error) if answer.is_empty() => Err(error),
            Ok(_) | Err(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    };
    timeout(PATIENCE, exchanging).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A deployment of a service repository that is not there: taken, and soon over.
fn delivery(secret: &str, number: usize) -> Vec<u8> {
    let body = json!({
        "action": "created",
        "deployment": {
            "id": number, "sha": "ab".repeat(20), "ref": "main", "task": "deploy",
            "environment": "prod-cluster-1", "payload": {"tag": format!("v{number}")},
            "description": "x".repeat(8000),
        },
        "repository": {"full_name": "example/nowhere"},
        "sender": {"login": "octocat"},
    });
    let body = body.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(body.as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-GitHub-Event: deployment\r\nX-GitHub-Delivery: 72d3162e-{number}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\
         X-Hub-Signature-256: sha256={signature}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The most memory that the process ever had, in bytes (`proc(5)`).
pub(crate) fn peak_memory(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
