//! Who calls, and what it is about.

use std::sync::Arc;

use secrecy::SecretString;

use crate::model::app_instance::AppInstance;
use crate::model::audit::{AuthMethod, Principal};
use crate::model::callers::{Rights, Scope};
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, RepoName, TargetName};

/// Names a request, in its answer and in the log.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// A GitHub login, or the name of a token's owner.
    pub(crate) name: String,
    /// How we know.
    pub(crate) via: AuthMethod,
    /// Where the request came from, and its id.
    pub(crate) from: Option<String>,
    pub(crate) request: Option<String>,
    /// What follows from how we know.
    pub(crate) standing: RightsSource,
}

/// What a caller's rights come from.
#[derive(Debug, Clone)]
pub(crate) enum RightsSource {
    /// Nobody is asked for anything: everything.
    Everybody,
    /// The configuration.
    Token(Arc<Rights>),
    /// GitHub, asked with this token.
    Person(SecretString),
}

/// What it is to be done to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// Everything that there is.
    Everywhere,
    /// Everything on a target.
    Target(TargetName),
    /// An app on a target.
    App(TargetName, AppKey),
    /// What is deployed of a repository, to a target where one is named.
    Repository(RepoName, Option<TargetName>),
}

impl Caller {
    /// Everybody, where nobody is asked who they are.
    pub(crate) fn anybody(name: &str) -> Self {
        Self::new(name, AuthMethod::Loopback, RightsSource::Everybody)
    }

    pub(super) fn new(name: impl Into<String>, via: AuthMethod, standing: RightsSource) -> Self {
        Self { name: name.into(), via, from: None, request: None, standing }
    }

    /// As whom they act.
    pub(crate) fn by(&self) -> Principal {
        let Self { name, via, from, request, standing: _ } = self.clone();
        Principal { name, via, from, request }
    }

    /// Returns what their token is good for, if it is one of ours.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        match &self.standing {
            RightsSource::Token(rights) => Some(rights),
            RightsSource::Everybody | RightsSource::Person(_) => None,
        }
    }

    /// Returns what is asked about to find out whether they may see a deployment, or stop it. A token of ours is
    /// for apps; GitHub knows repositories.
    pub(crate) fn resource_of(&self, deployment: &Deployment) -> Resource {
        let request = &deployment.request;
        let target = request.target.clone();
        match (&self.standing, &deployment.app) {
            (RightsSource::Everybody | RightsSource::Token(_), Some(app)) => {
                Resource::App(target, app.clone())
            }
            (_, _) => Resource::Repository(request.release.repository.clone(), Some(target)),
        }
    }

    /// One name for each caller: a token and a person may be called alike.
    pub(crate) fn account(&self) -> String {
        format!("{}:{}", self.via.as_str(), self.name)
    }
}

impl Scope {
    /// As the configuration writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Deploy => "deploy",
            Self::Admin => "admin",
        }
    }
}

impl From<&AppInstance> for Resource {
    fn from(AppInstance { target, app }: &AppInstance) -> Self {
        Self::App(target.clone(), app.clone())
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everywhere => f.write_str("everything"),
            Self::Target(target) => write!(f, "everything on {target}"),
            Self::App(target, app) => write!(f, "{app} on {target}"),
            Self::Repository(repository, None) => repository.fmt(f),
            Self::Repository(repository, Some(target)) => write!(f, "{repository} on {target}"),
        }
    }
}
