//! The caller of a request, and the resources it may ask for.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use secrecy::SecretString;

use crate::model::app_instance::AppInstance;
use crate::model::audit::{AuthMethod, Principal};
use crate::model::callers::{Rights, Scope};
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, RepoName, TargetName};
use crate::store::DeploymentPlace;

/// The id of a request, in its answer and in the log.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The GitHub login, or the name of the API token.
    pub(crate) name: String,
    /// The method of authentication.
    pub(crate) via: AuthMethod,
    /// The origin of the request: an address.
    pub(crate) from: Option<String>,
    /// The id of the request.
    pub(crate) request: Option<String>,
    /// The source of the caller's rights.
    pub(crate) standing: RightsSource,
}

/// The source of a caller's rights.
#[derive(Debug, Clone)]
pub(crate) enum RightsSource {
    /// No token is needed: all rights.
    Everybody,
    /// The configuration, for an API token.
    Token(Arc<Rights>),
    /// GitHub, called with this token.
    Person(SecretString),
    /// GitHub, called with the service's own credentials about that login.
    Account,
}

/// The resource that a caller asks to read or change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// Everything.
    Everywhere,
    /// Everything on a target.
    Target(TargetName),
    /// An app on a target.
    App(TargetName, AppKey),
    /// The deployments of a repository, on a target if one is named.
    Repository(RepoName, Option<TargetName>),
}

impl Caller {
    /// Makes the caller for a service that needs no token.
    pub(crate) fn anonymous(name: &str) -> Self {
        Self::new(name, AuthMethod::Loopback, RightsSource::Everybody)
    }

    /// Makes the caller for a GitHub account whose owner another system has named.
    pub(crate) fn of_account(login: &str, via: AuthMethod) -> Self {
        Self::new(login, via, RightsSource::Account)
    }

    pub(super) fn new(name: impl Into<String>, via: AuthMethod, standing: RightsSource) -> Self {
        Self { name: name.into(), via, from: None, request: None, standing }
    }

    /// Returns the caller with the origin and the id of its request.
    pub(crate) fn at(self, parts: &Parts, address: Option<IpAddr>) -> Self {
        let id = parts.extensions.get::<RequestId>().map(|id| id.0.clone());
        Self { from: address.map(|address| address.to_string()), request: id, ..self }
    }

    /// Returns the principal of the caller's acts.
    pub(crate) fn by(&self) -> Principal {
        let Self { name, via, from, request, standing: _ } = self.clone();
        Principal { name, via, from, request }
    }

    /// Returns the rights of the caller's API token, if it has one.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        match &self.standing {
            RightsSource::Token(rights) => Some(rights),
            RightsSource::Everybody | RightsSource::Person(_) | RightsSource::Account => None,
        }
    }

    /// Returns the caller's own GitHub token, if they came with one.
    pub(crate) fn github_token(&self) -> Option<&SecretString> {
        match &self.standing {
            RightsSource::Person(token) => Some(token),
            RightsSource::Everybody | RightsSource::Token(_) | RightsSource::Account => None,
        }
    }

    /// Returns the resource that decides whether the caller may see a deployment, or stop it. API tokens are for apps;
    /// GitHub knows repositories.
    pub(crate) fn resource_of(&self, deployment: &Deployment) -> Resource {
        let request = &deployment.request;
        self.resource_at(&request.target, &request.release.repository, deployment.app.as_ref())
    }

    /// Returns the same for all deployments of a repository's app to a target.
    pub(crate) fn resource_of_place(&self, place: &DeploymentPlace) -> Resource {
        self.resource_at(&place.target, &place.repository, place.app.as_ref())
    }

    fn resource_at(
        &self,
        target: &TargetName,
        repository: &RepoName,
        app: Option<&AppKey>,
    ) -> Resource {
        match (&self.standing, app) {
            (RightsSource::Everybody | RightsSource::Token(_), Some(app)) => {
                Resource::App(target.clone(), app.clone())
            }
            (_, _) => Resource::Repository(repository.clone(), Some(target.clone())),
        }
    }

    /// Returns a unique name of the caller's account: a token and a person may have the same name.
    pub(crate) fn account(&self) -> String {
        format!("{}:{}", self.via.as_str(), self.name)
    }
}

impl Scope {
    /// Returns the name that the configuration uses.
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
