//! Tests the questions of gates: against a real Prometheus, a real Alertmanager, and servers that do what servers must
//! not do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use the_deployer::lookups::gates::clients::GateClients;
use the_deployer::lookups::gates::promql::ValueBound;
use the_deployer::lookups::gates::{GateReply, GateServer, GateSettings};
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::provider;
use crate::cli::{program, said};
use crate::harness::folder;
use crate::harness::monitoring::{alertmanager, prometheus, until};
use crate::harness::tls::over_tls;

const TOKEN: &str = "t0ken-0123456789";
/// Longer than anything on loopback takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(15);

/// Clients that ask everything at that address.
fn clients(url: &str, timeout: Duration) -> GateClients {
    provider();
    let token = Some(Credential { secret: TOKEN.into(), file: None });
    let server = GateServer { url: url.to_owned(), token, timeout };
    let host = url.split_once("://").unwrap().1.to_owned();
    let settings = GateSettings {
        prometheus: Some(server.clone()),
        alertmanager: Some(server),
        http_hosts: vec![host.split('/').next().unwrap().to_owned()],
        http_timeout: timeout,
    };
    GateClients::new(settings, &OutboundHttp::default()).unwrap()
}

fn passed(value: &str) -> GateReply {
    GateReply::Passed(value.to_owned())
}

fn not_passed(value: &str) -> GateReply {
    GateReply::NotPassed(value.to_owned())
}

fn reason(reply: GateReply) -> String {
    let GateReply::Unanswered(reason) = reply else { panic!("{reply:?}") };
    reason
}

#[tokio::test]
async fn prometheus_is_asked_for_the_only_value_of_a_query() {
    let server = prometheus(
        "http_errors_ratio{app=\"shop\"} 0.02\n\
         http_errors_ratio{app=\"cart\"} 0.5\n\
         requests_total 0\n\
         tiny 1e-7\n",
    )
    .await;
    let clients = clients(&server.url, LONG);
    let most = |limit| ValueBound::AtMost(limit);
    for (query, bound, expected) in [
        (r#"http_errors_ratio{app="shop"}"#, most("0.05"), passed("0.02 is at most 0.05")),
        (r#"http_errors_ratio{app="shop"}"#, most("0.02"), passed("0.02 is at most 0.02")),
        (r#"http_errors_ratio{app="shop"}"#, most("0.01"), not_passed("0.02 is more than 0.01")),
        ("max(http_errors_ratio)", most("0.05"), not_passed("0.5 is more than 0.05")),
        ("count(up)", ValueBound::AtLeast("1"), passed("1 is at least 1")),
        ("scalar(tiny)", most("1e-7"), passed("0.0000001 is at most 1e-7")),
        ("1 + 1", ValueBound::AtLeast("3"), not_passed("2 is less than 3")),
        ("nothing_has_this_name", most("1"), not_passed("no data: the query has no value")),
        (
            "http_errors_ratio",
            most("1"),
            not_passed("the query has 2 values and not one: aggregate them, with sum() or max()"),
        ),
        (
            "requests_total / requests_total",
            most("1"),
            not_passed("the query's value is NaN, which no bound holds"),
        ),
        (
            "1 / requests_total",
            ValueBound::AtLeast("1"),
            not_passed("the query's value is +Inf, which no bound holds"),
        ),
    ] {
        assert_eq!(clients.ask_promql(query, bound).await, expected, "{query}");
    }
    for (query, bound, expected) in [
        ("sum(", most("1"), "answers 400: invalid parameter \"query\""),
        ("up[5m]", most("1"), "the query has a matrix as its result"),
        ("\"text\"", most("1"), "the query has a string as its result"),
        ("up", most("5%"), "the gate's bound \"5%\" is not a decimal"),
        (&"up + ".repeat(2000), most("1"), "takes more than 7168 bytes"),
    ] {
        let reason = reason(clients.ask_promql(query, bound).await);
        assert!(reason.contains(expected), "{query}: {reason}");
    }
    assert_eq!(clients.check().await.len(), 1, "Prometheus is fine, and no Alertmanager");
}

#[tokio::test]
async fn alertmanager_is_asked_for_alerts_that_fire() {
    let server = alertmanager().await;
    let clients = clients(&server.url, LONG);
    let later = Timestamp::now() + SignedDuration::from_mins(10);
    let ask = async |matchers: &[&str]| {
        let matchers: Vec<_> = matchers.iter().map(|matcher| (*matcher).to_owned()).collect();
        clients.ask_alerts(&matchers, later).await
    };
    let shop = ["app=\"shop\"", "severity=~\"page|critical\""];
    assert_eq!(ask(&shop).await, passed("no alert fires"));
    let soon = clients.ask_alerts(&[], Timestamp::now()).await;
    assert!(reason(soon).contains("knows all alerts only 2 minutes later"));

    server.fire("Slow", "warning").await;
    assert_eq!(ask(&shop).await, passed("no alert fires"), "of another severity");
    server.fire("Errors", "page").await;
    let expected = not_passed("1 alert fires: Errors");
    until("the alert fires", async || (ask(&shop).await == expected).then_some(())).await;
    assert_eq!(ask(&[]).await, not_passed("2 alerts fire: Errors, Slow"));
    assert_eq!(ask(&["app!=\"shop\""]).await, passed("no alert fires"));
    let soon = clients.ask_alerts(&[], Timestamp::now()).await;
    assert_eq!(soon, not_passed("2 alerts fire: Errors, Slow"), "however short it runs");

    server.silence("Slow").await;
    let expected = not_passed("1 alert fires: Errors");
    until("one is silenced", async || (ask(&[]).await == expected).then_some(())).await;
    server.fire("ClusterDown", "critical").await;
    let expected = not_passed("1 alert fires: ClusterDown");
    until("one is inhibited", async || (ask(&[]).await == expected).then_some(())).await;

    let bad = reason(ask(&["severity critical"]).await);
    assert!(bad.contains("answers 400: bad matcher format: severity critical"), "{bad}");
    let long = reason(ask(&["a=\"b\""; 1000]).await);
    assert!(long.contains("takes more than 7168 bytes"), "{long}");
}

/// A server of the test that answers by the path.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn an_address_passes_with_2xx_and_nothing_else() {
    let status = |code: u16| get(move || async move { StatusCode::from_u16(code).unwrap() });
    let mut router = Router::new();
    for code in [200, 204, 299, 400, 404, 500, 503] {
        router = router.route(&format!("/{code}"), status(code));
    }
    let login = |request: Request| async move {
        assert!(!request.headers().contains_key("authorization"), "an address gets no token");
        StatusCode::OK
    };
    let url = serve(router.route("/login", get(login))).await;
    let clients = clients(&url, LONG);
    let host = url.trim_start_matches("http://");
    let ask = async |path: &str| clients.ask_http(&format!("{url}{path}")).await;
    for (path, status) in [("/200", "200 OK"), ("/204", "204 No Content"), ("/login", "200 OK")] {
        assert_eq!(ask(path).await, passed(&format!("{host} answers {status}")));
    }
    assert!(matches!(ask("/299?deep=1").await, GateReply::Passed(_)));
    for (path, status) in [
        ("/400", "400 Bad Request"),
        ("/404", "404 Not Found"),
        ("/500", "500 Internal Server Error"),
        ("/503", "503 Service Unavailable"),
    ] {
        assert_eq!(ask(path).await, not_passed(&format!("{host} answers {status}")));
    }
}

/// What a server must not do.
#[derive(Debug, Clone)]
enum Fault {
    /// Takes the connection, and never answers.
    Silent,
    /// Sends the head of an answer, and then a byte now and then.
    Slow,
    /// Sends 10 MiB.
    Long,
    /// The same in chunks: no head says how long it will be.
    LongInChunks,
    /// Leads to another place.
    Redirect(String),
    /// Speaks no HTTP.
    Garbage,
    /// Ends in the middle of the body.
    Early,
    /// Ends at once.
    Closed,
    /// Answers with a page for people.
    Page,
    /// Answers that the token is not good.
    Unauthorized,
}

/// Starts a server with a fault; returns its address and the number of its visitors.
async fn faulty(fault: Fault) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let visits = Arc::new(AtomicUsize::new(0));
    let count = visits.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(misbehave(stream, fault.clone()));
        }
    });
    (url, visits)
}

async fn misbehave(mut stream: tokio::net::TcpStream, fault: Fault) {
    let mut request = vec![0; 16 * 1024];
    let _ = stream.read(&mut request).await;
    let body = " ".repeat(10 * 1024 * 1024);
    let answer = match fault {
        Fault::Silent => std::future::pending().await,
        Fault::Slow => "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".to_owned(),
        Fault::Long => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        Fault::LongInChunks => format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ),
        Fault::Redirect(ref to) => {
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
        }
        Fault::Garbage => "SSH-2.0-OpenSSH_9.2 t0ken-0123456789\r\n".to_owned(),
        Fault::Early => "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n[".to_owned(),
        Fault::Closed => return,
        Fault::Page => "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>".to_owned(),
        Fault::Unauthorized => "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    while matches!(fault, Fault::Slow) && stream.write_all(b" ").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks all three kinds of gates at that address.
async fn ask_all(url: &str, timeout: Duration) -> [(&'static str, GateReply); 3] {
    let clients = clients(url, timeout);
    let address = format!("{url}/healthz");
    let (http, promql, alerts) = tokio::join!(
        clients.ask_http(&address),
        clients.ask_promql("up", ValueBound::AtLeast("0")),
        clients.ask_alerts(&[], Timestamp::now()),
    );
    [("http", http), ("promql", promql), ("alerts", alerts)]
}

#[tokio::test]
async fn a_server_that_does_not_answer_leaves_the_gate_unanswered_in_time() {
    let timeout = Duration::from_millis(700);
    for fault in [Fault::Silent, Fault::Slow] {
        let (url, _) = faulty(fault.clone()).await;
        let since = Instant::now();
        for (kind, reply) in ask_all(&url, timeout).await {
            let reason = reason(reply);
            assert!(reason.contains("did not answer within 700ms"), "{fault:?} {kind}: {reason}");
        }
        let elapsed = since.elapsed();
        assert!(elapsed >= timeout && elapsed < LONG, "{fault:?}: {elapsed:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_leaves_the_gate_unanswered_with_the_reason() {
    for (fault, expected) in [
        (Fault::Long, "answers with more than 1 MiB, which is not read"),
        (Fault::LongInChunks, "answers with more than 1 MiB, which is not read"),
        (Fault::Garbage, "cannot be reached: invalid HTTP version parsed"),
        (Fault::Early, "cannot be reached: "),
        (Fault::Closed, "cannot be reached: "),
    ] {
        let (url, _) = faulty(fault.clone()).await;
        for (kind, reply) in ask_all(&url, LONG).await {
            let reason = reason(reply);
            assert!(reason.contains(expected), "{fault:?} {kind}: {reason}");
            assert!(!reason.contains(TOKEN), "{fault:?} {kind}: {reason}");
        }
    }
    for (fault, expected) in [
        (Fault::Page, "answers what cannot be read"),
        (Fault::Unauthorized, "does not accept the service's token, or needs one (401)"),
    ] {
        let (url, _) = faulty(fault.clone()).await;
        assert_eq!(clients(&url, LONG).check().await.len(), 2, "{fault:?}");
        let [(_, http), servers @ ..] = ask_all(&url, LONG).await;
        assert!(!matches!(http, GateReply::Unanswered(_)), "its status is one: {http:?}");
        for (kind, reply) in servers {
            let reason = reason(reply);
            assert!(reason.contains(expected), "{fault:?} {kind}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (inner, visits) = faulty(Fault::Page).await;
    let (url, _) = faulty(Fault::Redirect(format!("{inner}/secret"))).await;
    for (kind, reply) in ask_all(&url, LONG).await {
        let reason = reason(reply);
        assert!(reason.contains("redirect") && !reason.contains(&inner), "{kind}: {reason}");
    }
    assert_eq!(visits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_is_away_or_of_an_unknown_authority_is_not_asked() {
    let (inner, visits) = faulty(Fault::Page).await;
    for (kind, reply) in ask_all(&over_tls(&inner).await, LONG).await {
        let reason = reason(reply);
        assert!(reason.contains("invalid peer certificate"), "{kind}: {reason}");
    }
    // A server that only takes connections once a client has proved itself.
    assert_eq!(visits.load(Ordering::SeqCst), 0);
    for (kind, reply) in ask_all("http://127.0.0.1:1", LONG).await {
        let reason = reason(reply);
        assert!(reason.contains("127.0.0.1") && reason.contains("refused"), "{kind}: {reason}");
    }
}

#[tokio::test]
async fn an_http_gate_goes_to_no_host_that_the_operator_does_not_allow() {
    provider();
    let (url, visits) = faulty(Fault::Page).await;
    let port = url.rsplit_once(':').unwrap().1;
    let clients = |hosts: &[&str]| {
        let settings = GateSettings {
            prometheus: None,
            alertmanager: None,
            http_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            http_timeout: LONG,
        };
        GateClients::new(settings, &OutboundHttp::default()).unwrap()
    };
    let addresses = [
        url.clone(),
        format!("http://0x7f.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://allowed.example.com@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}/?allowed.example.com"),
    ];
    for hosts in [&[][..], &["allowed.example.com", "*.example.com"], &["*"]] {
        let clients = clients(hosts);
        for address in &addresses {
            let reason = reason(clients.ask_http(address).await);
            assert!(
                reason.contains("gates.http.allowed_hosts") || reason.contains("login"),
                "{reason}"
            );
        }
    }
    // A name below a domain that is allowed, which leads into our own network: by a glob it is not connected to.
    let glob = format!("local*:{port}");
    let reason = reason(clients(&[&glob]).ask_http(&format!("http://localhost:{port}/")).await);
    assert!(reason.contains("only a private network knows"), "{reason}");
    assert_eq!(visits.load(Ordering::SeqCst), 0);
    let named = format!("localhost:{port}");
    let reply = clients(&[&named]).ask_http(&format!("http://localhost:{port}/")).await;
    assert_eq!(reply, passed(&format!("localhost:{port} answers 200 OK")), "the operator names it");
}

#[tokio::test]
async fn warnings_and_errors_of_prometheus_are_shown_without_secrets_and_not_endlessly() {
    let warned = async |body: &'static str, status: StatusCode| {
        let url =
            serve(Router::new().fallback(move || async move { (status, body).into_response() }));
        clients(&url.await, LONG).ask_promql("up", ValueBound::AtLeast("0")).await
    };
    let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]},"warnings":["store\u001b[31m a\u202e is away"]}"#;
    let reply = warned(body, StatusCode::OK).await;
    let expected = r"2 is at least 0 (Prometheus warns: store [31m a\u{202e} is away)";
    assert_eq!(reply, passed(expected));
    let body =
        r#"{"status":"error","error":"upstream refuses ghp_0123456789abcdefghijABCDEFGHIJ012345"}"#;
    let reason = reason(warned(body, StatusCode::SERVICE_UNAVAILABLE).await);
    assert!(
        reason.contains("answers 503: upstream refuses ") && !reason.contains("ghp_01"),
        "{reason}"
    );
    let body: &str = format!(r#"{{"status":"error","error":"{}"}}"#, "é".repeat(100_000)).leak();
    let GateReply::Unanswered(reason) = warned(body, StatusCode::BAD_REQUEST).await else {
        panic!("answered");
    };
    assert!(reason.chars().count() <= 400, "{} characters", reason.chars().count());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_of_a_configuration_asks_the_servers_of_gates() {
    let (prometheus, alertmanager) = (prometheus("up 1\n").await, alertmanager().await);
    let folder = folder::temporary();
    let check = async |prometheus: &str, alertmanager: &str, arguments: &[&str]| {
        let text = format!(
            "gates:\n  prometheus: {{url: '{prometheus}', token: {{env: TOKEN}}}}\n  alertmanager: {{url: '{alertmanager}'}}\n"
        );
        std::fs::write(folder.path().join("config.yaml"), text).unwrap();
        let mut command = program("the-deployer", folder.path());
        command.args(["config", "check", "--config", "config.yaml"]).args(arguments);
        command.env("TOKEN", TOKEN);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        (output.status.code(), said(&output))
    };
    let (code, text) = check(&prometheus.url, &alertmanager.url, &[]).await;
    assert_eq!(code, Some(0), "{text}");
    let (url, _) = faulty(Fault::Unauthorized).await;
    let (code, text) = check(&url, "http://127.0.0.1:1", &[]).await;
    assert_eq!(code, Some(1), "{text}");
    for expected in [
        "`gates.prometheus` cannot be asked: Prometheus at 127.0.0.1 does not accept the service's token",
        "`gates.alertmanager` cannot be asked: 127.0.0.1 cannot be reached",
        "docs/rollouts.md",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains(TOKEN), "{text}");
    let (code, text) = check(&url, "http://127.0.0.1:1", &["--offline"]).await;
    assert_eq!(code, Some(0), "{text}");
}
