//! The shape of a `deployment` event, as far as it is used. Everything else GitHub sends, now or
//! later, is skipped unread.

use serde::Deserialize;

use crate::forge::github::webhook::field::{
    DeploymentFields, MalformedPayload, PayloadField, field_error, id,
};
use crate::model::id::{AppName, RepoName};

/// The field that names an app, as an error calls it.
const APP: &str = "deployment.payload.app";
/// GitHub's own bound for a login is 39; a person of an Enterprise has an underscore and more.
const LOGIN_CHARACTERS: usize = 60;

/// The event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    pub(super) action: PayloadField,
    pub(super) deployment: Option<DeploymentPayload>,
    pub(super) repository: Option<RepositoryPayload>,
    pub(super) sender: Option<User>,
}

/// `deployment` of the event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeploymentPayload {
    pub(super) id: PayloadField,
    pub(super) sha: PayloadField,
    #[serde(rename = "ref")]
    pub(super) git_ref: PayloadField,
    pub(super) task: PayloadField,
    pub(super) environment: PayloadField,
    pub(super) description: PayloadField,
    pub(super) creator: Option<User>,
    /// The payload of the deployment's creator, unchanged: an object, a text, or nothing.
    pub(super) payload: PayloadField,
    pub(super) production_environment: PayloadField,
    pub(super) created_at: PayloadField,
    pub(super) repository_url: PayloadField,
}

/// `repository` of the event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RepositoryPayload {
    pub(super) id: PayloadField,
    pub(super) full_name: PayloadField,
    pub(super) owner: Option<User>,
    /// The time of the last push, in push events.
    pub(super) pushed_at: PayloadField,
}

/// A user, by login.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: PayloadField,
    pub(super) login: PayloadField,
    /// `User`, `Bot` or `Organization`.
    #[serde(rename = "type")]
    pub(super) kind: PayloadField,
}

/// Reads the outer shape of any event.
pub(super) fn shape<'d, T: Deserialize<'d>>(document: &'d [u8]) -> Result<T, MalformedPayload> {
    serde_json::from_slice(document).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // The parser's own text quotes values; a place is enough.
        match error.classify() {
            serde_json::error::Category::Data => MalformedPayload::Shape { line, column },
            _ => MalformedPayload::NotJson { line, column },
        }
    })
}

/// Returns the repository that an event names.
pub(super) fn repository(
    repository: Option<&RepositoryPayload>,
) -> Result<RepoName, MalformedPayload> {
    let repository = repository.ok_or_else(|| field_error("repository", "is missing"))?;
    repository.full_name.id("repository.full_name", RepoName::parse)
}

impl DeploymentPayload {
    /// Returns whether its creator meant to name a tag, be it a legal one or not.
    pub(super) fn names_a_tag(&self) -> bool {
        self.parse_payload().map_or(true, |fields| fields.tag != PayloadField::Absent)
    }

    /// Returns the tag that the creator of the deployment named, if any.
    pub(super) fn tag(&self) -> Result<Option<String>, MalformedPayload> {
        let fields = self.parse_payload()?;
        Ok(fields.tag.text("deployment.payload.tag")?.map(str::to_owned))
    }

    /// Returns the app that the creator of the deployment named, where the repository has several.
    pub(super) fn app(&self) -> Result<Option<AppName>, MalformedPayload> {
        let fields = self.parse_payload()?;
        let name = fields.app.text(APP)?;
        name.map(|name| id(APP, name, AppName::parse)).transpose()
    }

    /// Returns the login that the creator of the deployment named as the person behind it, if it has the form of one.
    /// Another text is ignored: a deployment does not fail for it.
    pub(super) fn actor(&self) -> Option<String> {
        let PayloadField::Text(login) = self.parse_payload().ok()?.actor else { return None };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        ((1..=LOGIN_CHARACTERS).contains(&login.len()) && login.chars().all(legal)).then_some(login)
    }

    /// Returns the rollout that the creator of the deployment wants to start, as JSON; `None` where it is none.
    pub(super) fn rollout(&self) -> Result<Option<String>, MalformedPayload> {
        Ok(self.parse_payload()?.rollout)
    }

    /// Reads the creator's payload. Programs that post forms send the object as JSON in a text; a text of another kind is
    /// for people.
    fn parse_payload(&self) -> Result<DeploymentFields, MalformedPayload> {
        match &self.payload {
            PayloadField::Object(fields) => Ok(*fields.clone()),
            PayloadField::Text(text) if text.trim_start().starts_with('{') => {
                match serde_json::from_str(text) {
                    Ok(PayloadField::Object(fields)) => Ok(*fields),
                    Ok(_) => Ok(DeploymentFields::default()),
                    Err(_) => Err(field_error(
                        "deployment.payload",
                        "begins like JSON and is not; fix or drop it",
                    )),
                }
            }
            _ => Ok(DeploymentFields::default()),
        }
    }
}
