//! Tests of requests to the service, against a server that is scripted.

use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::response::IntoResponse as _;
use serde_json::{Value as Json, json};

use super::*;

/// A service that gives these answers one after the other, and keeps the requests' keys and tokens.
async fn service(
    answers: &[(u16, &str)],
) -> (ServiceEndpoint, Arc<Mutex<Vec<[Option<String>; 2]>>>) {
    let headers = Arc::new(Mutex::new(Vec::new()));
    let log = headers.clone();
    let replies: Vec<_> = answers.iter().map(|(code, text)| (*code, (*text).to_owned())).collect();
    let app = axum::Router::new().fallback(move |request: Request| {
        let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        let mut log = log.lock().unwrap();
        let (code, text) = replies[log.len()].clone();
        log.push([header("idempotency-key"), header("authorization")]);
        let status = StatusCode::from_u16(code).unwrap();
        std::future::ready(if status.is_redirection() {
            (status, [("location", text)]).into_response()
        } else {
            (status, text).into_response()
        })
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (ServiceEndpoint::at(server, Some("secret".into())), headers)
}

fn format_error(error: &CliError) -> String {
    format!("{error:?}")
}

#[tokio::test]
async fn an_act_without_an_answer_is_asked_for_again_with_its_key() {
    let in_use = r#"{"type": "urn:the-deployer:problem:idempotency-key-in-use", "title": "t"}"#;
    for first in [(503, ""), (409, in_use)] {
        let (server, headers) = service(&[first, (200, r#"{"done": 1}"#)]).await;
        let answer: Json = server.post("/act", &json!({})).await.unwrap();
        assert_eq!(answer["done"], 1);
        let headers = headers.lock().unwrap();
        assert!(headers[0][0].is_some() && headers[0] == headers[1], "{headers:?}");
    }
    let (server, headers) = service(&[(409, "{}"), (200, "{}"), (200, "{}")]).await;
    assert!(server.post::<Json>("/act", &json!({})).await.is_err(), "a refusal stands");
    let _: Json = server.post("/act", &json!({})).await.unwrap();
    let _: Json = server.consult("/plan", &json!({})).await.unwrap();
    let headers = headers.lock().unwrap();
    assert!(
        headers[0][0] != headers[1][0] && headers[2][0].is_none(),
        "a key for each: {headers:?}"
    );
}

#[tokio::test]
async fn nobody_is_followed_elsewhere_with_a_token() {
    let (other, other_headers) = service(&[(200, "{}")]).await;
    let (server, _) = service(&[(301, &format!("{}/x/act?y=1", other.url()))]).await;
    let error = server.get::<Json>("/act", &[]).await.unwrap_err();
    let hint = format!("set the server to {}/x\"", other.url());
    assert!(format_error(&error).contains(&hint), "{error:?}");
    assert!(other_headers.lock().unwrap().is_empty());
    let plain_http = ServiceEndpoint::at("http://deployer.example.com", server.token);
    assert!(plain_http.bearer().unwrap_err().to_string().contains("in the clear"));
}

#[tokio::test]
async fn only_what_is_not_there_is_not_found() {
    let (server, _) = service(&[(404, "{}"), (409, "{}"), (422, "{}"), (200, "1")]).await;
    assert_eq!(server.find::<Json>("/x").await.unwrap(), None);
    for _ in 0..2 {
        assert!(server.find::<Json>("/x").await.is_err());
    }
    assert_eq!(server.find::<Json>("/x").await.unwrap(), Some(json!(1)));
}

#[test]
fn what_is_wrong_with_the_request_is_a_refusal() {
    let server = ServiceEndpoint::at("http://x", None);
    for (status, kind) in [
        (400, "Refused"),
        (401, "InTheWay"),
        (403, "Forbidden"),
        (404, "Refused"),
        (409, "InTheWay"),
        (422, "Refused"),
        (408, "Passing"),
        (429, "Io"),
        (500, "Passing"),
        (503, "Passing"),
    ] {
        let error = server.problem_error(StatusCode::from_u16(status).unwrap(), b"{}");
        assert!(format_error(&error).contains(&format!("kind: {kind}")), "{status}: {error:?}");
    }
}
