//! Check runs. GitHub takes fifty annotations in a request and adds them to the existing ones; so the first fifty come
//! with the run, the others after it, and none twice.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::forge::Forge;
use crate::forge::check::{Annotation, CheckRun, Conclusion};
use crate::forge::error::ForgeError;
use crate::forge::github::client::{CreatedObject, GitHubClient};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, LARGE, RequestSubject};
use crate::model::id::{CommitSha, RepoName};
use crate::support::percent::encode_segment;
use crate::support::text::{truncate_bytes, truncate_chars};

/// GitHub takes no more in a request.
const ANNOTATIONS: usize = 50;
/// Characters of a summary, and of a text.
const LONG_TEXT: usize = 65_535;
/// Characters of an annotation's title.
const TITLE: usize = 255;
/// Bytes of an annotation's message.
const MESSAGE: usize = 64 * 1024;
/// A thousand runs of one name at one commit, or a thousand annotations.
const PAGES: usize = 10;

/// A check run as GitHub takes it.
#[derive(Serialize)]
struct Body<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_sha: Option<&'a CommitSha>,
    external_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusion: Option<Conclusion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_url: Option<&'a str>,
    output: Output,
}

#[derive(Serialize)]
struct Output {
    title: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Note>,
}

/// An annotation, both ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    path: String,
    start_line: u32,
    end_line: u32,
    annotation_level: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

impl Forge {
    /// Makes a check run; its number, by which it is changed. The local host has none.
    ///
    /// # Errors
    /// [`ForgeError`]; after any of them look with [`Forge::find_check`]: it may be there, and lack
    /// annotations, which [`Forge::update_check`] adds.
    pub async fn create_check(
        &self,
        repository: &RepoName,
        check: &CheckRun,
    ) -> Result<i64, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(0) };
        let mut notes = notes(check);
        let later = notes.split_off(notes.len().min(ANNOTATIONS));
        let body = Body { head_sha: Some(&check.head), ..Body::of(check, notes) };
        let route = format!("/repos/{repository}/check-runs");
        let (subject, permission) =
            (RequestSubject::Repository(repository), Permission::WRITE_CHECKS);
        let call = ApiCall::write(subject, permission, Method::POST, route, &body);
        let CreatedObject { id } = github.read(call.at_most(LARGE).yielding()).await?;
        github.annotate(repository, id, check, &later).await?;
        Ok(id)
    }

    /// Makes a check run say something else. May be repeated: annotations that are there are not
    /// added again.
    pub async fn update_check(
        &self,
        repository: &RepoName,
        id: i64,
        check: &CheckRun,
    ) -> Result<(), ForgeError> {
        let Self::GitHub(github) = self else { return Ok(()) };
        let mut notes = notes(check);
        if !notes.is_empty() {
            let route = format!("{}/annotations", route(repository, id));
            let present: Vec<Note> = github.read_all(reading(repository, route), PAGES).await?;
            notes.retain(|note| !present.contains(note));
        }
        let later = notes.split_off(notes.len().min(ANNOTATIONS));
        github.done(patch(repository, id, &Body::of(check, notes))).await?;
        github.annotate(repository, id, check, &later).await
    }

    /// Finds the newest check run of that name at the commit with the service's own id.
    pub async fn find_check(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        name: &str,
        external_id: &str,
    ) -> Result<Option<i64>, ForgeError> {
        #[derive(Deserialize)]
        struct Run {
            id: i64,
            external_id: Option<String>,
        }
        let Self::GitHub(github) = self else { return Ok(None) };
        let name = encode_segment(&truncate_chars(name, TITLE));
        let route =
            format!("/repos/{repository}/commits/{commit}/check-runs?check_name={name}&filter=all");
        let runs: Vec<Run> = github.read_all(reading(repository, route), PAGES).await?;
        let own_runs =
            runs.into_iter().filter(|run| run.external_id.as_deref() == Some(external_id));
        Ok(own_runs.map(|run| run.id).max())
    }
}

impl GitHubClient {
    /// Adds annotations, fifty at a time.
    async fn annotate(
        &self,
        repository: &RepoName,
        id: i64,
        check: &CheckRun,
        notes: &[Note],
    ) -> Result<(), ForgeError> {
        for batch in notes.chunks(ANNOTATIONS) {
            let body = json!({"output": Output::of(check, batch.to_vec())});
            self.done(patch(repository, id, &body)).await?;
        }
        Ok(())
    }
}

fn route(repository: &RepoName, id: i64) -> String {
    format!("/repos/{repository}/check-runs/{id}")
}

fn reading(repository: &RepoName, route: String) -> ApiCall<'_> {
    ApiCall::get(RequestSubject::Repository(repository), Permission::READ_CHECKS, route)
}

fn patch<'a>(repository: &'a RepoName, id: i64, body: &impl Serialize) -> ApiCall<'a> {
    let (subject, permission) = (RequestSubject::Repository(repository), Permission::WRITE_CHECKS);
    ApiCall::write(subject, permission, Method::PATCH, route(repository, id), body).yielding()
}

fn notes(check: &CheckRun) -> Vec<Note> {
    check.annotations.iter().map(Note::of).collect()
}

impl<'a> Body<'a> {
    fn of(check: &'a CheckRun, notes: Vec<Note>) -> Self {
        let status = if check.conclusion.is_some() { "completed" } else { "in_progress" };
        Self {
            name: truncate_chars(&check.name, TITLE).into_owned(),
            head_sha: None,
            external_id: &check.external_id,
            status,
            conclusion: check.conclusion,
            details_url: check.details_url.as_deref(),
            output: Output::of(check, notes),
        }
    }
}

impl Output {
    fn of(check: &CheckRun, annotations: Vec<Note>) -> Self {
        Self {
            title: truncate_chars(&check.title, TITLE).into_owned(),
            summary: truncate_chars(&check.summary, LONG_TEXT).into_owned(),
            text: check.text.as_deref().map(|text| truncate_chars(text, LONG_TEXT).into_owned()),
            annotations,
        }
    }
}

impl Note {
    fn of(annotation: &Annotation) -> Self {
        let Annotation { path, line, level, title, message } = annotation;
        let line = (*line).max(1);
        Self {
            path: path.clone(),
            start_line: line,
            end_line: line,
            annotation_level: level.as_str().to_owned(),
            title: Some(truncate_chars(title, TITLE).into_owned()),
            message: Some(truncate_bytes(message, MESSAGE).into_owned()),
        }
    }
}
