//! A pull request with other weights: from the WAML of the default branch, since others may have changed the weights.

use crate::cli::bart::deploy::github::GitHubSession;
use crate::cli::bart::pull_request::{DefaultBranchWaml, ProposedWaml};
use crate::cli::error::CliError;
use crate::model::id::{AppName, RepoName, TargetName};
use crate::pipeline::weights::{EditedLine, VersionWeight, set_weights};
use crate::waml::Waml;

/// The weights that are proposed.
#[derive(Debug)]
pub(super) struct WeightProposal<'a> {
    pub(super) repository: &'a RepoName,
    /// The app, where the repository has several.
    pub(super) app: Option<&'a AppName>,
    pub(super) target: &'a TargetName,
    pub(super) weights: &'a [VersionWeight],
    /// The reason, for who reviews it.
    pub(super) reason: Option<&'a str>,
}

/// What has become of a proposal.
#[derive(Debug)]
pub(super) struct Proposed {
    /// The lines that change; none where the default branch has these weights already.
    pub(super) lines: Vec<EditedLine>,
    /// The path of the WAML.
    pub(super) path: String,
    /// The address of the pull request.
    pub(super) url: Option<String>,
}

impl WeightProposal<'_> {
    /// Opens the pull request, or only computes its lines.
    ///
    /// # Errors
    /// When GitHub refuses, or the WAML cannot have these weights.
    pub(super) async fn open(
        &self,
        github: &GitHubSession,
        dry_run: bool,
    ) -> Result<Proposed, CliError> {
        let base = DefaultBranchWaml::fetch(github, self.repository, self.app).await?;
        let path = base.path.clone();
        let waml = Waml::parse(&path, base.text.as_bytes()).map_err(|rejection| {
            let branch = &base.branch;
            CliError::refused(format!("{path} on {branch} cannot be read: {rejection}"))
        })?;
        let edit = set_weights(&base.text, &waml, self.target, self.weights)
            .map_err(|error| CliError::refused(error.message).hint(error.help))?;
        if dry_run || edit.lines.is_empty() {
            return Ok(Proposed { lines: edit.lines, path, url: None });
        }
        let proposed = ProposedWaml {
            text: &edit.text,
            branch: format!("traffic-{}", self.target),
            title: self.title(&waml),
            body: self.reason.unwrap_or_default().to_owned(),
        };
        let url = base.propose(github, proposed).await?;
        Ok(Proposed { lines: edit.lines, path, url: Some(url) })
    }

    fn title(&self, waml: &Waml) -> String {
        let weight = |one: &VersionWeight| format!("{}={}", one.version, one.percent);
        let weights: Vec<String> = self.weights.iter().map(weight).collect();
        format!("Traffic of {} on {}: {}", waml.app, self.target, weights.join(" "))
    }
}
