//! Repositories, commits, files, branches.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::app::Who;
use crate::harness::github::call::Call;
use crate::harness::github::people;
use crate::harness::github::state::{Repo, State};

/// Beyond this a file comes only raw.
const MAX_IN_JSON: usize = 1024 * 1024;

/// A commit, with every file of its tree.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) parent: Option<String>,
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// How often it is still not found.
    pub(super) hidden: u32,
}

/// A new commit on a branch: the files of the branch, or of `main`, with those changed.
pub(super) fn add_commit(
    state: &mut State,
    id: i64,
    branch: &str,
    changes: &[(&str, Option<&str>)],
) -> String {
    let (number, hidden) = (state.next_id(), state.late);
    let repo = state.repo_mut(id);
    let parent = repo.branches.get(branch).or_else(|| repo.branches.get("main")).cloned();
    let mut files = parent.as_ref().map_or_else(BTreeMap::new, |at| repo.commits[at].files.clone());
    for (path, text) in changes {
        match text {
            Some(text) => files.insert((*path).to_owned(), text.as_bytes().to_vec()),
            None => files.remove(*path),
        };
    }
    let sha = sha(&format!("{id} {number} {parent:?} {files:?}"));
    repo.commits.insert(sha.clone(), Commit { parent, files, hidden });
    repo.branches.insert(branch.to_owned(), sha.clone());
    sha
}

/// Forty hexadecimal digits of what was given.
pub(super) fn sha(of: &str) -> String {
    hex::encode(Sha256::digest(of.as_bytes()))[..40].to_owned()
}

impl Repo {
    /// The commit that a branch's name or a sha means.
    pub(super) fn resolve(&self, git_ref: &str) -> Option<String> {
        let name = git_ref.trim_start_matches("refs/heads/");
        let branch = self.branches.get(name).cloned();
        branch.or_else(|| self.commits.contains_key(git_ref).then(|| git_ref.to_owned()))
    }

    /// The same for one who asks from outside: late consistency counts as one look.
    pub(super) fn found(&mut self, git_ref: &str) -> Option<String> {
        let sha = self.resolve(git_ref)?;
        let commit = self.commits.get_mut(&sha).unwrap();
        if commit.hidden > 0 {
            commit.hidden -= 1;
            return None;
        }
        Some(sha)
    }

    fn history(&self, sha: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut next = Some(sha.to_owned());
        while let Some(sha) = next {
            let parent = self.commits[&sha].parent.clone();
            seen.insert(sha);
            next = parent;
        }
        seen
    }
}

/// `GET /repos/O/R`
pub(super) fn this(state: &mut State, call: &Call, who: &Who, repo: i64, _: &[&str]) -> Answered {
    let mut json = state.repo(repo).json(&call.base);
    if let Some(permissions) = people::permissions(state, who, repo) {
        json["permissions"] = permissions;
    }
    ok(&json)
}

/// `GET /repos/O/R/contents/PATH?ref=`
pub(super) fn contents(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let repo = state.repo_mut(repo);
    let git_ref = call.query.get("ref").map_or("main", String::as_str);
    let none = || Answer::refusal(404, &format!("No commit found for the ref {git_ref}"));
    let sha = repo.found(git_ref).ok_or_else(none)?;
    let path = rest[1..].join("/");
    let Some(bytes) = repo.commits[&sha].files.get(&path) else {
        return folder(&repo.commits[&sha].files, &path);
    };
    let tag = self::sha(&format!("{bytes:?}"));
    let answer = if call.header("accept").is_some_and(|accept| accept.contains("raw")) {
        Answer { status: 200, headers: Vec::new(), body: bytes.clone() }
            .with("content-type", "application/vnd.github.raw+json; charset=utf-8")
    } else {
        Answer::json(200, &file_json(&path, &tag, bytes))
    };
    Ok(answer.with("etag", format!("\"{tag}\"")))
}

/// The same where the path is a folder: its files and folders, at most a thousand.
fn folder(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Answered {
    let below = |file: &String| file.strip_prefix(path)?.strip_prefix('/').map(str::to_owned);
    let mut entries = BTreeMap::new();
    for rest in files.keys().filter_map(below) {
        match rest.split_once('/') {
            Some((folder, _)) => entries.insert(folder.to_owned(), "dir"),
            None => entries.insert(rest, "file"),
        };
    }
    if entries.is_empty() {
        return Err(Answer::not_found());
    }
    let entry = |(name, kind): (String, &str)| json!({"type": kind, "name": name, "path": format!("{path}/{name}"), "size": 0});
    Ok(Answer::json(
        200,
        &Json::from(entries.into_iter().take(1000).map(entry).collect::<Vec<_>>()),
    ))
}

/// `PUT /repos/O/R/contents/PATH`: one that was changed meanwhile is refused.
pub(super) fn put_contents(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let path = rest[1..].join("/");
    let branch = call.required("Contents", "branch")?;
    let (sha, content) = (call.text("sha"), call.required("Contents", "content")?);
    call.required("Contents", "message")?;
    let head = state.repo(repo).branches.get(&branch).cloned();
    let head = head.ok_or_else(|| Answer::refusal(404, &format!("Branch {branch} not found")))?;
    let before =
        state.repo(repo).commits[&head].files.get(&path).map(|b| self::sha(&format!("{b:?}")));
    if before != sha {
        let says = format!("{path} does not match {}", sha.unwrap_or_default());
        return Err(Answer::refusal(409, &says));
    }
    let bytes = STANDARD
        .decode(content)
        .map_err(|_| Answer::refusal(422, "content is not valid Base64"))?;
    let text = String::from_utf8(bytes).unwrap();
    let commit = add_commit(state, repo, &branch, &[(path.as_str(), Some(&text))]);
    ok(&json!({"content": {"path": path}, "commit": {"sha": commit}}))
}

/// `POST /repos/O/R/git/refs`
pub(super) fn create_ref(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    _: &[&str],
) -> Answered {
    let (name, sha) = (call.required("Reference", "ref")?, call.required("Reference", "sha")?);
    let branch = name.strip_prefix("refs/heads/").ok_or_else(Answer::not_found)?.to_owned();
    let repo = state.repo_mut(repo);
    if repo.branches.contains_key(&branch) {
        return Err(Answer::refusal(422, "Reference already exists"));
    }
    if !repo.commits.contains_key(&sha) {
        return Err(Answer::refusal(422, "Object does not exist"));
    }
    repo.branches.insert(branch, sha.clone());
    Ok(Answer::json(201, &json!({"ref": name, "object": {"type": "commit", "sha": sha}})))
}

/// `DELETE /repos/O/R/git/refs/heads/NAME`
pub(super) fn delete_branch(
    state: &mut State,
    _: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let removed = state.repo_mut(repo).branches.remove(&rest[3..].join("/"));
    removed.ok_or_else(|| Answer::refusal(422, "Reference does not exist"))?;
    Ok(Answer { status: 204, headers: Vec::new(), body: Vec::new() })
}

fn file_json(path: &str, blob: &str, bytes: &[u8]) -> Json {
    let small = bytes.len() <= MAX_IN_JSON;
    let content = if small { STANDARD.encode(bytes) } else { String::new() };
    let encoding = if small { "base64" } else { "none" };
    json!({
        "type": "file", "path": path, "name": path.rsplit('/').next(), "sha": blob,
        "size": bytes.len(), "encoding": encoding, "content": content,
    })
}

/// `GET /repos/O/R/branches`
pub(super) fn branches(state: &mut State, call: &Call, _: &Who, repo: i64, _: &[&str]) -> Answered {
    let branch = |(name, sha): (&String, &String)| branch_json(name, sha);
    let all: Vec<Json> = state.repo(repo).branches.iter().map(branch).collect();
    call.page(&all)
}

/// `GET /repos/O/R/branches/NAME`
pub(super) fn branch(state: &mut State, _: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let name = rest[1..].join("/");
    let missing = || Answer::refusal(404, "Branch not found");
    let sha = state.repo(repo).branches.get(&name).ok_or_else(missing)?;
    ok(&branch_json(&name, sha))
}

fn branch_json(name: &str, sha: &str) -> Json {
    json!({"name": name, "commit": {"sha": sha}, "protected": false})
}

/// `GET /repos/O/R/commits/SHA`
pub(super) fn commit(state: &mut State, _: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let repo = state.repo_mut(repo);
    let none = || Answer::refusal(422, &format!("No commit found for SHA: {}", rest[1]));
    let sha = repo.found(rest[1]).ok_or_else(none)?;
    let parents: Vec<Json> =
        repo.commits[&sha].parent.iter().map(|parent| json!({"sha": parent})).collect();
    ok(&json!({"sha": sha, "parents": parents, "commit": {"message": "a change"}}))
}

/// `GET /repos/O/R/compare/BASE...HEAD`
pub(super) fn compare(state: &mut State, _: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let repo = state.repo(repo);
    let both = rest[1..].join("/");
    let (base, head) = both.split_once("...").ok_or_else(Answer::not_found)?;
    let base = repo.resolve(base).ok_or_else(Answer::not_found)?;
    let head = repo.resolve(head).ok_or_else(Answer::not_found)?;
    let (in_base, in_head) = (repo.history(&base), repo.history(&head));
    if in_base.is_disjoint(&in_head) {
        let says = format!("No common ancestor between {base} and {head}.");
        return Err(Answer::refusal(404, &says));
    }
    let ahead = in_head.difference(&in_base).count();
    let behind = in_base.difference(&in_head).count();
    let status = match (ahead, behind) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    ok(&json!({
        "status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead,
        "commits": [], "files": [],
    }))
}

/// What a new repository begins with; it is found at once, however late others are.
pub(super) fn first_commit(state: &mut State, id: i64) {
    let sha = add_commit(state, id, "main", &[("README.md", Some("A service.\n"))]);
    state.repo_mut(id).commits.get_mut(&sha).unwrap().hidden = 0;
}
