//! Pull requests, and which files they touch.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::app::Who;
use crate::harness::github::call::Call;
use crate::harness::github::deliveries;
use crate::harness::github::state::{Repo, State, user};

/// One pull request.
#[derive(Debug, Clone)]
pub(super) struct Pull {
    pub(super) number: i64,
    pub(super) branch: String,
    /// Where `main` was when it was opened.
    pub(super) base: String,
    pub(super) open: bool,
    pub(super) draft: bool,
    pub(super) author: String,
    /// From a fork of that owner, whose commits the repository has as well.
    pub(super) fork: Option<String>,
    /// What was renamed: from, to.
    pub(super) renames: Vec<(String, String)>,
}

impl Pull {
    fn json(&self, repo: &Repo, base: &str) -> Json {
        let mut head = repo.json(base);
        if let Some(owner) = &self.fork {
            head["full_name"] = json!(format!("{owner}/{}", repo.name()));
            head["owner"]["login"] = json!(owner);
            head["fork"] = json!(true);
        }
        json!({
            "number": self.number, "id": 7_000_000 + self.number,
            "state": if self.open { "open" } else { "closed" }, "draft": self.draft,
            "title": "A change", "user": user(&self.author), "merged": false, "locked": false,
            "url": format!("{base}/repos/{}/pulls/{}", repo.full_name, self.number),
            "html_url": format!("https://github.com/{}/pull/{}", repo.full_name, self.number),
            "head": {
                "ref": self.branch, "sha": repo.branches[&self.branch], "repo": head,
                "user": {"login": self.fork.as_deref().unwrap_or(repo.owner())},
            },
            "base": {
                "ref": "main", "sha": self.base, "repo": repo.json(base),
                "user": {"login": repo.owner()},
            },
        })
    }

    /// By path, as GitHub lists them.
    fn files(&self, repo: &Repo) -> Vec<Json> {
        let before = &repo.commits[&self.base].files;
        let after = &repo.commits[&repo.branches[&self.branch]].files;
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let renamed_from = |path: &&&String| self.renames.iter().any(|(from, _)| from == **path);
        let changed = paths.iter().filter(|path| before.get(**path) != after.get(**path));
        let entry = |path: &&String| {
            let from = self.renames.iter().find(|(_, to)| to == *path).map(|(from, _)| from);
            let status = match (before.contains_key(*path), after.contains_key(*path)) {
                _ if from.is_some() => "renamed",
                (false, _) => "added",
                (_, false) => "removed",
                _ => "modified",
            };
            let mut entry = json!({"filename": path, "status": status, "changes": 1});
            if let Some(from) = from {
                entry["previous_filename"] = json!(from);
            }
            entry
        };
        changed.filter(|path| !renamed_from(path)).map(entry).collect()
    }
}

/// The event of what was done with it.
pub(super) fn tell(state: &mut State, repo: i64, number: i64, action: &str, base: &str) {
    let updated_at = state.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (mut body, author) = {
        let repo = state.repo(repo);
        let pull = repo.pulls.iter().find(|pull| pull.number == number).unwrap();
        (pull.json(repo, base), pull.author.clone())
    };
    body["updated_at"] = json!(updated_at);
    let event = json!({
        "action": action, "number": number, "pull_request": body, "sender": user(&author),
    });
    deliveries::tell(state, repo, "pull_request", event);
}

/// `POST /repos/O/R/pulls`
pub(super) fn create(state: &mut State, call: &Call, who: &Who, repo: i64, _: &[&str]) -> Answered {
    let (head, base) =
        (call.required("PullRequest", "head")?, call.required("PullRequest", "base")?);
    call.required("PullRequest", "title")?;
    let author = who.login();
    let repo = state.repo_mut(repo);
    let (Some(from), Some(to)) = (repo.branches.get(&head), repo.branches.get(&base)) else {
        return Err(Answer::invalid("PullRequest", "head", "head is not a branch"));
    };
    if from == to {
        let says = format!("No commits between {base} and {head}");
        return Err(Answer::invalid("PullRequest", "head", &says));
    }
    let pull = Pull {
        number: i64::try_from(repo.pulls.len()).unwrap() + 1,
        branch: head,
        base: to.clone(),
        open: true,
        draft: false,
        author,
        fork: None,
        renames: Vec::new(),
    };
    let answer = pull.json(repo, &call.base);
    repo.pulls.push(pull);
    Ok(Answer::json(201, &answer))
}

/// `GET /repos/O/R/pulls`: newest first.
pub(super) fn list(state: &mut State, call: &Call, _: &Who, repo: i64, _: &[&str]) -> Answered {
    let repo = state.repo(repo);
    let wanted = call.query.get("state").map_or("open", String::as_str);
    let fits = |pull: &&Pull| wanted == "all" || pull.open == (wanted == "open");
    let all = repo.pulls.iter().rev().filter(fits);
    let all: Vec<Json> = all.map(|pull| pull.json(repo, &call.base)).collect();
    call.page(&all)
}

/// `GET /repos/O/R/pulls/N`
pub(super) fn one(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let repo = state.repo(repo);
    ok(&find(repo, rest[1])?.json(repo, &call.base))
}

/// `GET /repos/O/R/pulls/N/files`
pub(super) fn files(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let repo = state.repo(repo);
    call.page(&find(repo, rest[1])?.files(repo))
}

fn find<'r>(repo: &'r Repo, number: &str) -> Result<&'r Pull, Answer> {
    let found = repo.pulls.iter().find(|pull| pull.number.to_string() == number);
    found.ok_or_else(Answer::not_found)
}
