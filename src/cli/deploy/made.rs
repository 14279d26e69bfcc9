//! Deployments are asked for one after the other. When one cannot be, the rest is not asked for, and what was
//! and what was not is told.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::super::client::{self, Server};
use super::super::error::CliError;
use super::super::host::Host;
use super::super::output::{self, NOTE};
use super::super::settings::logins;
use super::follow::Made;
use super::github::{self, GitHub};
use crate::clock;
use crate::config;
use crate::model::id::{ImageTag, RepoName, TargetName};

/// The variables that may hold a GitHub token, the first goes first.
const VARIABLES: [&str; 3] = ["BART_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

/// What is to be deployed, to every target alike.
#[derive(Debug)]
pub(super) struct What<'a> {
    pub(super) repository: &'a RepoName,
    pub(super) git_ref: &'a str,
    pub(super) tag: &'a ImageTag,
    pub(super) description: &'a str,
    pub(super) contexts: Option<&'a [String]>,
    /// A glob.
    pub(super) production: &'a str,
}

/// Who is asked.
pub(super) struct Maker<'a> {
    forge: Forge<'a>,
    what: What<'a>,
}

enum Forge<'a> {
    GitHub(GitHub),
    Service(&'a Server),
}

/// What came of asking.
#[derive(Debug)]
pub(super) struct Set {
    /// Those that there are now.
    pub(super) made: Vec<Made>,
    /// The targets for which there is none.
    pub(super) left: Vec<TargetName>,
    /// Why there is none for the first of them; nothing, where somebody pressed Ctrl-C.
    pub(super) failure: Option<CliError>,
}

#[derive(Serialize)]
struct Ask<'a> {
    repository: &'a RepoName,
    #[serde(rename = "ref")]
    git_ref: &'a str,
    tag: &'a ImageTag,
    target: &'a TargetName,
    description: &'a str,
}

#[derive(Deserialize)]
struct Asked {
    id: String,
    forge_id: i64,
}

impl<'a> Maker<'a> {
    /// For that host.
    ///
    /// # Errors
    /// When there is no GitHub token, or it would go in the clear.
    pub(super) fn new(host: Host, server: &'a Server, what: What<'a>) -> Result<Self, CliError> {
        let forge = match host {
            Host::Local => Forge::Service(server),
            Host::GitHub { api_url, .. } => {
                client::only_safely(&api_url)?;
                let token = token(&config::environment(), server, &api_url)?;
                Forge::GitHub(GitHub { api_url, token })
            }
        };
        Ok(Self { forge, what })
    }

    /// Asks for all of them, until one is refused or somebody wants it to stop. None is left half-done: the
    /// answer to what was asked is waited for.
    pub(super) async fn all(&self, targets: &[TargetName], stop: &CancellationToken) -> Set {
        let mut set = Set { made: Vec::new(), left: targets.to_vec(), failure: None };
        while let Some(target) = set.left.first().filter(|_| !stop.is_cancelled()) {
            match self.one(target).await {
                Ok(made) => {
                    set.made.push(made);
                    set.left.remove(0);
                }
                Err(error) => {
                    set.failure = Some(error);
                    break;
                }
            }
        }
        set
    }

    async fn one(&self, target: &TargetName) -> Result<Made, CliError> {
        let What { repository, git_ref, tag, description, contexts, production } = self.what;
        let (forge_id, id) = match &self.forge {
            Forge::GitHub(github) => {
                let production = github::production(production, target)?;
                let request = clock::random_digits();
                let ask = github::Ask {
                    repository,
                    git_ref,
                    tag,
                    target,
                    description,
                    contexts,
                    production,
                    request: &request,
                };
                (github.create(&ask).await?, None)
            }
            Forge::Service(server) => {
                let ask = Ask { repository, git_ref, tag, target, description };
                let asked: Asked = server.post("/api/v1/deployments", &ask).await?;
                (asked.forge_id, Some(asked.id))
            }
        };
        Ok(Made { target: target.to_string(), forge_id, id })
    }
}

impl Set {
    /// Says what there is and what there is not, where it is only a part.
    pub(super) fn tell(&self, tag: &ImageTag, git_ref: &str) {
        if let Some(text) = self.part(tag, git_ref) {
            output::note(&text);
        }
    }

    fn part(&self, tag: &ImageTag, git_ref: &str) -> Option<String> {
        let Self { made, left, failure: _ } = self;
        if made.is_empty() || left.is_empty() {
            return None;
        }
        let made: Vec<&str> = made.iter().map(|one| one.target.as_str()).collect();
        let left: Vec<&str> = left.iter().map(TargetName::as_str).collect();
        Some(format!(
            "{NOTE}note{NOTE:#}: deployments were created for {}, and none for {}\n\
             {NOTE}help{NOTE:#}: for the rest: `bart deploy {tag} {} --ref {git_ref}`\n",
            made.join(", "),
            left.join(", "),
            left.join(" "),
        ))
    }
}

/// The developer's GitHub token: of the environment, else of the login.
fn token(
    environment: &BTreeMap<String, String>,
    server: &Server,
    api_url: &str,
) -> Result<SecretString, CliError> {
    let given = VARIABLES.iter().find_map(|name| environment.get(*name));
    if let Some(token) = given.map(|token| token.trim()).filter(|token| !token.is_empty()) {
        return Ok(token.into());
    }
    let missing = |why: String| {
        CliError::usage(why).hint("log in with `bart login`, or set BART_GITHUB_TOKEN")
    };
    let login = logins::at(&server.server)?
        .ok_or_else(|| missing(format!("who are you at {api_url}? There is no GitHub token")))?;
    if login.api_url != api_url {
        let was = login.api_url;
        return Err(missing(format!("the login is of {was}, and repositories are at {api_url}")));
    }
    let now = clock::Clock::system().now();
    if login.until.is_some_and(|until| until <= now) {
        return Err(missing(format!("the login of {} has ended", login.name)));
    }
    Ok(login.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_set_is_told_with_the_way_on() {
        let tag = ImageTag::parse("1.0").unwrap();
        let made = Made { target: "dev".to_owned(), forge_id: 7, id: None };
        let left = vec![TargetName::parse("prod-1").unwrap(), TargetName::parse("prod-2").unwrap()];
        let set = Set { made: vec![made], left, failure: None };
        let told = anstream::adapter::strip_str(&set.part(&tag, "main").unwrap()).to_string();
        assert!(told.contains("created for dev, and none for prod-1, prod-2"), "{told}");
        assert!(told.contains("`bart deploy 1.0 prod-1 prod-2 --ref main`"), "{told}");
        let whole = Set { left: Vec::new(), ..set };
        assert_eq!(whole.part(&tag, "main"), None);
    }
}
