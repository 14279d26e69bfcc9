//! Tests bart against a service that is none, or that shows the texts of others: its reads are bounded, and it shows
//! them as they are.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde_json::json;

use super::{bart, example, program, said, the_deployer};

/// A service that answers everything with that, on a thread of its own.
fn service(answer: fn() -> Response) -> String {
    let (send, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
            let app = axum::Router::new().fallback(move || async move { answer() });
            axum::serve(listener, app).await.unwrap();
        });
    });
    address.recv().unwrap()
}

fn endless() -> Response {
    let piece = Bytes::from(vec![b' '; 64 * 1024]);
    let pieces = stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
    Body::from_stream(pieces).into_response()
}

fn endless_error() -> Response {
    (http::StatusCode::CONFLICT, endless()).into_response()
}

fn announced() -> Response {
    (
        [("content-length", "99999999999")],
        Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()),
    )
        .into_response()
}

#[test]
fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    let folder = example();
    for answer in [endless as fn() -> Response, endless_error, announced] {
        let server = service(answer);
        for command in [
            &["locks"][..],
            &["status", "20261121-054812000-3f9a2c"],
            &["hold", "prod-cluster-1", "--reason", "x"],
            &["logs", "20261121-054812000-3f9a2c", "--follow"],
        ] {
            let mut bart = program("/bin/sh", folder.path());
            bart.env("BART_SERVER", &server).env("PROGRAM", super::programs().join("bart"));
            // Its threads reserve some memory that they never use; an endless answer would need all there is.
            bart.args(["-c", "ulimit -v 2000000; exec \"$PROGRAM\" \"$@\"", "bart"]).args(command);
            let output = bart.stdin(std::process::Stdio::null()).output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
            assert!(said.contains("is larger than 16 MiB"), "{command:?}: {said}");
        }
    }
}

const TRICK: &str = "ok\u{202e}\u{2066}\u{200b}\u{feff}\u{200e}x";

fn locks() -> Response {
    axum::Json(json!({"locks": [{"id": "3f9a2c41", "scope": {"owner": TRICK}, "reason": TRICK,
        "by": TRICK, "since": "2026-11-21T05:48:12Z", "until": null}]}))
    .into_response()
}

#[test]
fn what_nobody_sees_is_shown_to_people_and_stays_data_for_programs() {
    let folder = example();
    let server = service(locks);
    let run = |format: &str| {
        let output = program("bart", folder.path())
            .env("BART_SERVER", &server)
            .args(["locks", "-o", format])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run("text");
    let hidden = |text: &str| text.chars().any(|c| TRICK.contains(c) && !c.is_ascii());
    assert!(!hidden(&text), "{text:?}");
    let shown = r"ok\u{202e}\u{2066}\u{200b}\u{feff}\u{200e}x";
    assert_eq!(text.matches(shown).count(), 3, "{text}");
    let json = run("json");
    assert!(!hidden(&json), "{json:?}");
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["locks"][0]["reason"], TRICK);
    let read: serde_json::Value = serde_yaml::from_str(&run("yaml")).unwrap();
    assert_eq!(read["locks"][0]["reason"], TRICK);
}

#[test]
fn reasons_and_names_with_what_nobody_sees_are_refused_at_once() {
    let folder = example();
    let word = "invisible character (U+202E)";
    for command in [
        &["rollback", "prod-cluster-1", "--reason", TRICK][..],
        &["hold", "prod-cluster-1", "--reason", TRICK],
        &["lock", "prod-cluster-1", "--reason", TRICK],
        &["unlock", "3f9a2c41", "--reason", TRICK],
        &["cancel", "20261121-054812000-3f9a2c", "--reason", TRICK],
        &["remove", "prod-cluster-1", "--reason", TRICK],
        &["deploy", "1.0", "prod-cluster-1", "--description", TRICK],
    ] {
        let output = bart(folder.path(), command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", said(&output));
        assert!(said(&output).contains(word), "{command:?}: {}", said(&output));
    }
    for command in [
        &["lock", "--everything", "--by", "ops", "--reason", TRICK][..],
        &["lock", "--everything", "--by", TRICK, "--reason", "x"],
        &["config", "token", "--name", TRICK],
    ] {
        let output = the_deployer(folder.path(), command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", said(&output));
        assert!(said(&output).contains(word), "{command:?}: {}", said(&output));
    }
}
