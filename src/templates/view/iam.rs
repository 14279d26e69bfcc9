//! Cloud roles: an identity of the app's own, and its roles.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::model::id::AppKey;
use crate::model::platform::cloud::{Cloud, DatabaseKind, Identities, Provider, named_for};
use crate::model::target::Target;
use crate::templates::view::{naming, without_nulls};
use crate::waml::section::Section;

/// A service account's id has 6 to 30 characters (Google Cloud, IAM, "Create service accounts").
/// Two fewer, and with the longest id of a project it is still a user that `PostgreSQL` takes: 63.
const LONGEST_ACCOUNT: usize = 28;

/// The limit of a service account's display name, in bytes (Google Cloud, IAM, `projects.serviceAccounts`).
const LONGEST_DISPLAY_NAME: usize = 100;

/// The roles of an app that logs in to a Cloud SQL database with its service account.
const DATABASE_ROLES: [&str; 2] = ["roles/cloudsql.client", "roles/cloudsql.instanceUser"];

/// Builds `iam` as in the WAML, with the annotations of the `ServiceAccount` and, in Google's cloud, the objects of the
/// identity; null for an app without an identity.
pub(super) fn build_iam_view(section: &Section, app: &AppKey, target: &Target) -> Json {
    let cloud = &target.platform.cloud;
    let has_database = section.database.is_some() && cloud.database == DatabaseKind::CloudSql;
    let by_default = cloud.identities == Identities::EveryApp && cloud.provider != Provider::None;
    if section.iam.is_none() && !has_database && !by_default {
        return Json::Null;
    }
    let mut view = match without_nulls(json!(section.iam)) {
        Json::Object(map) => map,
        _ => Map::new(),
    };
    view.insert("annotations".to_owned(), json!({}));
    match cloud.provider {
        Provider::None => {}
        Provider::Gcp => view.extend(google(section, app, target)),
        Provider::Aws => view.extend(amazon(section, app, cloud)),
    }
    Json::Object(view)
}

/// Writes the e-mail address of an app's service account.
pub(super) fn email(app: &AppKey, target: &Target) -> String {
    let project = target.platform.cloud.gcp.project_of(app);
    format!("{}@{project}.iam.gserviceaccount.com", account(app, target))
}

fn account(app: &AppKey, target: &Target) -> String {
    naming::unique(&target.name, app, LONGEST_ACCOUNT)
}

fn google(section: &Section, app: &AppKey, target: &Target) -> Map<String, Json> {
    let gcp = &target.platform.cloud.gcp;
    let AppKey { namespace, slug } = app;
    let project = gcp.project_of(app);
    let grants: Vec<Json> = roles(section, target.platform.cloud.database)
        .into_iter()
        .map(|role| json!({"name": grant_name(app, role), "role": role}))
        .collect();
    let parts = json!({
        "annotations": {"iam.gke.io/gcp-service-account": email(app, target)},
        "project": project,
        "resource": format!("projects/{project}"),
        "account": account(app, target),
        "member": format!("serviceAccount:{}[{namespace}/{slug}]", gcp.pool()),
        "grants": grants,
        "workloadIdentity": naming::of_two(slug.as_str(), "workload-identity"),
        "displayName": naming::shorten_name(&format!("{namespace}/{slug}"), LONGEST_DISPLAY_NAME),
    });
    if let Json::Object(parts) = parts { parts } else { Map::new() }
}

/// Collects the roles, each once, in the order of the alphabet.
fn roles(section: &Section, database: DatabaseKind) -> BTreeSet<&str> {
    let own_roles =
        section.iam.iter().flat_map(|iam| iam.roles.iter().flatten()).map(String::as_str);
    let sql = section.database.is_some() && database == DatabaseKind::CloudSql;
    own_roles.chain(DATABASE_ROLES.into_iter().filter(|_| sql)).collect()
}

/// Builds a name in the app's namespace: the role's last part for people, and a hash that makes it unique.
fn grant_name(app: &AppKey, role: &str) -> String {
    let AppKey { slug, .. } = app;
    let last = role.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let readable: String =
        last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(80).collect();
    let hash = naming::hash(&format!("{slug}/{role}"), 8);
    naming::of_two(slug.as_str(), &format!("{}-{hash}", readable.trim_matches('-')))
}

fn amazon(section: &Section, app: &AppKey, cloud: &Cloud) -> Map<String, Json> {
    let role = aws_role(section, app, cloud);
    let annotations = role.map(|role| json!({"eks.amazonaws.com/role-arn": role}));
    annotations.into_iter().map(|annotations| ("annotations".to_owned(), annotations)).collect()
}

/// Finds the AWS role of an app: its own, or by the operator's pattern.
pub(crate) fn aws_role(section: &Section, app: &AppKey, cloud: &Cloud) -> Option<String> {
    if section.iam.is_none() && cloud.identities == Identities::OnRequest {
        return None;
    }
    let pattern = || cloud.aws.role.as_ref().map(|pattern| named_for(pattern, app));
    section.iam.as_ref().and_then(|iam| iam.aws_role.clone()).or_else(pattern)
}
