//! Comments on pull requests, which GitHub keeps as those of issues.

use serde_json::{Value as Json, json};

use crate::harness::github::Repository;
use crate::harness::github::answer::{Answer, Answered, created, ok};
use crate::harness::github::app::{Grant, Who};
use crate::harness::github::call::Call;
use crate::harness::github::state::{State, user};

/// Characters of a comment.
const MAX_TEXT: usize = 65_536;

/// One comment.
#[derive(Debug, Clone)]
pub(super) struct Comment {
    id: i64,
    number: i64,
    author: String,
    /// Written by the App.
    by_app: bool,
    body: String,
}

impl Comment {
    fn json(&self) -> Json {
        let app = json!({"id": 424_242, "client_id": "Iv1.deployer", "slug": "the-deployer"});
        json!({
            "id": self.id, "body": self.body, "user": user(&self.author),
            "performed_via_github_app": if self.by_app { app } else { Json::Null },
        })
    }
}

/// `GET /repos/O/R/issues/N/comments`: oldest first.
pub(super) fn list(state: &mut State, call: &Call, _: &Who, repo: i64, rest: &[&str]) -> Answered {
    let number = pull(state, repo, rest[1])?;
    let comments = state.repo(repo).comments.iter().filter(|one| one.number == number);
    let all: Vec<Json> = comments.map(Comment::json).collect();
    call.page(&all)
}

/// `POST /repos/O/R/issues/N/comments`
pub(super) fn create(
    state: &mut State,
    call: &Call,
    who: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let (number, body) = (pull(state, repo, rest[1])?, text(call)?);
    let by_app = matches!(who, Who::Token(Grant::Installation { .. }));
    let comment = Comment { id: state.next_id(), number, author: who.login(), by_app, body };
    let answer = comment.json();
    state.repo_mut(repo).comments.push(comment);
    created(&answer)
}

/// `PATCH /repos/O/R/issues/comments/ID`
pub(super) fn update(
    state: &mut State,
    call: &Call,
    _: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let body = text(call)?;
    let mut comments = state.repo_mut(repo).comments.iter_mut();
    let comment = comments.find(|one| one.id.to_string() == rest[2]);
    let comment = comment.ok_or_else(Answer::not_found)?;
    comment.body = body;
    ok(&comment.json())
}

fn text(call: &Call) -> Result<String, Answer> {
    let body = call.required("IssueComment", "body")?;
    if body.chars().count() > MAX_TEXT {
        let says = format!("body is too long (maximum is {MAX_TEXT} characters)");
        return Err(Answer::invalid("IssueComment", "body", &says));
    }
    Ok(body)
}

fn pull(state: &State, repo: i64, number: &str) -> Result<i64, Answer> {
    let pulls = &state.repo(repo).pulls;
    let found = pulls.iter().find(|pull| pull.number.to_string() == number);
    found.map(|pull| pull.number).ok_or_else(Answer::not_found)
}

impl Repository<'_> {
    /// The comments of a pull request: number, author and text, oldest first.
    pub(crate) fn comments(&self, number: i64) -> Vec<(i64, String, String)> {
        let state = self.world.state();
        let of_it = state.repo(self.id).comments.iter().filter(|one| one.number == number);
        of_it.map(|one| (one.id, one.author.clone(), one.body.clone())).collect()
    }

    /// Somebody writes a comment.
    pub(crate) fn is_commented(&self, number: i64, author: &str, body: &str) {
        let mut state = self.world.state();
        let (id, author, body) = (state.next_id(), author.to_owned(), body.to_owned());
        state.repo_mut(self.id).comments.push(Comment { id, number, author, by_app: false, body });
    }

    /// A person deletes all comments of a pull request.
    pub(crate) fn loses_comments(&self, number: i64) {
        self.world.state().repo_mut(self.id).comments.retain(|one| one.number != number);
    }
}
