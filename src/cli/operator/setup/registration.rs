//! The page on this machine from which a person registers the App, and to which GitHub leads the browser back.
//!
//! The page lies behind a random path, and the answer must carry the state that only that page has: neither another
//! page of the browser nor another user of the machine can bring a code of their own. The path is in no argument of a
//! process, which other users see.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::registration_page::{self, FormPage};
use crate::cli::error::CliError;
use crate::cli::loopback::read_head;
use crate::forge::github::app_manifest::is_code;
use crate::support::random::random_bytes;
use crate::support::sync::lock;

/// The path to which GitHub leads the browser back.
const CALLBACK: &str = "/registered";
/// The deadline of one request of a browser, and of the answer to it.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// The longest wait of a browser for the end of the exchange.
const EXCHANGE_DEADLINE: Duration = Duration::from_mins(1);
/// The connections at the same time; a browser opens a few.
const MAX_CONNECTIONS: usize = 32;

/// A listener for one registration.
pub(super) struct RegistrationListener {
    listener: TcpListener,
    address: SocketAddr,
    path: String,
    state: String,
}

/// A code that a browser brought, and its way back.
pub(super) struct BrowserCode {
    pub(super) code: String,
    pub(super) reply: BrowserReply,
}

/// The way back to the browser that brought a code.
pub(super) struct BrowserReply {
    page: oneshot::Sender<String>,
    /// Ends when the page is written.
    written: oneshot::Receiver<()>,
}

impl BrowserReply {
    /// Shows a page in the browser, and waits until it has it.
    pub(super) async fn show(self, page: String) {
        let _is_gone = self.page.send(page);
        let _is_slow = tokio::time::timeout(REQUEST_DEADLINE, self.written).await;
    }
}

/// The one-use state of a registration.
#[derive(Debug)]
struct ExpectedState {
    state: String,
    is_used: bool,
}

/// The verdict about a request that comes back from GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CallbackVerdict {
    /// A code with the state of this registration, for the first time.
    Code(String),
    /// The state was used before.
    Used,
    /// The state is of no registration here, or there is no code.
    Foreign,
}

/// A line that a person pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PastedText {
    /// A code, or the address with the code and the state of this registration.
    Code(String),
    /// An address with another state.
    Foreign,
    /// Something else.
    Nothing,
}

/// A request of a browser.
#[derive(Debug, PartialEq, Eq)]
struct PageRequest {
    /// Path and query.
    target: String,
    /// The only `Host` header.
    host: String,
}

impl RegistrationListener {
    /// Listens at an address; port 0 is any free one.
    pub(super) async fn bind(address: SocketAddr) -> Result<Self, CliError> {
        if address.ip().is_unspecified() {
            let message = format!("--listen {address} names no address of this machine");
            return Err(CliError::usage(message).hint(
                "name one address, such as 127.0.0.1:8484: requests to any other are turned away",
            ));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| {
            CliError::io(format!("cannot listen on {address}: {error}"))
                .hint("name another address with --listen, such as 127.0.0.1:8484")
        })?;
        let address = listener.local_addr().map_err(CliError::failed)?;
        let random = || random_bytes().map(hex::encode).map_err(CliError::failed);
        // Half of the bytes: the address fits into a line of a terminal.
        let path: String = random()?.chars().take(32).collect();
        Ok(Self { listener, address, path: format!("/{path}"), state: random()? })
    }

    /// Returns the address of the page.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address to which GitHub leads the browser back.
    pub(super) fn redirect_url(&self) -> String {
        format!("http://{}{CALLBACK}", self.address)
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }

    /// Answers browsers until the receiver is dropped; at most one code comes.
    pub(super) fn serve(self, form: &FormPage) -> mpsc::Receiver<BrowserCode> {
        let (codes, receiver) = mpsc::channel(1);
        let expected = Mutex::new(ExpectedState { state: self.state, is_used: false });
        let site = Arc::new(RegistrationSite {
            address: self.address,
            path: self.path,
            page: registration_page::form(form),
            expected,
            codes,
        });
        let listener = self.listener;
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = site.codes.closed() => return,
                };
                let Ok((stream, _)) = stream else { continue };
                let site = Arc::clone(&site);
                tokio::spawn(async move {
                    site.answer(stream).await;
                    drop(slot);
                });
            }
        });
        receiver
    }
}

/// What browsers are answered from.
struct RegistrationSite {
    address: SocketAddr,
    path: String,
    page: String,
    expected: Mutex<ExpectedState>,
    codes: mpsc::Sender<BrowserCode>,
}

impl RegistrationSite {
    async fn answer(&self, mut stream: TcpStream) {
        let head = tokio::time::timeout(REQUEST_DEADLINE, read_head(&mut stream)).await;
        let Some(head) = head.ok().flatten() else { return };
        // Held until the page is written.
        let (written, is_written) = oneshot::channel();
        let (status, page) = self.page_for(&head, is_written).await;
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: strict-origin\r\nx-content-type-options: nosniff\r\n\
             content-security-policy: default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'\r\n\
             connection: close\r\n\r\n{page}",
            page.len()
        );
        // A browser that is gone needs no answer.
        let write = async {
            let _is_gone = stream.write_all(answer.as_bytes()).await;
            let _is_gone = stream.shutdown().await;
        };
        let _is_slow = tokio::time::timeout(REQUEST_DEADLINE, write).await;
        let _is_gone = written.send(());
    }

    async fn page_for(&self, head: &str, written: oneshot::Receiver<()>) -> (&'static str, String) {
        let plain = |title: &str, text: &str| registration_page::message(title, text, None);
        let Some(PageRequest { target, host }) = parse_request(head) else {
            return (
                "400 Bad Request",
                plain("Not understood", "This page only answers browsers."),
            );
        };
        if !is_own_host(&host, self.address) {
            let text = "The setup does not answer under that name.";
            return ("421 Misdirected Request", plain("Another host", text));
        }
        if target == self.path {
            return ("200 OK", self.page.clone());
        }
        let verdict = lock(&self.expected).judge(&target);
        match verdict {
            CallbackVerdict::Code(code) => self.exchange(code, written).await,
            CallbackVerdict::Used => {
                let text = "This answer of GitHub's has arrived before. Look at the terminal.";
                ("410 Gone", plain("Already used", text))
            }
            CallbackVerdict::Foreign => {
                let text = "This is not the registration that the setup waits for. Open the address that the terminal shows.";
                ("404 Not Found", plain("Not this registration", text))
            }
        }
    }

    /// Hands the code to the setup, and waits for the page with the result.
    async fn exchange(
        &self,
        code: String,
        written: oneshot::Receiver<()>,
    ) -> (&'static str, String) {
        let (page, result) = oneshot::channel();
        let ended = || {
            let text = "The setup has ended. Look at the terminal.";
            ("410 Gone", registration_page::message("Too late", text, None))
        };
        let reply = BrowserReply { page, written };
        if self.codes.send(BrowserCode { code, reply }).await.is_err() {
            return ended();
        }
        match tokio::time::timeout(EXCHANGE_DEADLINE, result).await {
            Ok(Ok(page)) => ("200 OK", page),
            _ => ended(),
        }
    }
}

impl ExpectedState {
    /// Judges a request that may come from GitHub, and uses the state up.
    fn judge(&mut self, target: &str) -> CallbackVerdict {
        let Some((state, code)) = read_callback(target) else { return CallbackVerdict::Foreign };
        if !is_same(&state, &self.state) {
            return CallbackVerdict::Foreign;
        }
        if std::mem::replace(&mut self.is_used, true) {
            return CallbackVerdict::Used;
        }
        CallbackVerdict::Code(code)
    }
}

/// Reads a pasted line: a code, or the address to which GitHub led the browser.
pub(super) fn read_pasted(line: &str, state: &str) -> PastedText {
    let line = line.trim();
    let Ok(url) = Url::parse(line) else {
        return if is_code(line) { PastedText::Code(line.to_owned()) } else { PastedText::Nothing };
    };
    let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    match read_callback(&target) {
        Some((given, code)) if is_same(&given, state) => PastedText::Code(code),
        Some(_) => PastedText::Foreign,
        None => PastedText::Nothing,
    }
}

/// Reads state and code of a request's target; `None` if one is missing or no code can look so.
fn read_callback(target: &str) -> Option<(String, String)> {
    let url = Url::parse(&format!("http://localhost{target}")).ok()?;
    if url.path() != CALLBACK {
        return None;
    }
    let part = |name: &str| {
        let mut values = url.query_pairs().filter(|(key, _)| key == name);
        let value = values.next()?.1.into_owned();
        values.next().is_none().then_some(value)
    };
    let (state, code) = (part("state")?, part("code")?);
    is_code(&code).then_some((state, code))
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_same(first: &str, second: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(first.as_bytes(), second.as_bytes()).is_ok()
}

/// Reads a GET request with exactly one `Host`.
fn parse_request(head: &str) -> Option<PageRequest> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    if words.next() != Some("GET") {
        return None;
    }
    let target = words.next().filter(|target| target.starts_with('/'))?.to_owned();
    let hosts = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    let hosts: Vec<String> = hosts.collect();
    match <[String; 1]>::try_from(hosts) {
        Ok([host]) => Some(PageRequest { target, host }),
        Err(_) => None,
    }
}

/// Returns whether a `Host` is this listener: a name of another site that leads here is not.
fn is_own_host(host: &str, address: SocketAddr) -> bool {
    let is_loopback = address.ip().to_canonical().is_loopback();
    let is_named =
        is_loopback && host.eq_ignore_ascii_case(&format!("localhost:{}", address.port()));
    is_named || host.parse::<SocketAddr>() == Ok(address)
}

/// Returns whether browsers on other machines could open the page; what they send would not be encrypted.
pub(super) fn is_open(address: IpAddr) -> bool {
    !address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_counts_once_and_with_the_state_of_the_page_only() {
        let mut expected = ExpectedState { state: "s3cret".to_owned(), is_used: false };
        for target in [
            "/registered?code=c0dec0dec0dec0dec0de&state=other",
            "/registered?code=c0dec0dec0dec0dec0de&state=",
            "/registered?code=c0dec0dec0dec0dec0de",
            "/registered?state=s3cret",
            "/registered?code=&state=s3cret",
            "/registered?code=c0dec0dec0dec0de%2Fc0de&state=s3cret",
            "/registered?code=c0dec0dec0dec0dec0de&code=d&state=s3cret",
            "/registered?code=c0dec0dec0dec0dec0de&state=s3cret&state=x",
            "/other?code=c0dec0dec0dec0dec0de&state=s3cret",
            "/",
        ] {
            assert_eq!(expected.judge(target), CallbackVerdict::Foreign, "{target}");
        }
        let target = "/registered?code=c0dec0dec0dec0dec0de&state=s3cret";
        assert_eq!(
            expected.judge(target),
            CallbackVerdict::Code("c0dec0dec0dec0dec0de".to_owned())
        );
        assert_eq!(expected.judge(target), CallbackVerdict::Used);
    }

    #[test]
    fn a_person_pastes_a_code_or_the_whole_address() {
        let code = PastedText::Code("c0dec0dec0dec0dec0de".to_owned());
        for (line, expected) in [
            ("c0dec0dec0dec0dec0de", code.clone()),
            (" http://127.0.0.1:1/registered?code=c0dec0dec0dec0dec0de&state=s ", code.clone()),
            (
                "http://127.0.0.1:1/registered?code=c0dec0dec0dec0dec0de&state=t",
                PastedText::Foreign,
            ),
            ("http://127.0.0.1:1/registered?code=c0dec0dec0dec0dec0de", PastedText::Nothing),
            ("http://127.0.0.1:1/", PastedText::Nothing),
            ("", PastedText::Nothing),
            ("two words", PastedText::Nothing),
            ("-", PastedText::Nothing),
        ] {
            assert_eq!(read_pasted(line, "s"), expected, "{line}");
        }
    }

    #[test]
    fn only_a_get_under_the_own_name_is_answered() {
        let request = parse_request("GET /x HTTP/1.1\r\nHost: 127.0.0.1:5\r\n\r\n").unwrap();
        assert_eq!((&*request.target, &*request.host), ("/x", "127.0.0.1:5"));
        for head in [
            "POST /x HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET http://a/x HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
            "",
        ] {
            assert_eq!(parse_request(head), None, "{head}");
        }
        let address = "127.0.0.1:5".parse().unwrap();
        for (host, is_own) in [
            ("127.0.0.1:5", true),
            ("localhost:5", true),
            ("LOCALHOST:5", true),
            ("localhost:6", false),
            ("evil.example:5", false),
            ("127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host, address), is_own, "{host}");
        }
        assert!(!is_own_host("localhost:5", "10.0.0.1:5".parse().unwrap()));
    }
}
