//! Tests of following a deployment, against a service that is scripted.

use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::*;
use crate::model::deployment::State;

#[test]
fn events_are_read_in_whatever_pieces_they_come() {
    let text = ": still here\n\nevent: deployment\nid: a1\nretry: 2000\ndata: {\"x\":\ndata: \"ü\"}\n\n\
                id:b\r\ndata:last\r\n\r\ndata: not whole\n";
    let expected = [("a1", "{\"x\":\n\"ü\"}"), ("b", "last")];
    for size in 1..text.len() {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            assert!(parser.take(piece));
            while let Some(event) = parser.next() {
                events.push((event.id.unwrap(), event.data));
            }
        }
        let events: Vec<_> = events.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(events, expected, "in pieces of {size}");
    }
}

/// A service that answers so, one after the other, and what it was asked after.
async fn service(answers: Vec<Response>) -> (ServiceEndpoint, Arc<Mutex<Vec<Option<String>>>>) {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (log, answers) = (ids.clone(), Arc::new(Mutex::new(answers.into_iter())));
    let app = axum::Router::new().fallback(move |request: Request| {
        let last = request.headers().get("last-event-id");
        log.lock().unwrap().push(last.map(|id| id.to_str().unwrap().to_owned()));
        let next = answers.lock().unwrap().next();
        std::future::ready(next.unwrap_or_else(|| answer(500, "no more")))
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (ServiceEndpoint::at(server, Some("t".into())), ids)
}

fn answer(status: u16, text: &str) -> Response {
    (StatusCode::from_u16(status).unwrap(), text.to_owned()).into_response()
}

fn picture(state: &str) -> String {
    let at = "2026-11-21T05:48:12Z";
    json!({
        "id": "20261121-054812123-3f9a2c", "state": state, "app": null, "target": "dev",
        "repository": "acme/shop", "tag": "1", "actor": "ada", "received_at": at,
        "finished_at": null, "summary": state, "template": null, "errors": 0, "warnings": 0,
        "stages": [],
    })
    .to_string()
}

fn stream(events: &[(&str, &str)]) -> Response {
    let event = |(id, state): &(&str, &str)| format!("id: {id}\ndata: {}\n\n", picture(state));
    let text = "event: other\ndata: x\n\n".to_owned();
    let text = text + &events.iter().map(event).collect::<String>();
    ([(CONTENT_TYPE, STREAM)], text).into_response()
}

async fn states(server: &ServiceEndpoint) -> Result<Vec<State>, CliError> {
    let id = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
    let (mut following, mut states) = (server.follow(&id), Vec::new());
    while let Some(now) = following.next().await? {
        states.push(now.summary.state);
    }
    Ok(states)
}

#[tokio::test]
async fn a_stream_that_breaks_off_goes_on_after_the_last_event() {
    let (server, ids) = service(vec![
        stream(&[("a", "queued"), ("b", "running")]),
        answer(503, ""),
        stream(&[("c", "succeeded")]),
        answer(204, ""),
    ])
    .await;
    let states = states(&server).await.unwrap();
    assert_eq!(states, [State::Queued, State::Running, State::Succeeded]);
    let ids = ids.lock().unwrap();
    let ids: Vec<_> = ids.iter().map(|last| last.as_deref().unwrap_or("")).collect();
    assert_eq!(ids, ["", "b", "b", "c"]);
}

#[tokio::test]
async fn a_service_without_streams_is_asked_again_and_again() {
    let answers = ["queued", "queued", "succeeded", "succeeded"];
    let mut answers: Vec<_> = answers.iter().map(|state| answer(200, &picture(state))).collect();
    answers.insert(0, answer(404, ""));
    let (server, _) = service(answers).await;
    assert_eq!(states(&server).await.unwrap(), [State::Queued, State::Succeeded]);
}

#[tokio::test]
async fn who_may_not_look_is_told_at_once() {
    for (status, hint) in [(401, "bart login"), (403, "ask who")] {
        let problem = r#"{"title": "t", "detail": "not for you"}"#;
        let (server, ids) = service(vec![answer(status, problem)]).await;
        let error = format!("{:?}", states(&server).await.unwrap_err());
        assert!(error.contains("not for you") && error.contains(hint), "{error}");
        assert_eq!(ids.lock().unwrap().len(), 1, "{status}");
    }
    let (server, _) = service(vec![answer(404, ""), answer(404, "{}")]).await;
    let error = format!("{:?}", states(&server).await.unwrap_err());
    assert!(error.contains("kind: Refused"), "no such deployment: {error}");
}

#[test]
fn what_never_ends_is_not_kept() {
    let mut parser = Parser::default();
    assert!(parser.take(&vec![b'x'; LARGEST]));
    assert!(!parser.take(b"x"));
}
