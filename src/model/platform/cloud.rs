//! The cloud that a cluster runs in: roles, databases, caches.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::AppKey;
use crate::model::platform::problem::PlatformProblem;

/// Roles with rights over everything in a project (Google Cloud, IAM, "Basic roles"), and those with
/// which an app could give itself, or become, whatever it likes.
const TOO_MUCH: [&str; 16] = [
    "roles/owner",
    "roles/editor",
    "roles/viewer",
    "roles/admin",
    "roles/writer",
    "roles/reader",
    "roles/iam.roleAdmin",
    "roles/iam.securityAdmin",
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountKeyAdmin",
    "roles/iam.serviceAccountTokenCreator",
    "roles/iam.serviceAccountUser",
    "roles/iam.workloadIdentityPoolAdmin",
    "roles/iam.workloadIdentityUser",
    "roles/resourcemanager.projectIamAdmin",
    "roles/resourcemanager.projectMover",
];

/// The cloud that a cluster runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cloud {
    /// The provider of the cloud.
    pub provider: Provider,
    /// Google's cloud; for `provider: gcp`.
    pub gcp: Gcp,
    /// Amazon's cloud; for `provider: aws`.
    pub aws: Aws,
    /// The apps that get an identity in the cloud.
    pub identities: Identities,
    /// The kind of database that apps get.
    pub database: DatabaseKind,
    /// The kind of Redis that apps get.
    pub redis: RedisKind,
    /// The image of a Redis in the cluster, without its tag: the tag is the version.
    pub redis_image: String,
    /// The image of `redis_exporter`, with its tag, that runs beside each Redis in the cluster and is
    /// scraped at the port `metrics` of its Service: `oliver006/redis_exporter:v1.80.0`. Default: none;
    /// then a Redis has alerts only if `monitoring.redis` says who measures it.
    pub redis_exporter: Option<String>,
}

/// The provider of a cloud.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// No cloud in which the service creates anything.
    #[default]
    None,
    /// Google's, through Config Connector.
    Gcp,
    /// Amazon's.
    Aws,
}

/// The apps that get an identity of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Identities {
    /// Apps that ask for roles.
    #[default]
    OnRequest,
    /// Every app, so that rights can be given to it from elsewhere too.
    EveryApp,
}

/// Google's cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gcp {
    /// The project's id: `acme-prod`. Service accounts, databases and caches are made in it.
    pub project: String,
    /// Namespaces whose apps have a project of their own: namespace to project id.
    pub projects: BTreeMap<String, String>,
    /// The workload identity pool of the cluster. Default: `<project>.svc.id.goog`.
    pub workload_pool: Option<String>,
    /// The roles that apps may have, whole or with `*` at the end: `roles/pubsub.*`. Default: all
    /// but those over everything in the project, and those that give rights away.
    pub roles: Option<Vec<String>>,
    /// The region of databases and caches: `europe-west3`.
    pub region: String,
    /// The network that they are reached from: `projects/acme-prod/global/networks/main`.
    /// Default: none; then databases have an address in the internet that lets nobody in but
    /// through Cloud SQL's connectors, and caches are in the project's network `default`.
    pub network: Option<String>,
}

/// Amazon's cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Aws {
    /// The role of an app that has `iam` and names none, with `{namespace}` and `{slug}` in it:
    /// `arn:aws:iam::123456789012:role/{namespace}-{slug}`. Default: none; then each names its own.
    pub role: Option<String>,
}

/// The kind of database that apps get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    /// No database: `database` is refused.
    #[default]
    None,
    /// Cloud SQL, through Config Connector; needs `provider: gcp`.
    CloudSql,
}

/// The kind of Redis that apps get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedisKind {
    /// No Redis: `redis` is refused.
    None,
    /// One pod beside the app.
    #[default]
    InCluster,
    /// Memorystore, through Config Connector; needs `provider: gcp`.
    Memorystore,
}

impl Default for Cloud {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            gcp: Gcp::default(),
            aws: Aws::default(),
            identities: Identities::default(),
            database: DatabaseKind::default(),
            redis: RedisKind::default(),
            redis_image: "docker.io/library/redis".to_owned(),
            redis_exporter: None,
        }
    }
}

impl Gcp {
    /// Returns the project that an app's things are made in.
    pub fn project_of(&self, app: &AppKey) -> &str {
        self.projects.get(app.namespace.as_str()).unwrap_or(&self.project)
    }

    /// Checks that an app may have the role.
    pub fn allows(&self, role: &str) -> bool {
        let matches = |glob: &String| match glob.strip_suffix('*') {
            Some(start) => role.starts_with(start),
            None => glob == role,
        };
        match &self.roles {
            Some(roles) => roles.iter().any(matches),
            None => !TOO_MUCH.contains(&role),
        }
    }

    /// Names the workload identity pool of the cluster.
    pub fn pool(&self) -> String {
        self.workload_pool.clone().unwrap_or_else(|| format!("{}.svc.id.goog", self.project))
    }
}

impl Cloud {
    /// Lists the resources that the configuration requires and the configured cloud cannot provide.
    pub(super) fn problems(&self) -> impl Iterator<Item = PlatformProblem> {
        let gcp = self.provider == Provider::Gcp;
        let sql = self.database == DatabaseKind::CloudSql;
        let memorystore = self.redis == RedisKind::Memorystore;
        let no_project = gcp && self.gcp.project.is_empty();
        let no_region = gcp && (sql || memorystore) && self.gcp.region.is_empty();
        let where_to = "the place for databases and caches is not set";
        let problems = [
            (sql && !gcp, "database", "cloudsql is Google's", "set `provider: gcp`"),
            (memorystore && !gcp, "redis", "memorystore is Google's", "set `provider: gcp`"),
            (no_project, "gcp.project", "the project is not set", "set its id"),
            (no_region, "gcp.region", where_to, "set it to a region: europe-west3"),
        ];
        problems.into_iter().filter(|(is_wrong, ..)| *is_wrong).map(|(_, key, message, help)| {
            PlatformProblem { key: format!("cloud.{key}"), message: message.to_owned(), help }
        })
    }
}

/// Fills in an app's names in a pattern of the operator's.
pub fn named_for(pattern: &str, app: &AppKey) -> String {
    pattern.replace("{namespace}", app.namespace.as_str()).replace("{slug}", app.slug.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_that_cannot_give_what_is_asked_of_it_says_why() {
        let keys = |text: &str| {
            let cloud: Cloud = serde_json::from_str(text).unwrap();
            cloud.problems().map(|problem| problem.key).collect::<Vec<_>>()
        };
        assert_eq!(keys("{}"), Vec::<String>::new());
        assert_eq!(
            keys(r#"{"database": "cloudsql", "redis": "memorystore"}"#),
            ["cloud.database", "cloud.redis"]
        );
        assert_eq!(keys(r#"{"provider": "gcp"}"#), ["cloud.gcp.project"]);
        assert_eq!(
            keys(r#"{"provider": "gcp", "gcp": {"project": "p"}, "redis": "memorystore"}"#),
            ["cloud.gcp.region"]
        );
    }

    #[test]
    fn an_app_may_have_the_roles_that_are_listed_or_all_but_the_greatest() {
        let gcp = |text: &str| serde_json::from_str::<Gcp>(text).unwrap();
        let any_role = gcp("{}");
        assert!(any_role.allows("roles/pubsub.publisher") && any_role.allows("projects/p/roles/x"));
        assert!(!any_role.allows("roles/owner") && !any_role.allows("roles/iam.securityAdmin"));
        let some_roles = gcp(r#"{"roles": ["roles/pubsub.*", "roles/viewer"]}"#);
        assert!(some_roles.allows("roles/pubsub.publisher") && some_roles.allows("roles/viewer"));
        assert!(!some_roles.allows("roles/storage.admin") && !some_roles.allows("roles/viewers"));
        assert!(!gcp(r#"{"roles": []}"#).allows("roles/pubsub.publisher"));
    }

    #[test]
    fn a_namespace_may_have_a_project_of_its_own() {
        let gcp: Gcp =
            serde_json::from_str(r#"{"project": "main", "projects": {"pay": "pci"}}"#).unwrap();
        let app = |namespace: &str| AppKey {
            namespace: crate::model::id::Namespace::parse(namespace).unwrap(),
            slug: crate::model::id::Slug::parse("a").unwrap(),
        };
        assert_eq!(gcp.project_of(&app("pay")), "pci");
        assert_eq!(gcp.project_of(&app("devx")), "main");
        assert_eq!(gcp.pool(), "main.svc.id.goog");
    }
}
