//! Check runs: their limits, and annotations in any number.

use axum::extract::RawQuery;
use axum::routing::patch;

use super::*;
use crate::forge::check::{Annotation, CheckRun, Conclusion, Level};

/// One check run with what was written to it.
#[derive(Default)]
struct Check {
    heads: Vec<Value>,
    annotations: Vec<Value>,
    /// The next so many writes fail.
    troubles: usize,
}

type SharedCheck = Arc<Mutex<Check>>;

fn write(check: &SharedCheck, body: &Value, code: Code) -> Response {
    let mut check = check.lock().unwrap();
    if check.troubles > 0 && body.get("name").is_none() {
        check.troubles -= 1;
        return Code::BAD_GATEWAY.into_response();
    }
    let output = &body["output"];
    let annotations = output["annotations"].as_array().cloned().unwrap_or_default();
    let long = |key: &str| output[key].as_str().unwrap_or_default().chars().count() > 65_535;
    let heavy = |annotation: &Value| {
        annotation["title"].as_str().unwrap().chars().count() > 255
            || annotation["message"].as_str().unwrap().len() > 64 * 1024
            || annotation["start_line"].as_u64().unwrap() < 1
    };
    if annotations.len() > 50 || long("summary") || long("text") || annotations.iter().any(heavy) {
        return (Code::UNPROCESSABLE_ENTITY, Json(json!({"message": "too much"}))).into_response();
    }
    check.annotations.extend(annotations);
    check.heads.extend(body.get("name").map(|_| body.clone()));
    (code, Json(json!({"id": 11}))).into_response()
}

async fn checks() -> (Forge, SharedCheck) {
    let check = SharedCheck::default();
    let create = async |State(check): State<SharedCheck>, Json(body): Json<Value>| {
        write(&check, &body, Code::CREATED)
    };
    let update = async |State(check): State<SharedCheck>, Json(body): Json<Value>| {
        write(&check, &body, Code::OK)
    };
    let annotations = async |State(check): State<SharedCheck>, RawQuery(query): RawQuery| {
        Json(page_of(&check.lock().unwrap().annotations, &query.unwrap()))
    };
    let list = async |RawQuery(query): RawQuery| {
        let query = query.unwrap();
        assert!(query.contains("check_name=deploy%2Fprod%20%26&filter=all"), "{query}");
        let runs = [(9, Some("a")), (11, Some("b")), (10, Some("b")), (12, None)];
        let runs = runs.map(|(id, external)| json!({"id": id, "external_id": external}));
        Json(json!({"total_count": 4, "check_runs": page_of(&runs, &query)}))
    };
    let router = Router::new()
        .route("/api/v3/repos/acme/shop/check-runs", post(create))
        .route("/api/v3/repos/acme/shop/check-runs/11", patch(update))
        .route("/api/v3/repos/acme/shop/check-runs/11/annotations", get(annotations))
        .route(&format!("/api/v3/repos/acme/shop/commits/{SHA}/check-runs"), get(list))
        .with_state(check.clone());
    (serve(router, TOKEN).await, check)
}

fn run(annotations: u32) -> CheckRun {
    let annotation = |n: u32| Annotation {
        path: ".weave.yaml".to_owned(),
        line: n,
        level: Level::Failure,
        title: "ü".repeat(300),
        message: format!("{n} {}", "ü".repeat(if n == 7 { 40_000 } else { 4 })),
    };
    CheckRun {
        name: "deploy/prod &".to_owned(),
        head: commit(),
        external_id: "b".to_owned(),
        conclusion: Some(Conclusion::Failure),
        title: "3 violations".to_owned(),
        summary: "ü".repeat(70_000),
        text: Some("ü".repeat(70_000)),
        details_url: None,
        annotations: (0..annotations).map(annotation).collect(),
    }
}

#[tokio::test]
async fn a_hundred_and_twenty_annotations_take_three_requests_and_are_there_once() {
    let (github, check) = checks().await;
    assert_eq!(github.create_check(&shop(), &run(120)).await.unwrap(), 11);
    let annotations = || check.lock().unwrap().annotations.len();
    assert_eq!(annotations(), 120);
    github.update_check(&shop(), 11, &run(120)).await.unwrap();
    assert_eq!(annotations(), 120, "what is there is not added again");
    github.update_check(&shop(), 11, &run(122)).await.unwrap();
    assert_eq!(annotations(), 122);
    let check = check.lock().unwrap();
    assert_eq!(check.heads.len(), 3);
    let (created, changed) = (&check.heads[0], &check.heads[1]);
    assert_eq!((created["head_sha"].as_str(), changed.get("head_sha")), (Some(SHA), None));
    assert_eq!(created["status"], "completed");
    assert_eq!(created["conclusion"], "failure");
    assert_eq!(check.annotations[0]["annotation_level"], "failure");
}

#[tokio::test]
async fn a_run_in_progress_has_no_conclusion() {
    let (github, check) = checks().await;
    let open = CheckRun { conclusion: None, text: None, ..run(0) };
    github.create_check(&shop(), &open).await.unwrap();
    let created = check.lock().unwrap().heads[0].clone();
    assert_eq!(created["status"], "in_progress");
    assert!(
        created.get("conclusion").is_none() && created["output"].get("text").is_none(),
        "{created}"
    );
}

#[tokio::test]
async fn what_was_written_by_half_is_found_and_completed() {
    let (github, check) = checks().await;
    check.lock().unwrap().troubles = 1;
    let error = github.create_check(&shop(), &run(120)).await.unwrap_err();
    assert!(error.may_have_arrived());
    let run_id = github.find_check(&shop(), &commit(), "deploy/prod &", "b").await.unwrap();
    assert_eq!(run_id, Some(11), "the newest with our own name");
    github.update_check(&shop(), 11, &run(120)).await.unwrap();
    assert_eq!(check.lock().unwrap().annotations.len(), 120);
    let no_run = github.find_check(&shop(), &commit(), "deploy/prod &", "c").await.unwrap();
    assert_eq!(no_run, None);
}
