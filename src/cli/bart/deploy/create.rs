//! Creates deployments one after the other. After a refusal the rest is not created, and the message lists both.

use std::collections::BTreeMap;

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::follow::FollowedDeployment;
use super::github::{GitHubSession, ReleaseToDeploy};
use crate::api::deployments::{DeployAnswer, DeployRequest};
use crate::cli::client::{self, ServiceEndpoint};
use crate::cli::context;
use crate::cli::error::CliError;
use crate::cli::host::Host;
use crate::cli::output::NOTE;
use crate::cli::settings::logins;
use crate::config;
use crate::model::id::{ImageTag, TargetName};
use crate::support::clock;

/// The variable with bart's own GitHub token.
const OURS: &str = "BART_GITHUB_TOKEN";
/// The variables of other programs, in order of precedence. They are only for a GitHub that is known without the
/// service.
const OTHERS: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
const UNUSED: &str = ": GH_TOKEN and GITHUB_TOKEN go to github.com, and to where the git remote is";
const GITHUB: &str = "https://api.github.com";

/// The service or code host that creates the deployments.
pub(super) enum CreationTarget<'a> {
    GitHub(GitHubSession),
    Service(&'a ServiceEndpoint),
}

/// The result of creating deployments.
#[derive(Debug)]
pub(super) struct Set {
    /// The deployments that were created.
    pub(super) created: Vec<FollowedDeployment>,
    /// The targets without a deployment.
    pub(super) left: Vec<TargetName>,
    /// The error of the first of them; `None` after Ctrl-C.
    pub(super) failure: Option<CliError>,
}

impl<'a> CreationTarget<'a> {
    /// Makes the target for that host. A GitHub token never goes in the clear, nor to a host that an attacker on the
    /// way to the service could name.
    pub(super) fn new(host: Host, server: &'a ServiceEndpoint) -> Result<Self, CliError> {
        Ok(match host {
            Host::Local => Self::Service(server),
            Host::GitHub { api_url, .. } => {
                client::only_safely(&api_url)?;
                let is_known_host = is_known(&api_url, context::remote_host().as_deref());
                let token = token(&config::environment(), server, &api_url, is_known_host)?;
                Self::GitHub(GitHubSession { api_url, token })
            }
        })
    }

    /// Creates the deployments, until one is refused or the person presses Ctrl-C. It always waits for an answer, so
    /// that none is left half-done.
    pub(super) async fn create_all(
        &self,
        release: &ReleaseToDeploy<'_>,
        targets: &[TargetName],
        stop: &CancellationToken,
    ) -> Set {
        let mut creations = Set { created: Vec::new(), left: targets.to_vec(), failure: None };
        while let Some(target) = creations.left.first().filter(|_| !stop.is_cancelled()) {
            match self.create(release, target).await {
                Ok(created) => {
                    creations.created.push(created);
                    creations.left.remove(0);
                }
                Err(error) => {
                    creations.failure = Some(error);
                    break;
                }
            }
        }
        creations
    }

    async fn create(
        &self,
        release: &ReleaseToDeploy<'_>,
        target: &TargetName,
    ) -> Result<FollowedDeployment, CliError> {
        let ReleaseToDeploy { repository, git_ref, app, tag, description, contexts, .. } = *release;
        let (forge_id, id) = match self {
            Self::GitHub(github) => (github.create(release, target).await?, None),
            Self::Service(server) => {
                let request = DeployRequest {
                    repository: repository.to_string(),
                    git_ref: git_ref.to_owned(),
                    tag: tag.to_string(),
                    target: target.to_string(),
                    app_name: app.map(ToString::to_string),
                    description: Some(description.to_owned()),
                    required_contexts: contexts.unwrap_or_default().to_vec(),
                    require_all_contexts: contexts.is_none(),
                };
                let answer: DeployAnswer = server.post("/api/v1/deployments", &request).await?;
                (answer.forge_id, answer.id)
            }
        };
        Ok(FollowedDeployment { target: target.to_string(), forge_id, id })
    }
}

impl Set {
    /// Describes what was created and what was not, if it is only a part.
    pub(super) fn part(&self, tag: &ImageTag, git_ref: &str) -> Option<String> {
        let Self { created, left, failure: _ } = self;
        if created.is_empty() || left.is_empty() {
            return None;
        }
        let created: Vec<&str> =
            created.iter().map(|deployment| deployment.target.as_str()).collect();
        let left: Vec<&str> = left.iter().map(TargetName::as_str).collect();
        Some(format!(
            "{NOTE}note{NOTE:#}: deployments were created for {}, and none for {}\n\
             {NOTE}help{NOTE:#}: for the rest: `bart deploy {tag} {} --ref {git_ref}`\n",
            created.join(", "),
            left.join(", "),
            left.join(" "),
        ))
    }
}

/// Returns whether that is github.com, or the host of the git remote. Pure.
fn is_known(api_url: &str, remote_host: Option<&str>) -> bool {
    let host = reqwest::Url::parse(api_url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
    let (Some(host), Some(remote)) = (host, remote_host) else { return api_url == GITHUB };
    api_url == GITHUB || host == remote || host == format!("api.{remote}")
}

/// Returns the variable that counts. Pure.
pub(in crate::cli::bart) fn pick_variable(
    environment: &BTreeMap<String, String>,
    is_known_host: bool,
) -> Option<&str> {
    let value = |name: &str| environment.get(name).map(|v| v.trim()).filter(|v| !v.is_empty());
    let other_tools = || OTHERS.iter().filter(|_| is_known_host).find_map(|name| value(name));
    value(OURS).or_else(other_tools)
}

/// Returns the developer's GitHub token: of the environment, else of the login. A service can name any host as its
/// GitHub, so tokens of other programs go only to a host that is known otherwise.
fn token(
    environment: &BTreeMap<String, String>,
    server: &ServiceEndpoint,
    api_url: &str,
    is_known_host: bool,
) -> Result<SecretString, CliError> {
    if !is_known_host {
        client::only_safely(server.url())?;
    }
    let login = logins::at(server.url())?;
    let is_login = login.as_ref().is_some_and(|login| login.api_url == api_url);
    if let Some(token) = pick_variable(environment, is_known_host || is_login) {
        return Ok(token.into());
    }
    let missing = |message: String| {
        CliError::usage(message).hint("log in with `bart login`, or set BART_GITHUB_TOKEN")
    };
    let login = login.ok_or_else(|| {
        let unused = pick_variable(environment, true).map_or("", |_| UNUSED);
        missing(format!("there is no GitHub token for {api_url}{unused}"))
    })?;
    if login.api_url != api_url {
        let other_url = login.api_url;
        return Err(missing(format!(
            "the login is for {other_url}, and the repositories are at {api_url}"
        )));
    }
    let now = clock::Clock::system().now();
    if login.until.is_some_and(|until| until <= now) {
        return Err(missing(format!("the login of {} has expired", login.name)));
    }
    Ok(login.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_other_tools_go_to_a_github_that_is_known() {
        for (api_url, remote, expected) in [
            ("https://api.github.com", None, true),
            ("https://api.github.com", Some("github.example.com"), true),
            ("https://github.example.com/api/v3", Some("github.example.com"), true),
            ("https://api.acme.ghe.com", Some("acme.ghe.com"), true),
            ("https://github.example.com/api/v3", Some("github.com"), false),
            ("https://github.com.evil.example/api/v3", Some("github.com"), false),
            ("https://evil.example/api/v3", None, false),
            ("https://api.github.com.evil.example", None, false),
            ("http://api.github.com", None, false),
        ] {
            assert_eq!(is_known(api_url, remote), expected, "{api_url} {remote:?}");
        }
        let environment = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let others = environment(&[("GH_TOKEN", " "), ("GITHUB_TOKEN", "b"), ("X", "y")]);
        assert_eq!(
            (pick_variable(&others, true), pick_variable(&others, false)),
            (Some("b"), None)
        );
        let bart_only = environment(&[("GH_TOKEN", "a"), ("BART_GITHUB_TOKEN", "c\n")]);
        assert_eq!(
            (pick_variable(&bart_only, true), pick_variable(&bart_only, false)),
            (Some("c"), Some("c"))
        );
    }

    #[test]
    fn nobody_on_the_way_to_the_service_names_the_github() {
        let server = ServiceEndpoint::at("http://deployer.example.com", None);
        let environment = [("BART_GITHUB_TOKEN".to_owned(), "t".to_owned())].into();
        let error = token(&environment, &server, "https://evil.example/api/v3", false).unwrap_err();
        assert!(error.to_string().contains("in the clear"), "{error}");
    }

    #[test]
    fn a_part_of_a_set_is_told_with_the_way_on() {
        let tag = ImageTag::parse("1.0").unwrap();
        let deployment = FollowedDeployment { target: "dev".to_owned(), forge_id: 7, id: None };
        let left = vec![TargetName::parse("prod-1").unwrap(), TargetName::parse("prod-2").unwrap()];
        let creations = Set { created: vec![deployment], left, failure: None };
        let text = anstream::adapter::strip_str(&creations.part(&tag, "main").unwrap()).to_string();
        assert!(text.contains("created for dev, and none for prod-1, prod-2"), "{text}");
        assert!(text.contains("`bart deploy 1.0 prod-1 prod-2 --ref main`"), "{text}");
        let complete = Set { left: Vec::new(), ..creations };
        assert_eq!(complete.part(&tag, "main"), None);
    }
}
