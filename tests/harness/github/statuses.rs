//! Commit statuses: one state a context, whatever the case of its letters.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::harness::github::answer::{Answer, Answered, created, ok};
use crate::harness::github::app::Who;
use crate::harness::github::call::Call;
use crate::harness::github::deployments::description;
use crate::harness::github::state::{Repo, State, user};

const STATES: [&str; 4] = ["error", "failure", "pending", "success"];
/// Of one commit and context.
const MAX: usize = 1_000;
const RESOURCE: &str = "Status";

/// One status of a commit.
#[derive(Debug, Clone)]
pub(super) struct CommitStatus {
    pub(super) id: i64,
    pub(super) sha: String,
    pub(super) context: String,
    pub(super) state: String,
    pub(super) description: String,
    pub(super) target_url: Option<String>,
    pub(super) creator: String,
    pub(super) created_at: String,
}

impl CommitStatus {
    fn json(&self) -> Json {
        json!({
            "id": self.id, "node_id": "SC_kwDOABCD", "state": self.state,
            "context": self.context, "description": self.description,
            "target_url": self.target_url, "creator": user(&self.creator),
            "created_at": self.created_at, "updated_at": self.created_at,
        })
    }
}

impl Repo {
    /// The newest of each context of a commit.
    fn newest(&self, sha: &str) -> BTreeMap<String, &CommitStatus> {
        let of_it = self.statuses.iter().filter(|status| status.sha == sha);
        of_it.map(|status| (status.context.to_lowercase(), status)).collect()
    }

    /// Refuses a deployment of a commit whose contexts are not green; with none named, all count.
    pub(super) fn are_green(&self, sha: &str, required: &Json) -> Result<(), Answer> {
        let newest = self.newest(sha);
        let required: Vec<String> = match required.as_array() {
            Some(named) => {
                named.iter().filter_map(|one| Some(one.as_str()?.to_lowercase())).collect()
            }
            None => newest.keys().cloned().collect(),
        };
        let green = |context: &String| newest.get(context).is_some_and(|s| s.state == "success");
        if required.iter().all(green) {
            return Ok(());
        }
        let of = |context: &String| {
            let state = newest.get(context).map_or("pending", |status| status.state.as_str());
            json!({"context": context, "state": state})
        };
        let contexts: Vec<Json> = required.iter().map(of).collect();
        Err(Answer::json(
            409,
            &json!({
                "message": "Conflict: Commit status checks failed for main.",
                "errors": [{"contexts": contexts, "resource": "Deployment", "field": "required_contexts", "code": "invalid"}],
                "documentation_url": "https://docs.github.com/rest", "status": "409",
            }),
        ))
    }
}

/// `POST /repos/O/R/statuses/SHA`
pub(super) fn create(
    state: &mut State,
    call: &Call,
    who: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let none = || Answer::refusal(422, &format!("No commit found for SHA: {}", rest[1]));
    let sha = state.repo_mut(repo).found(rest[1]).ok_or_else(none)?;
    let to = call.required(RESOURCE, "state")?;
    if !STATES.contains(&to.as_str()) {
        return Err(Answer::invalid(RESOURCE, "state", "state is not included in the list"));
    }
    let status = CommitStatus {
        id: state.next_id(),
        context: call.text("context").unwrap_or_else(|| "default".to_owned()),
        state: to,
        description: description(RESOURCE, call)?,
        target_url: call.text("target_url"),
        creator: who.login(),
        created_at: state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        sha,
    };
    let statuses = &mut state.repo_mut(repo).statuses;
    let same = |one: &&CommitStatus| {
        one.sha == status.sha && one.context.eq_ignore_ascii_case(&status.context)
    };
    if statuses.iter().filter(same).count() >= MAX {
        let says = "This SHA and context has reached the maximum number of statuses.";
        return Err(Answer::invalid(RESOURCE, "base", says));
    }
    let body = status.json();
    statuses.push(status);
    created(&body)
}

/// `GET /repos/O/R/commits/SHA/statuses`: newest first.
pub(super) fn list(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let sha = commit(state, repo, rest)?;
    let of_it = state.repo(repo).statuses.iter().rev().filter(|status| status.sha == sha);
    let all: Vec<Json> = of_it.map(CommitStatus::json).collect();
    call.page(&all)
}

/// `GET /repos/O/R/commits/SHA/status`: the newest of each context.
pub(super) fn combined(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let sha = commit(state, repo, rest)?;
    let newest = state.repo(repo).newest(&sha);
    let has = |wanted: &[&str]| newest.values().any(|one| wanted.contains(&one.state.as_str()));
    let together = match () {
        () if has(&["error", "failure"]) => "failure",
        () if has(&["pending"]) || newest.is_empty() => "pending",
        () => "success",
    };
    let all: Vec<Json> = newest.values().map(|status| status.json()).collect();
    let skipped =
        call.per_page() * (call.query.get("page").map_or(1, |p| p.parse().unwrap_or(1)) - 1);
    let page: Vec<&Json> = all.iter().skip(skipped).take(call.per_page()).collect();
    ok(&json!({"state": together, "sha": sha, "total_count": all.len(), "statuses": page}))
}

fn commit(state: &mut State, repo: i64, rest: &[&str]) -> Result<String, Answer> {
    let none = || Answer::refusal(422, &format!("No commit found for SHA: {}", rest[1]));
    state.repo_mut(repo).found(rest[1]).ok_or_else(none)
}
