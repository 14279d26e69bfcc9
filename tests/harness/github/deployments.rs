//! Deployments and their statuses, with what GitHub refuses and what it does by itself.

use serde_json::{Value as Json, json};

use crate::harness::github::answer::{Answer, Answered, created, ok};
use crate::harness::github::app::Who;
use crate::harness::github::call::Call;
use crate::harness::github::deliveries;
use crate::harness::github::state::{Repo, State, user};

/// By characters; more is refused.
const MAX_DESCRIPTION: usize = 140;
const STATES: [&str; 7] =
    ["error", "failure", "inactive", "in_progress", "queued", "pending", "success"];

/// One deployment.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    pub(super) id: i64,
    pub(super) sha: String,
    pub(super) git_ref: String,
    pub(super) task: String,
    pub(super) environment: String,
    pub(super) description: Json,
    pub(super) payload: Json,
    pub(super) creator: String,
    pub(super) production: bool,
    pub(super) transient: bool,
    pub(super) created_at: String,
    /// Oldest first.
    pub(super) statuses: Vec<Status>,
    /// How often it is still not found.
    pub(super) hidden: u32,
}

/// One status of a deployment.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) id: i64,
    pub(super) state: String,
    pub(super) description: String,
    pub(super) log_url: String,
    pub(super) environment_url: String,
    pub(super) creator: String,
    pub(super) created_at: String,
}

impl Deployment {
    pub(super) fn state(&self) -> Option<&str> {
        self.statuses.last().map(|status| status.state.as_str())
    }

    /// As it stands in lists and in events.
    pub(super) fn json(&self, repo: &Repo, base: &str) -> Json {
        let repository = format!("{base}/repos/{}", repo.full_name);
        let url = format!("{repository}/deployments/{}", self.id);
        json!({
            "url": url, "id": self.id, "node_id": "DE_kwDOABCD", "task": self.task,
            "original_environment": self.environment, "environment": self.environment,
            "description": self.description, "created_at": self.created_at,
            "updated_at": self.statuses.last().map_or(&self.created_at, |last| &last.created_at),
            "statuses_url": format!("{url}/statuses"), "repository_url": repository,
            "creator": user(&self.creator), "sha": self.sha, "ref": self.git_ref,
            "payload": self.payload, "transient_environment": self.transient,
            "production_environment": self.production, "performed_via_github_app": null,
        })
    }
}

impl Status {
    fn json(&self) -> Json {
        json!({
            "id": self.id, "node_id": "DES_kwDOABCD", "state": self.state,
            "description": self.description, "creator": user(&self.creator),
            "log_url": self.log_url, "target_url": self.log_url,
            "environment_url": self.environment_url, "created_at": self.created_at,
        })
    }
}

impl Repo {
    /// The same as [`Repo::deployment`], for one who asks from outside.
    fn found_deployment(&mut self, id: &str) -> Result<&mut Deployment, Answer> {
        let found = self.deployments.iter_mut().find(|one| one.id.to_string() == id);
        let found = found.ok_or_else(Answer::not_found)?;
        if found.hidden > 0 {
            found.hidden -= 1;
            return Err(Answer::not_found());
        }
        Ok(found)
    }
}

/// `GET /repos/O/R/deployments`: newest first.
pub(super) fn list(state: &mut State, call: &Call, _: &Who, repo: i64, _: &[&str]) -> Answered {
    let repo = state.repo(repo);
    let asked = |name: &str, value: &str| call.query.get(name).is_none_or(|wanted| wanted == value);
    let fits = |one: &&Deployment| {
        let named = asked("sha", &one.sha) && asked("ref", &one.git_ref);
        let placed = asked("task", &one.task) && asked("environment", &one.environment);
        named && placed && one.hidden == 0
    };
    let all = repo.deployments.iter().rev().filter(fits);
    let all: Vec<Json> = all.map(|one| one.json(repo, &call.base)).collect();
    call.page(&all)
}

/// `GET /repos/O/R/deployments/ID`
pub(super) fn one(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let found = state.repo_mut(repo).found_deployment(rest[1])?.clone();
    ok(&found.json(state.repo(repo), &call.base))
}

/// `POST /repos/O/R/deployments`: with contexts that are not green there is none. Branches are
/// always up to date here, so that nothing is merged.
pub(super) fn create(state: &mut State, call: &Call, who: &Who, repo: i64, _: &[&str]) -> Answered {
    let git_ref = call.required("Deployment", "ref")?;
    let none = || Answer::refusal(422, &format!("No ref found for: {git_ref}"));
    let sha = state.repo(repo).resolve(&git_ref).ok_or_else(none)?;
    state.repo(repo).are_green(&sha, &call.body["required_contexts"])?;
    let environment = call.text("environment").unwrap_or_else(|| "production".to_owned());
    let deployment = Deployment {
        id: state.next_id(),
        production: call.body["production_environment"]
            .as_bool()
            .unwrap_or(environment == "production"),
        transient: call.body["transient_environment"].as_bool().unwrap_or(false),
        task: call.text("task").unwrap_or_else(|| "deploy".to_owned()),
        description: call.body["description"].clone(),
        payload: match &call.body["payload"] {
            Json::Null => json!({}),
            payload => payload.clone(),
        },
        creator: who.login(),
        created_at: state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        statuses: Vec::new(),
        hidden: state.late,
        sha,
        git_ref,
        environment,
    };
    let body = deployment.json(state.repo(repo), &call.base);
    add(state, repo, deployment, &call.base);
    created(&body)
}

/// A deployment comes to be, and its event is on its way.
pub(super) fn add(state: &mut State, repo: i64, deployment: Deployment, base: &str) {
    let event = json!({
        "action": "created", "deployment": deployment.json(state.repo(repo), base),
        "workflow": null, "workflow_run": null, "sender": user(&deployment.creator),
    });
    state.repo_mut(repo).deployments.push(deployment);
    deliveries::tell(state, repo, "deployment", event);
}

/// `GET /repos/O/R/deployments/ID/statuses`: newest first.
pub(super) fn statuses(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let found = state.repo_mut(repo).found_deployment(rest[1])?;
    let all: Vec<Json> = found.statuses.iter().rev().map(Status::json).collect();
    call.page(&all)
}

/// `POST /repos/O/R/deployments/ID/statuses`
pub(super) fn report(
    state: &mut State,
    call: &Call,
    who: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let resource = "DeploymentStatus";
    state.repo_mut(repo).found_deployment(rest[1])?;
    let to = call.required(resource, "state")?;
    if !STATES.contains(&to.as_str()) {
        return Err(Answer::invalid(resource, "state", "state is not included in the list"));
    }
    let description = description(resource, call)?;
    let link = call.text("log_url").or_else(|| call.text("target_url")).unwrap_or_default();
    let status = Status {
        id: state.next_id(),
        state: to,
        description,
        log_url: link,
        environment_url: call.text("environment_url").unwrap_or_default(),
        creator: who.login(),
        created_at: state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    let body = status.json();
    let success = status.state == "success";
    let deployment = state.repo_mut(repo).found_deployment(rest[1])?;
    deployment.statuses.push(status.clone());
    let (id, environment) = (deployment.id, deployment.environment.clone());
    if success && call.body["auto_inactive"] != false {
        inactivate_older(state, repo, id, &environment, &status);
    }
    created(&body)
}

/// Of at most 140 characters, else as GitHub refuses it.
pub(super) fn description(resource: &str, call: &Call) -> Result<String, Answer> {
    let description = call.text("description").unwrap_or_default();
    if description.chars().count() > MAX_DESCRIPTION {
        let says = "description is too long (maximum is 140 characters)";
        return Err(Answer::invalid(resource, "description", says));
    }
    Ok(description)
}

/// A success ends earlier successes of that environment, unless they are for production or pass
/// by themselves.
fn inactivate_older(state: &mut State, repo: i64, id: i64, environment: &str, by: &Status) {
    let number = state.next_id();
    let fits = |one: &&mut Deployment| {
        let plain = !one.production && !one.transient;
        one.id < id && one.environment == environment && plain && one.state() == Some("success")
    };
    for older in state.repo_mut(repo).deployments.iter_mut().filter(fits) {
        let inactive = Status {
            id: number,
            state: "inactive".to_owned(),
            description: String::new(),
            log_url: String::new(),
            environment_url: String::new(),
            ..by.clone()
        };
        older.statuses.push(inactive);
    }
}
