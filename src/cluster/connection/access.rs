//! Asks a cluster for the permissions of the service before a watch needs them.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::cluster::connection::client::{ClusterConnection, describe};
use crate::cluster::connection::error::UNAUTHORIZED;
use crate::cluster::object::WatchedKind;

/// The verbs that a watch needs.
const VERBS: [&str; 2] = ["list", "watch"];

/// A reason why a cluster cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessProblem {
    /// The cluster cannot be asked at all.
    Unreachable(String),
    /// The service lacks a permission that a watch needs.
    Denied {
        /// The kind of the objects.
        kind: WatchedKind,
        /// The verbs that are missing: `list`, `watch`.
        verbs: Vec<&'static str>,
    },
}

/// Asks whether the service may watch each kind that the cluster has; returns the problems.
pub async fn check_access(connection: &ClusterConnection) -> Vec<AccessProblem> {
    let client = match connection.client().await {
        Ok(client) => client.client,
        Err(error) => return vec![AccessProblem::Unreachable(error.to_string())],
    };
    let mut problems = Vec::new();
    for kind in WatchedKind::ALL {
        match denied_verbs(&client, kind).await {
            Ok(verbs) if verbs.is_empty() => {}
            Ok(verbs) => problems.push(AccessProblem::Denied { kind, verbs }),
            // All other questions would end so, too.
            Err(error) => return vec![AccessProblem::Unreachable(unreachable_reason(&error))],
        }
    }
    problems
}

/// Fetches the cluster's version of Kubernetes: `1.33`.
///
/// # Errors
/// The reason why there is no answer.
pub async fn fetch_version(connection: &ClusterConnection) -> Result<String, String> {
    let client = connection.client().await.map_err(|error| error.to_string())?.client;
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| unreachable_reason(&error))?;
    // Some providers have a minor version such as `33+`.
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    Ok(format!("{}.{}", digits(&version.major), digits(&version.minor)))
}

/// Returns the verbs that are missing; none for a kind that the cluster does not have.
async fn denied_verbs(client: &Client, kind: WatchedKind) -> kube::Result<Vec<&'static str>> {
    if kind.is_custom() && !is_installed(client, kind).await? {
        return Ok(Vec::new());
    }
    let mut denied = Vec::new();
    for verb in VERBS {
        if !is_allowed(client, kind, verb).await? {
            denied.push(verb);
        }
    }
    Ok(denied)
}

async fn is_installed(client: &Client, kind: WatchedKind) -> kube::Result<bool> {
    match client.list_api_group_resources(&kind.group_version()).await {
        Ok(resources) => Ok(resources.resources.iter().any(|one| one.name == kind.plural())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

async fn is_allowed(client: &Client, kind: WatchedKind, verb: &str) -> kube::Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(kind.group().to_owned()),
        resource: Some(kind.plural().to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Describes an error; the text of an answer is not repeated, because it can come from another server.
fn unreachable_reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => UNAUTHORIZED.to_owned(),
        kube::Error::Api(status) => format!("the server answers {}", status.code),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            "the server answers with something that is no access review".to_owned()
        }
        error => describe(error),
    }
}
