//! Check runs: what only an App may write, and GitHub's limits on it.

use serde_json::{Value as Json, json};

use crate::harness::github::answer::{Answer, Answered, created, ok};
use crate::harness::github::app::Who;
use crate::harness::github::call::Call;
use crate::harness::github::state::State;

/// Characters of a summary, and of a text.
const MAX_TEXT: usize = 65_535;
/// In one request; more come by further requests, which add.
const MAX_ANNOTATIONS: usize = 50;
const MAX_TITLE: usize = 255;
const MAX_MESSAGE: usize = 64 * 1024;
const LEVELS: [&str; 3] = ["notice", "warning", "failure"];
const CONCLUSIONS: [&str; 8] = [
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "success",
    "skipped",
    "stale",
    "timed_out",
];
const RESOURCE: &str = "CheckRun";

/// One check run; what was sent of it, laid over what was there.
#[derive(Debug, Clone)]
pub(super) struct CheckRun {
    pub(super) id: i64,
    pub(super) head_sha: String,
    /// `name`, `status`, `conclusion`, `external_id`, `details_url`, `output` without annotations.
    pub(super) fields: Json,
    pub(super) annotations: Vec<Json>,
}

impl CheckRun {
    fn json(&self) -> Json {
        let mut json = self.fields.clone();
        json["id"] = json!(self.id);
        json["head_sha"] = json!(self.head_sha);
        json["output"]["annotations_count"] = json!(self.annotations.len());
        json["app"] = json!({"id": 424_242, "slug": "the-deployer"});
        json
    }

    fn take(&mut self, body: &Json) {
        for field in ["name", "external_id", "details_url", "status", "conclusion"] {
            if !body[field].is_null() {
                self.fields[field] = body[field].clone();
            }
        }
        if !body["conclusion"].is_null() {
            self.fields["status"] = json!("completed");
        }
        for field in ["title", "summary", "text"] {
            if !body["output"][field].is_null() {
                self.fields["output"][field] = body["output"][field].clone();
            }
        }
        let added = body["output"]["annotations"].as_array();
        self.annotations.extend(added.into_iter().flatten().cloned());
    }
}

/// `POST /repos/O/R/check-runs`
pub(super) fn create(state: &mut State, call: &Call, _: &Who, repo: i64, _: &[&str]) -> Answered {
    call.required(RESOURCE, "name")?;
    let head = call.required(RESOURCE, "head_sha")?;
    let none = || Answer::refusal(422, &format!("No commit found for SHA: {head}"));
    let head_sha = state.repo_mut(repo).found(&head).ok_or_else(none)?;
    judge(&call.body)?;
    let fields = json!({
        "name": null, "status": "queued", "conclusion": null, "external_id": "",
        "details_url": null, "output": {"title": null, "summary": null, "text": null},
    });
    let mut run = CheckRun { id: state.next_id(), head_sha, fields, annotations: Vec::new() };
    run.take(&call.body);
    let body = run.json();
    state.repo_mut(repo).checks.push(run);
    created(&body)
}

/// `PATCH /repos/O/R/check-runs/ID`: annotations are added.
pub(super) fn update(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    judge(&call.body)?;
    let run = find(state, repo, rest[1])?;
    run.take(&call.body);
    ok(&run.json())
}

/// `GET /repos/O/R/check-runs/ID`
pub(super) fn one(state: &mut State, _: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    ok(&find(state, repo, rest[1])?.json())
}

/// `GET /repos/O/R/check-runs/ID/annotations`
pub(super) fn annotations(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    call.page(&find(state, repo, rest[1])?.annotations)
}

/// `GET /repos/O/R/commits/SHA/check-runs`: of each name the newest, unless all are asked for.
pub(super) fn list(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let none = || Answer::refusal(422, &format!("No commit found for SHA: {}", rest[1]));
    let sha = state.repo_mut(repo).found(rest[1]).ok_or_else(none)?;
    let wanted = call.query.get("check_name").map(String::as_str);
    let every = call.query.get("filter").is_some_and(|filter| filter == "all");
    let mut listed: Vec<&CheckRun> = Vec::new();
    for run in state.repo(repo).checks.iter().rev().filter(|run| run.head_sha == sha) {
        let name = run.fields["name"].as_str().unwrap();
        let seen = listed.iter().any(|newer| newer.fields["name"] == name);
        if wanted.is_none_or(|wanted| wanted == name) && (every || !seen) {
            listed.push(run);
        }
    }
    let all: Vec<Json> = listed.into_iter().map(CheckRun::json).collect();
    call.page_in("check_runs", &all)
}

fn find<'s>(state: &'s mut State, repo: i64, id: &str) -> Result<&'s mut CheckRun, Answer> {
    let found = state.repo_mut(repo).checks.iter_mut().find(|run| run.id.to_string() == id);
    found.ok_or_else(Answer::not_found)
}

fn judge(body: &Json) -> Result<(), Answer> {
    let wrong = |field: &str, says: &str| Err(Answer::invalid(RESOURCE, field, says));
    if body["conclusion"].as_str().is_some_and(|one| !CONCLUSIONS.contains(&one)) {
        return wrong("conclusion", "conclusion is not included in the list");
    }
    if body["status"] == "completed" && body["conclusion"].is_null() {
        return wrong("conclusion", "conclusion is required when status is completed");
    }
    let output = &body["output"];
    if output.is_null() {
        return Ok(());
    }
    for field in ["title", "summary"] {
        if !output[field].is_string() {
            return wrong(field, &format!("{field} wasn't supplied"));
        }
    }
    for field in ["summary", "text"] {
        if output[field].as_str().is_some_and(|text| text.chars().count() > MAX_TEXT) {
            return wrong(field, "Only 65535 characters are allowed");
        }
    }
    let annotations = output["annotations"].as_array().map_or(&[][..], Vec::as_slice);
    if annotations.len() > MAX_ANNOTATIONS {
        return wrong("annotations", "No more than 50 items are allowed");
    }
    annotations.iter().try_for_each(judge_annotation)
}

fn judge_annotation(one: &Json) -> Result<(), Answer> {
    let wrong = |says: &str| Err(Answer::invalid(RESOURCE, "annotations", says));
    let (start, end) = (one["start_line"].as_u64(), one["end_line"].as_u64());
    if !one["path"].is_string() || start.is_none_or(|line| line == 0) || end < start {
        return wrong("an annotation needs path, start_line and end_line");
    }
    if !one["annotation_level"].as_str().is_some_and(|level| LEVELS.contains(&level)) {
        return wrong("annotation_level is not included in the list");
    }
    if one["title"].as_str().is_some_and(|title| title.chars().count() > MAX_TITLE) {
        return wrong("title is too long (maximum is 255 characters)");
    }
    match one["message"].as_str() {
        Some(message) if message.len() <= MAX_MESSAGE => Ok(()),
        _ => wrong("an annotation needs a message of at most 64 KB"),
    }
}
