//! A cluster as the setup's answers name it. Pure.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{TargetName, is_rfc1123_label};
use crate::support::text::refuse_invisible;

/// The keys of a cluster, as `--cluster` takes them.
const KEYS: &str = "context, name, environment, domain, server, version, watch";

/// A cluster that the service deploys to, of a context of the kubeconfig.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterAnswer {
    /// The context of the kubeconfig.
    pub(super) context: String,
    /// The name of the target.
    pub(super) name: String,
    /// `production` or `development`.
    pub(super) environment: String,
    /// The domain of the apps' hosts.
    pub(super) domain: String,
    /// The API server's address as an Argo CD elsewhere knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// The version of Kubernetes; the setup asks the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// False if the service does not watch the cluster.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(super) watch: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_yes(watch: &bool) -> bool {
    *watch
}

impl ClusterAnswer {
    /// Checks what the configuration would refuse, so that nothing is written first.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.context.is_empty() {
            return Err("there is no context".to_owned());
        }
        refuse_invisible("the context", &self.context)?;
        check_name(&self.name)?;
        check_environment(&self.environment)?;
        check_domain(&self.domain)
    }
}

/// Checks the name of a target.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    TargetName::parse(name).map(|_| ()).map_err(|error| error.to_string())
}

/// Checks the kind of a cluster.
pub(super) fn check_environment(environment: &str) -> Result<(), String> {
    match environment {
        "production" | "development" => Ok(()),
        _ => Err(format!("{environment:?} is no environment: production or development")),
    }
}

/// Checks the domain of a cluster's apps.
pub(super) fn check_domain(domain: &str) -> Result<(), String> {
    if domain.is_empty() || !domain.split('.').all(is_rfc1123_label) {
        return Err(format!("{domain:?} is no domain: write it like prod.example.com"));
    }
    Ok(())
}

impl FromStr for ClusterAnswer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cluster = Self { watch: true, ..Self::default() };
        for pair in text.split(',') {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=VALUE"))?;
            let (key, value) = (key.trim(), value.trim().to_owned());
            match key {
                "context" => cluster.context = value,
                "name" => cluster.name = value,
                "environment" => cluster.environment = value,
                "domain" => cluster.domain = value,
                "server" => cluster.server = Some(value),
                "version" => cluster.version = Some(value),
                "watch" => {
                    cluster.watch = match value.as_str() {
                        "yes" => true,
                        "no" => false,
                        _ => return Err("watch is yes or no".to_owned()),
                    }
                }
                _ => return Err(format!("{key:?} is no key of a cluster: {KEYS}")),
            }
        }
        cluster.check()?;
        Ok(cluster)
    }
}

/// Makes a name of a target of a context's name; `None` where nothing of it can be used.
pub(super) fn to_target_name(context: &str) -> Option<String> {
    // EKS calls a context by the ARN of its cluster, `…:cluster/NAME`; GKE `gke_PROJECT_ZONE_NAME`.
    let tail = context.rsplit(['/', '@']).next().unwrap_or(context);
    let name: String = tail
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let name = name.trim_matches('-').to_owned();
    TargetName::parse(name.as_str()).is_ok().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_read_from_one_argument() {
        let text =
            "context=kind-prod,name=prod-1,environment=production,domain=p.example.com,watch=no";
        let cluster: ClusterAnswer = text.parse().unwrap();
        assert_eq!((&*cluster.context, &*cluster.name), ("kind-prod", "prod-1"));
        assert!(!cluster.watch);
        for (text, problem) in [
            ("prod", "is not KEY=VALUE"),
            ("context=a,name=b", "is no environment"),
            ("context=a,name=b,environment=prod,domain=x.y", "is no environment"),
            ("context=a,name=b,environment=production,domain=X_y", "is no domain"),
            ("context=a,name=b c,environment=production,domain=x.y", "b c"),
            ("name=b,environment=production,domain=x.y", "there is no context"),
            ("context=a,colour=red", "is no key of a cluster"),
            ("context=a,watch=perhaps", "watch is yes or no"),
        ] {
            let error = text.parse::<ClusterAnswer>().unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_context_gives_a_name() {
        for (context, name) in [
            ("kind-prod", Some("kind-prod")),
            ("arn:aws:eks:eu-west-1:123:cluster/prod", Some("prod")),
            ("gke_project_zone_prod", Some("gke-project-zone-prod")),
            ("admin@home", Some("home")),
            ("///", None),
        ] {
            assert_eq!(to_target_name(context).as_deref(), name, "{context}");
        }
    }
}
