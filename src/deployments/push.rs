//! PUSH: rendered manifests become one commit in the manifest repository.
//!
//! The only stage with effects, and the only file of the pipeline that knows git.

use jiff::Timestamp;

use crate::git::writer::{
    ManifestRepository, Note, OnItsWay, ProjectFile, Watch, Write, WriteError, Written,
};
use crate::manifests::argocd::application::{About, Source};
use crate::manifests::argocd::{application, project};
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::id::DeployId;
use crate::model::revision::Revision;
use crate::pipeline::render::Rendered;
use crate::support::lease::Lease;
use crate::waml::Waml;

/// What is to be pushed: decided, and not yet done.
#[derive(Debug, Clone)]
#[must_use = "a change does nothing until it is pushed"]
pub struct Change {
    write: Write,
}

impl Change {
    /// Puts together the files of a deployment, its app's Application, and what the commit says.
    pub fn new(
        rendered: &Rendered,
        waml: &Waml,
        id: &DeployId,
        request: &DeploymentRequest,
        source: &Source,
        forge_url: Option<&str>,
    ) -> Self {
        let about = About {
            app: &rendered.app,
            owner: &waml.owner,
            slack: waml.slack.as_deref(),
            repository: &request.release.repository,
            forge_url,
            links: &waml.links,
            autoscaled: &rendered.autoscaled,
        };
        let revision = Revision {
            id: id.clone(),
            app: rendered.app.clone(),
            target: rendered.target.name.clone(),
            files: rendered.files.clone(),
            digest: rendered.digest.clone(),
        };
        let note = Note {
            tag: request.release.tag.clone(),
            repository: request.release.repository.clone(),
            repository_number: request.identity.map(|identity| identity.repository),
            commit: request.release.commit.clone(),
            actor: request.actor.clone(),
            template: rendered.template.clone(),
            templates_commit: rendered.templates_commit.clone(),
            reason: request.description.clone(),
        };
        let application = Some(application::of_app(&about, &rendered.target, source));
        let parent = Some(application::of_cluster(&rendered.target, source));
        let project = project::of_cluster(&rendered.target, source);
        let project =
            project.map(|bytes| ProjectFile { bytes, follow: project::with_destinations });
        let hand_edits = Watch::new(rendered.target.policies.hand_edits);
        Self { write: Write { revision, application, project, parent, note, hand_edits } }
    }

    /// The revision that will be written.
    pub fn revision(&self) -> &Revision {
        &self.write.revision
    }
}

/// Pushes a change. Doing it again does nothing: the deploy id says what was done. Beside how it
/// ended, what somebody had edited by hand where it wrote or was to write, and what became of that.
///
/// # Errors
/// Why the repository did not take it, and whether trying again can help.
pub async fn push(
    repository: &ManifestRepository,
    change: Change,
    at: Timestamp,
    lease: &Lease,
    on_its_way: OnItsWay,
) -> (Result<Written, WriteError>, Option<HandEdit>) {
    let hand_edits = change.write.hand_edits.clone();
    let ended = repository.write_announced(change.write, at, lease, Some(on_its_way)).await;
    (ended, hand_edits.found())
}
