//! Logs of containers: the end of one, and lines as they come.

use std::time::Duration;

use the_deployer::cluster::connection::client::{ClientLimits, ClusterConnection};
use the_deployer::cluster::connection::settings::ClusterAccess;
use the_deployer::cluster::logs::{LogLines, LogRange, PodLogError, open, tail};
use the_deployer::support::clock::Clock;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;

use crate::harness::api_server::{ApiServer, Fault, FaultRule, TOKEN, Verb};

const IDLE: Duration = Duration::from_secs(20);

fn connect(server: &ApiServer) -> ClusterConnection {
    connect_within(server, ClientLimits::default())
}

fn connect_within(server: &ApiServer, limits: ClientLimits) -> ClusterConnection {
    the_deployer::support::http::install_tls_provider();
    let token = Credential { secret: TOKEN.into(), file: None };
    let access = ClusterAccess::Server { server: server.url(), token, ca: None };
    ClusterConnection::within(access, OutboundHttp::default(), Clock::system(), limits)
}

fn key(container: &str) -> (String, String, String) {
    ("devx".to_owned(), "web-1".to_owned(), container.to_owned())
}

fn log(server: &ApiServer, text: &str) {
    server.edit(|world| world.logs.entry(key("web")).or_default().push_str(text));
}

/// Follows the log of the pod `devx/web-1`.
async fn follow(
    connection: &ClusterConnection,
    container: Option<&str>,
    lines: usize,
    idle: Duration,
) -> Result<LogLines, PodLogError> {
    let range = LogRange { lines, previous: false, follow: true };
    open(connection, "devx", "web-1", container, range, idle).await
}

async fn server_with(text: &str) -> ApiServer {
    let server = ApiServer::start().await;
    log(&server, text);
    server
}

async fn lines(server: &ApiServer, most: usize) -> Vec<String> {
    let connection = connect(server);
    let tail = tail(&connection, "devx", "web-1", Some("web"), false, most).await;
    tail.unwrap().lines().to_vec()
}

async fn line(lines: &mut LogLines) -> String {
    let line = tokio::time::timeout(IDLE, lines.next()).await;
    line.expect("a line comes").expect("the log goes on").unwrap()
}

#[tokio::test]
async fn the_last_lines_of_a_container_are_read_without_secrets() {
    let server = server_with(&(0..500).map(|n| format!("line {n}\n")).collect::<String>()).await;
    log(&server, "\x1b[31mpassword=hunter2hunter2\x1b[0m\n");
    let expected = ["line 498", "line 499", "password=**************"];
    assert_eq!(lines(&server, 3).await, expected);
    let requests = server.requests();
    let query = &requests[0].query;
    assert!(query.contains("container=web") && query.contains("tailLines=103"), "{query}");
    assert!(query.contains("limitBytes=65536") && !query.contains("previous"), "{query}");
}

#[tokio::test]
async fn the_container_before_is_read_and_the_only_container_needs_no_name() {
    let server = server_with("now\n").await;
    let connection = connect(&server);
    let read = async |container, previous| {
        let tail = tail(&connection, "devx", "web-1", container, previous, 5).await;
        tail.map(|tail| tail.lines().join("|"))
    };
    let error = read(Some("web"), true).await.unwrap_err();
    let PodLogError::NoLog(reason) = &error else { panic!("{error}") };
    assert!(reason.contains("previous terminated container"), "{reason}");
    server.edit(|world| world.previous_logs.insert(key("web"), "before\n".to_owned()));
    assert_eq!(read(Some("web"), true).await.unwrap(), "before");
    assert_eq!(read(None, false).await.unwrap(), "now");
}

#[tokio::test]
async fn of_long_lines_the_last_ones_are_read_in_a_bounded_answer() {
    let long = |n: usize| format!("{n} {}\n", "x".repeat(5000));
    let server = server_with(&(0..200).map(long).collect::<String>()).await;
    let read = lines(&server, 5).await;
    let numbers: Vec<&str> = read.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["195", "196", "197", "198", "199"]);
    assert!(server.requests().len() <= 6);

    let server = server_with(&format!("{}\n", "y".repeat(1_000_000))).await;
    let read = lines(&server, 5).await;
    assert_eq!((read.len(), read[0].chars().count()), (1, 400));
}

#[tokio::test]
async fn a_private_key_above_the_lines_that_are_asked_for_is_masked() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}", format!("{body}\n").repeat(40));
    let server = server_with(&format!("{key}-----END PRIVATE KEY-----\npanicked\n")).await;
    let read = lines(&server, 10).await.join("\n");
    assert!(!read.contains("MII") && read.ends_with("panicked"), "{read}");
}

#[tokio::test]
async fn a_log_that_cannot_be_read_has_a_reason_without_secrets() {
    let server = server_with("hello\n").await;
    let connection = connect(&server);
    let read =
        async |pod: &str| tail(&connection, "devx", pod, Some("web"), false, 5).await.unwrap_err();
    assert_eq!(read("none").await, PodLogError::NotFound("devx/none".to_owned()));
    assert!(matches!(read("../../secrets").await, PodLogError::NotFound(_)));
    assert_eq!(server.requests().len(), 1);
    let rule = |fault| server.fail(FaultRule::always(fault).of(Verb::Log, "pods").times(1));
    rule(Fault::Status(403));
    let reason = read("web-1").await.to_string();
    assert!(reason.contains("403") && reason.ends_with("grant `get` on pods/log"), "{reason}");
    rule(Fault::Text(502, "Bearer cluster-t0ken"));
    let reason = read("web-1").await.to_string();
    assert!(reason.contains("502") && !reason.contains(TOKEN), "{reason}");
    rule(Fault::Status(401));
    let reason = read("web-1").await.to_string();
    assert!(reason.contains("does not know our credentials"), "{reason}");
}

#[tokio::test]
async fn a_log_that_does_not_come_is_given_up_after_five_seconds() {
    for fault in [Fault::HeadOnly, Fault::Silent] {
        let server = server_with("hello\n").await;
        server.fail(FaultRule::always(fault).of(Verb::Log, "pods"));
        let connection = connect(&server);
        let read = tail(&connection, "devx", "web-1", None, false, 5);
        let read = tokio::time::timeout(Duration::from_secs(15), read).await.unwrap();
        let reason = read.unwrap_err().to_string();
        assert!(reason.contains("within 5 seconds"), "{reason}");
    }
}

#[tokio::test]
async fn a_log_is_followed_line_by_line_to_its_end() {
    let server = server_with("zero\none\ntwo\n").await;
    let connection = connect(&server);
    let followed = follow(&connection, Some("web"), 2, IDLE).await;
    let mut lines = followed.unwrap();
    assert_eq!((line(&mut lines).await, line(&mut lines).await), ("one".into(), "two".into()));
    log(&server, "thr");
    let early = tokio::time::timeout(Duration::from_millis(100), lines.next()).await;
    assert!(early.is_err(), "it is no line yet");
    log(&server, "ee\ntoken ghp_0123456789abcdefghijklmnopqrstuvwxyz\nlast");
    assert_eq!(line(&mut lines).await, "three");
    assert!(!line(&mut lines).await.contains("0123"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.edit(|world| world.logs.clear());
    assert_eq!(line(&mut lines).await, "last");
    assert!(lines.next().await.is_none() && lines.next().await.is_none());
}

#[tokio::test]
async fn following_ends_with_its_reader() {
    let server = server_with("one\n").await;
    let connection = connect(&server);
    let mut lines = follow(&connection, Some("web"), 5, IDLE).await.unwrap();
    assert_eq!(lines.next().await.unwrap().unwrap(), "one");
    assert_eq!(server.world().log_readers, 1);
    drop(lines);
    for _ in 0..600 {
        log(&server, "more\n");
        if server.world().log_readers == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the connection is still open");
}

#[tokio::test]
async fn following_ends_when_nothing_comes_or_the_connection_breaks() {
    let server = server_with("one\n").await;
    let connection = connect(&server);
    let idle = Duration::from_millis(200);
    let mut lines = follow(&connection, None, 5, idle).await.unwrap();
    assert_eq!(line(&mut lines).await, "one");
    assert_eq!(lines.next().await, Some(Err(PodLogError::Idle(idle))));
    assert_eq!(lines.next().await, None);

    let mut lines = follow(&connection, None, 5, IDLE).await.unwrap();
    assert_eq!(line(&mut lines).await, "one");
    server.cut_watches();
    assert!(matches!(lines.next().await, Some(Err(PodLogError::Unavailable(_)))));
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn a_server_that_sends_the_head_with_the_first_line_is_waited_for() {
    let server = server_with("one\n").await;
    server.fail(FaultRule::always(Fault::Silent).of(Verb::Log, "pods").times(2));
    let limits = ClientLimits { head: Duration::from_millis(200), ..ClientLimits::default() };
    let connection = connect_within(&server, limits);
    let mut lines = follow(&connection, None, 5, IDLE).await.unwrap();
    assert_eq!(line(&mut lines).await, "one");
    assert_eq!(server.requests().len(), 3);
}
