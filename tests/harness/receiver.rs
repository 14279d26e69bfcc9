//! A receiver of events, as somebody may write one: over real HTTP, it checks every signature by
//! its own arithmetic, knows an event that comes again, and does as the test says.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use the_deployer::support::clock::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Does {
    /// Takes the event.
    Takes,
    /// Answers with that status and these header lines, and takes nothing.
    Answers(u16, &'static str),
    /// Takes the event and closes the connection without an answer.
    TakesAndDies,
    /// Takes the event and never answers.
    TakesAndHangs,
}

/// What came, taken or not.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    /// Seconds since the test began.
    pub(crate) at: i64,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) taken: bool,
}

impl Came {
    pub(crate) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// What it is, and how a run ended.
    pub(crate) fn kind(&self) -> String {
        let json = self.json();
        let kind = json["type"].as_str().unwrap().trim_start_matches("dev.cdevents.");
        let kind = kind.trim_end_matches(".0.3.0").to_owned();
        match json["data"]["subject"]["content"]["outcome"].as_str() {
            Some(outcome) => format!("{kind} {outcome}"),
            None => kind,
        }
    }
}

struct State {
    came: Vec<Came>,
    plan: VecDeque<Does>,
    down: bool,
    wrong: Vec<String>,
}

/// A receiver on loopback.
pub(crate) struct Receiver {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// The key that it shares with who sends.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

impl Receiver {
    pub(crate) async fn start(clock: &Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { came: vec![], plan: VecDeque::new(), down: false, wrong: vec![] };
        let state = Arc::new(Mutex::new(state));
        let (shared, clock, begin) = (Arc::clone(&state), clock.clone(), clock.now());
        let serving = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                if shared.lock().unwrap().down {
                    continue;
                }
                let (shared, now) = (Arc::clone(&shared), clock.now());
                let at = now.duration_since(begin).as_secs();
                tokio::spawn(async move { serve(stream, &shared, at, now.as_second()).await });
            }
        });
        Self { state, address, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What it does next, request by request; afterwards it takes what comes.
    pub(crate) fn will(&self, plan: impl IntoIterator<Item = Does>) {
        self.lock().plan.extend(plan);
    }

    /// Connections are closed before a word is read, until it is up again.
    pub(crate) fn down(&self, down: bool) {
        self.lock().down = down;
    }

    /// Everything that came, in order.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.lock().came.clone()
    }

    /// What it knows: each event once, in the order in which it was first taken.
    pub(crate) fn knows(&self) -> Vec<Came> {
        let mut known: Vec<Came> = Vec::new();
        for came in self.came().into_iter().filter(|came| came.taken) {
            match known.iter().find(|one| one.id() == came.id()) {
                Some(first) => assert_eq!(first.body, came.body, "the same id says the same"),
                None => known.push(came),
            }
        }
        known
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.knows().iter().map(Came::kind).collect()
    }

    /// Every test ends with this: nothing was wrong with what came, and all that it was told to do
    /// was done.
    pub(crate) fn settled(&self) {
        let state = self.lock();
        assert_eq!(state.wrong, Vec::<String>::new());
        assert_eq!(state.plan, VecDeque::new(), "no request met these");
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>, at: i64, now: i64) {
    let Some((path, headers, body)) = read(&mut stream).await else { return };
    let does = {
        let mut state = state.lock().unwrap();
        if let Err(wrong) = verify(&headers, &body, now) {
            state.wrong.push(wrong);
        }
        let does = state.plan.pop_front();
        let taken = !matches!(does, Some(Does::Answers(..)));
        state.came.push(Came { at, path, headers, body, taken });
        does
    };
    let (status, lines) = match does {
        None | Some(Does::Takes) => (204, ""),
        Some(Does::Answers(status, lines)) => (status, lines),
        Some(Does::TakesAndDies) => return,
        Some(Does::TakesAndHangs) => return std::future::pending().await,
    };
    let answer =
        format!("HTTP/1.1 {status} X\r\n{lines}content-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

pub(crate) type Request = (String, BTreeMap<String, String>, Vec<u8>);

pub(crate) async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
            let mut lines = head.lines();
            let path = lines.next()?.split(' ').nth(1)?.to_owned();
            let pair = |line: &str| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_ascii_lowercase(), value.trim().to_owned()))
            };
            let headers: BTreeMap<_, _> = lines.filter_map(pair).collect();
            let length: usize = headers.get("content-length")?.parse().ok()?;
            let mut body = bytes.split_off(end + 4);
            while body.len() < length {
                stream.read_buf(&mut body).await.ok().filter(|n| *n > 0)?;
            }
            return Some((path, headers, body));
        }
        stream.read_buf(&mut bytes).await.ok().filter(|n| *n > 0)?;
    }
}

/// As `docs/cloudevents.md` tells receivers to do it.
fn verify(headers: &BTreeMap<String, String>, body: &[u8], now: i64) -> Result<(), String> {
    let header = |name: &str| headers.get(name).ok_or(format!("{name} is missing"));
    if header("content-type")? != "application/cloudevents+json" {
        return Err(format!("another type: {headers:?}"));
    }
    let (id, timestamp) = (header("webhook-id")?, header("webhook-timestamp")?);
    if timestamp.parse() != Ok(now) {
        return Err(format!("{timestamp} is not now, {now}"));
    }
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).unwrap();
    let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    let wanted = format!("v1,{}", STANDARD.encode(hmac(&key, &signed)));
    let event: Json = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if event["id"] != id.as_str() {
        return Err(format!("{id} is not the event's id"));
    }
    let found = header("webhook-signature")?;
    (*found == wanted).then_some(()).ok_or(format!("{found} is not {wanted}"))
}

/// RFC 2104, by hand.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|n| key.get(n).copied().unwrap_or_default() ^ with).collect()
    };
    let inner = Sha256::digest([&pad(0x36), text].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}
