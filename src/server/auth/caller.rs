//! Who calls.

use std::sync::Arc;

use secrecy::SecretString;

use crate::model::audit::{By, Via};
use crate::model::callers::{Rights, Scope};
use crate::model::id::{AppKey, RepoName, TargetName};

/// Who calls.
#[derive(Debug, Clone)]
pub(in crate::server) struct Caller {
    /// A GitHub login, or the name of a token's owner.
    pub(in crate::server) name: String,
    /// How we know.
    pub(in crate::server) via: Via,
    /// Where the request came from, and its id.
    pub(in crate::server) from: Option<String>,
    pub(in crate::server) request: Option<String>,
    /// What follows from how we know.
    pub(in crate::server) standing: Standing,
}

/// What a caller's rights come from.
#[derive(Debug, Clone)]
pub(in crate::server) enum Standing {
    /// Nobody is asked for anything: everything.
    Everybody,
    /// The configuration.
    Token(Arc<Rights>),
    /// GitHub, asked with this token.
    Person(SecretString),
}

/// What it is to be done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Subject {
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
    pub(in crate::server) fn anybody(name: &str) -> Self {
        Self::new(name, Via::Loopback, Standing::Everybody)
    }

    pub(super) fn new(name: impl Into<String>, via: Via, standing: Standing) -> Self {
        Self { name: name.into(), via, from: None, request: None, standing }
    }

    /// As whom they act.
    pub(in crate::server) fn by(&self) -> By {
        let Self { name, via, from, request, standing: _ } = self.clone();
        By { name, via, from, request }
    }

    /// What their token is good for, if it is one of ours.
    pub(in crate::server) fn rights(&self) -> Option<&Rights> {
        match &self.standing {
            Standing::Token(rights) => Some(rights),
            Standing::Everybody | Standing::Person(_) => None,
        }
    }

    /// One name for each caller: a token and a person may be called alike.
    pub(in crate::server) fn account(&self) -> String {
        format!("{}:{}", self.via.as_str(), self.name)
    }
}

impl Scope {
    /// As the configuration writes it.
    pub(in crate::server) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Deploy => "deploy",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Subject {
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
