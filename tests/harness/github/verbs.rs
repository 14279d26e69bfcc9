//! The verbs of tests about a repository, in the words of the domain.

use serde_json::{Value as Json, json};

use crate::harness::github::World;
use crate::harness::github::deliveries;
use crate::harness::github::deployments::{self, Deployment, Status};
use crate::harness::github::pulls::{self, Pull};
use crate::harness::github::repositories::add_commit;
use crate::harness::github::state::State;
use crate::harness::github::statuses::CommitStatus;

/// A repository of a [`World`].
pub(crate) struct Repository<'w> {
    pub(super) world: &'w World,
    pub(super) id: i64,
}

/// What a deployment is created with, beyond its target and its tag.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) target: String,
    pub(crate) payload: Json,
    /// A branch or a commit.
    pub(crate) git_ref: String,
    pub(crate) task: String,
    pub(crate) actor: String,
    pub(crate) production: bool,
}

impl Ask {
    /// The tip of `main`, task `deploy`, by octocat.
    pub(crate) fn new(target: &str, tag: &str) -> Self {
        Self {
            target: target.to_owned(),
            payload: json!({"tag": tag}),
            git_ref: "main".to_owned(),
            task: "deploy".to_owned(),
            actor: "octocat".to_owned(),
            production: false,
        }
    }
}

impl Repository<'_> {
    /// A commit on `main` with that WAML; its sha.
    pub(crate) fn commit(&self, waml: &str) -> String {
        self.commit_on("main", &[(".weave.yaml", waml)])
    }

    /// A commit on a branch, which begins at `main` if it is new, with those files changed.
    pub(crate) fn commit_on(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let changes: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (*path, Some(*text))).collect();
        add_commit(&mut self.world.state(), self.id, branch, &changes)
    }

    /// A commit on `main` that moves a file; its sha.
    pub(crate) fn moves(&self, from: &str, to: &str) -> String {
        let mut state = self.world.state();
        let tip = state.repo(self.id).branches["main"].clone();
        let bytes = state.repo(self.id).commits[&tip].files[from].clone();
        let text = String::from_utf8(bytes).unwrap();
        add_commit(&mut state, self.id, "main", &[(from, None), (to, Some(text.as_str()))])
    }

    /// Somebody creates a deployment of the tip of `main`, and its event goes where events go now;
    /// its number. If it is delivered, the service has answered when this returns.
    pub(crate) async fn deploys(&self, target: &str, tag: &str) -> i64 {
        self.asks(Ask::new(target, tag)).await
    }

    /// The same with everything that one can ask for.
    pub(crate) async fn asks(&self, ask: Ask) -> i64 {
        let id = {
            let mut state = self.world.state();
            let deployment = deployment(&mut state, self.id, ask);
            let id = deployment.id;
            deployments::add(&mut state, self.id, deployment, &self.world.api_url());
            id
        };
        self.world.delivered().await;
        id
    }

    /// The pull requests, each with its branch and a file on it.
    pub(crate) fn pull_requests(&self, path: &str) -> Vec<(String, String)> {
        let state = self.world.state();
        let repo = state.repo(self.id);
        let file = |pull: &Pull| {
            let bytes = &repo.commits[&repo.branches[&pull.branch]].files[path];
            (pull.branch.clone(), String::from_utf8(bytes.clone()).unwrap())
        };
        repo.pulls.iter().map(file).collect()
    }

    /// The names of all branches.
    pub(crate) fn branches(&self) -> Vec<String> {
        self.world.state().repo(self.id).branches.keys().cloned().collect()
    }

    /// A branch with those files, and a pull request from it to `main`; its number.
    pub(crate) async fn opens_pull_request(&self, branch: &str, files: &[(&str, &str)]) -> i64 {
        self.commit_on(branch, files);
        let number = {
            let mut state = self.world.state();
            let repo = state.repo_mut(self.id);
            let number = i64::try_from(repo.pulls.len()).unwrap() + 1;
            repo.pulls.push(Pull {
                number,
                branch: branch.to_owned(),
                base: repo.branches["main"].clone(),
                open: true,
                draft: false,
                author: "octocat".to_owned(),
                fork: None,
                renames: Vec::new(),
            });
            number
        };
        self.tells_of_pull_request(number, "opened").await;
        number
    }

    /// More commits come to a pull request; the sha of its head.
    pub(crate) async fn updates_pull_request(&self, number: i64, files: &[(&str, &str)]) -> String {
        let branch = self.with_pull(number, |pull| pull.branch.clone());
        let sha = self.commit_on(&branch, files);
        self.tells_of_pull_request(number, "synchronize").await;
        sha
    }

    /// It is closed without a merge.
    pub(crate) async fn closes_pull_request(&self, number: i64) {
        self.with_pull(number, |pull| pull.open = false);
        self.tells_of_pull_request(number, "closed").await;
    }

    /// It came from somebody's fork.
    pub(crate) fn comes_from_fork(&self, number: i64, owner: &str) {
        self.with_pull(number, |pull| pull.fork = Some(owner.to_owned()));
    }

    /// A file of the pull request was there before under another name.
    pub(crate) fn renames_in_pull_request(&self, number: i64, from: &str, to: &str) {
        let branch = self.with_pull(number, |pull| {
            pull.renames.push((from.to_owned(), to.to_owned()));
            pull.branch.clone()
        });
        let mut state = self.world.state();
        let repo = state.repo(self.id);
        let text = repo.commits[&repo.branches[&branch]].files[from].clone();
        let text = String::from_utf8(text).unwrap();
        add_commit(&mut state, self.id, &branch, &[(from, None), (to, Some(&text))]);
    }

    /// The event of a pull request again, whatever was done.
    pub(crate) async fn tells_of_pull_request(&self, number: i64, action: &str) {
        let base = self.world.api_url();
        pulls::tell(&mut self.world.state(), self.id, number, action, &base);
        self.world.delivered().await;
    }

    /// It gets another name, or another owner; the former one leads to it.
    pub(crate) fn renamed_to(&self, full_name: &str) {
        let mut state = self.world.state();
        let former =
            std::mem::replace(&mut state.repo_mut(self.id).full_name, full_name.to_owned());
        state.former_names.insert(former.to_lowercase(), self.id);
    }

    /// Its owner archives it: it can be read only.
    pub(crate) fn archived(&self) {
        self.world.state().repo_mut(self.id).archived = true;
    }

    /// Somebody presses *Re-run* on each check run of a commit; when this returns, the service has answered.
    pub(crate) async fn reruns_checks(&self, sha: &str) {
        {
            let mut state = self.world.state();
            let state = &mut *state;
            let runs = state.repo_mut(self.id).checks.iter_mut().filter(|run| run.head_sha == sha);
            let events: Vec<Json> = runs
                .map(|run| {
                    run.fields["status"] = json!("queued");
                    run.fields["conclusion"] = Json::Null;
                    json!({
                        "action": "rerequested", "sender": {"login": "octocat", "type": "User"},
                        "check_run": {
                            "id": run.id, "head_sha": sha, "name": run.fields["name"],
                            "external_id": run.fields["external_id"], "status": "queued",
                        },
                    })
                })
                .collect();
            for event in events {
                deliveries::tell(state, self.id, "check_run", event);
            }
        }
        self.world.delivered().await;
    }

    /// An event of it that nothing here makes, with what GitHub adds to each.
    pub(crate) async fn sends(&self, event: &str, body: Json) {
        deliveries::tell(&mut self.world.state(), self.id, event, body);
        self.world.delivered().await;
    }

    /// Another tool gives one of its deployments a status.
    pub(crate) fn another_tool_tells(&self, deployment: i64, state: &str, log_url: &str) {
        let mut world = self.world.state();
        let id = world.next_id();
        let created_at = world.now().to_string();
        let repo = world.repo_mut(self.id);
        let found = repo.deployments.iter_mut().find(|one| one.id == deployment).unwrap();
        found.statuses.push(Status {
            id,
            state: state.to_owned(),
            description: String::new(),
            log_url: log_url.to_owned(),
            environment_url: String::new(),
            creator: "octocat".to_owned(),
            created_at,
        });
    }

    /// Somebody deletes a branch.
    pub(crate) fn deletes_branch(&self, branch: &str) {
        let mut state = self.world.state();
        state.repo_mut(self.id).branches.remove(branch).expect("there is such a branch");
    }

    /// Where a branch is.
    pub(crate) fn tip(&self, branch: &str) -> String {
        self.world.state().repo(self.id).branches[branch].clone()
    }

    /// A check of the tip of `main` has a result.
    pub(crate) fn check_ends(&self, context: &str, result: &str) {
        let mut state = self.world.state();
        let (id, created_at) =
            (state.next_id(), state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let repo = state.repo_mut(self.id);
        let sha = repo.branches["main"].clone();
        repo.statuses.push(CommitStatus {
            id,
            sha,
            context: context.to_owned(),
            state: result.to_owned(),
            description: String::new(),
            target_url: None,
            creator: "octocat".to_owned(),
            created_at,
        });
    }

    /// Context, state and description of each commit status, oldest first.
    pub(crate) fn commit_statuses(&self, sha: &str) -> Vec<(String, String, String)> {
        let state = self.world.state();
        let of_it = state.repo(self.id).statuses.iter().filter(|status| status.sha == sha);
        let told = of_it.map(|one| (&one.context, &one.state, &one.description));
        told.map(|(a, b, c)| (a.clone(), b.clone(), c.clone())).collect()
    }

    /// Task and payload of each deployment, oldest first.
    pub(crate) fn payloads(&self) -> Vec<(String, Json)> {
        let state = self.world.state();
        let deployments = state.repo(self.id).deployments.iter();
        deployments.map(|one| (one.task.clone(), one.payload.clone())).collect()
    }

    /// Every check run of a commit, oldest first: its fields as sent, and `annotations`.
    pub(crate) fn check_runs(&self, sha: &str) -> Vec<Json> {
        let state = self.world.state();
        let of_it = state.repo(self.id).checks.iter().filter(|run| run.head_sha == sha);
        let json = |run: &crate::harness::github::checks::CheckRun| {
            let mut json = run.fields.clone();
            json["id"] = json!(run.id);
            json["annotations"] = json!(run.annotations);
            json
        };
        of_it.map(json).collect()
    }

    fn with_pull<T>(&self, number: i64, with: impl FnOnce(&mut Pull) -> T) -> T {
        let mut state = self.world.state();
        let mut pulls = state.repo_mut(self.id).pulls.iter_mut();
        with(pulls.find(|pull| pull.number == number).expect("it was opened"))
    }
}

fn deployment(state: &mut State, repo: i64, ask: Ask) -> Deployment {
    let Ask { target, payload, git_ref, task, actor, production } = ask;
    let sha = state.repo(repo).resolve(&git_ref).expect("a branch or a commit that is there");
    Deployment {
        id: state.next_id(),
        sha,
        git_ref,
        task,
        environment: target,
        description: Json::Null,
        payload,
        creator: actor,
        production,
        transient: false,
        created_at: state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        statuses: Vec::new(),
        hidden: state.late,
    }
}
