//! The stops of a target: locks by people, windows by the calendar, and the policies of the target.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::hand_edit::HandEdits;
use crate::model::id::{AppKey, TargetName, TeamName};
use crate::model::rollback::{Holds, OnCanaryFailure, OnFailure};

/// A person's no, with a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The deployments that it stops.
    pub scope: LockScope,
    /// The reason, shown to everybody whom the lock stops.
    pub reason: String,
    /// The person who placed the lock.
    pub by: String,
    /// The start of the lock.
    pub since: Timestamp,
    /// The end of the lock; absent: until a person removes it.
    pub until: Option<Timestamp>,
}

/// The filter for locks; an absent part does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockFilter {
    /// Locks that can stop a deployment to this target.
    pub target: Option<TargetName>,
    /// Locks that can stop an app of this owner.
    pub owner: Option<String>,
    /// Locks that can stop this app.
    pub app: Option<AppKey>,
}

impl LockFilter {
    /// Checks that a lock of that scope can stop the deployments of the filter. It does not, where both name something
    /// and not the same.
    pub fn takes(&self, scope: &LockScope) -> bool {
        let target = |target_name: &TargetName| {
            self.target.as_ref().is_none_or(|asked_target| asked_target == target_name)
        };
        match scope {
            LockScope::Everything => true,
            LockScope::Target(target_name) => target(target_name),
            LockScope::Owner(owner_name) => self
                .owner
                .as_ref()
                .is_none_or(|asked_owner| asked_owner.eq_ignore_ascii_case(owner_name)),
            LockScope::App(target_name, app) => {
                target(target_name) && self.app.as_ref().is_none_or(|asked_app| asked_app == app)
            }
        }
    }
}

/// The deployments that a lock stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockScope {
    /// Every deployment.
    Everything,
    /// Every deployment to a target.
    Target(TargetName),
    /// Every deployment of an owner's apps, by the WAML's `owner`.
    Owner(String),
    /// An app on a target.
    App(TargetName, AppKey),
}

impl std::fmt::Display for LockScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everything => f.write_str("everything"),
            Self::Target(target) => write!(f, "everything on {target}"),
            Self::Owner(owner) => write!(f, "the apps of {owner}"),
            Self::App(target, app) => write!(f, "{app} on {target}"),
        }
    }
}

/// The policies of a target: the conditions for a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policies {
    /// Globs over branches; a commit must be on one of them. Default: any commit will do.
    pub branches: Option<Vec<String>>,
    /// The times at which it takes deployments; without any, always.
    pub windows: Vec<Window>,
    /// The outcome when a lookup that a rule needs fails. Default: `fail` in production, `warn` elsewhere.
    pub unknown: Option<OnUnknown>,
    /// The images that manifests name by digest beside the tag: `off` for none, `known` for those whose registry the
    /// service asks, or `required` to refuse others. Default: `known` in production, `off` elsewhere.
    pub image_digests: Option<ImageDigests>,
    /// The outcome for a manual edit in an app's `latest`, when the app is deployed: `replace` or `stop`. Default:
    /// `replace`; either way the deployment's log shows it.
    pub hand_edits: HandEdits,
    /// The deployments that a rollback's hold stops: `automation`, `everybody`, or `off` for none. Default:
    /// `automation`; a person who deploys another release ends it.
    pub holds: Holds,
    /// The consequence when a deployment fails in the cluster: `report`, or `rollback` to make the revision live again
    /// whose pods ran last. Default: `report`; people are told either way.
    pub on_failure: OnFailure,
    /// The consequence when Flagger has taken a canary back: `rollback`, so that git says what serves, or `keep`.
    /// Default: `rollback`; people are told either way.
    pub on_canary_failure: OnCanaryFailure,
    /// Teams at GitHub, `ORGANIZATION/TEAM`: a person who deploys there, by GitHub or by the API, must be in one of
    /// them, beside the permission on the app's repository. Default: the permission is enough.
    pub deploy_teams: Vec<String>,
    /// The namespaces that apps may be in.
    pub namespaces: NamespacePolicy,
    /// The limit above which a deployment that removes many objects is stopped.
    pub removals: RemovalLimit,
}

impl Policies {
    /// Parses the names of the teams that may deploy; the configuration refuses those that are none.
    pub fn parse_deploy_teams(&self) -> Vec<TeamName> {
        self.deploy_teams.iter().filter_map(|name| TeamName::parse(name.as_str()).ok()).collect()
    }
}

/// Namespaces of a target's apps, as its operators want them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NamespacePolicy {
    /// Globs of the namespaces that apps may be in. Default: all but those that are denied. A name in it without `*` or
    /// `?` is not reserved for the platform.
    pub allow: Option<Vec<String>>,
    /// Globs of namespaces that no app may be in, beside Kubernetes' own and those of the platform.
    pub deny: Vec<String>,
}

/// The limit above which a deployment that removes many objects is stopped, unless the WAML's `removes` names them: a
/// template, or a large part of the WAML, may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RemovalLimit {
    /// The number of removed objects from which the limit counts. Default: 5.
    #[schemars(range(min = 1, max = 1000))]
    pub objects: u32,
    /// The share of the live objects, in percent, above which the limit counts. Default: 50.
    #[schemars(range(max = 100))]
    pub percent: u32,
    /// `stop`, or `warn` for a warning only. Default: `stop`.
    pub action: OnRemoval,
}

impl Default for RemovalLimit {
    fn default() -> Self {
        Self { objects: 5, percent: 50, action: OnRemoval::Stop }
    }
}

/// The outcome for a deployment that removes many objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnRemoval {
    /// The deployment is stopped.
    #[default]
    Stop,
    /// The deployment gets a warning.
    Warn,
}

/// The outcome when a lookup that a rule needs fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    /// The deployment fails.
    Fail,
    /// The deployment goes on, with a warning.
    Warn,
}

/// The images that manifests name by their digest, so that a rollback brings exactly the same image back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageDigests {
    /// None: the tag alone.
    Off,
    /// Those whose digest a configured registry says.
    Known,
    /// All of the app's and those beside it: a deployment without a digest of one fails.
    Required,
}

/// A time of the week in which deployments are allowed, or, with `closed`, are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Days: `mon-fri`, `sat,sun`, `*`.
    pub days: String,
    /// The start in the day: `09:00`.
    pub from: String,
    /// The end in the day: `17:30`; an end before `from` is on the next day.
    pub to: String,
    /// The time zone: `Europe/Berlin`. Default: UTC.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// True if deployments are stopped in it rather than allowed.
    #[serde(default)]
    pub closed: bool,
    /// The reason, shown to everybody whom the window stops.
    #[serde(default)]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_locks_are_found_that_can_stop_what_is_asked_for() {
        let app =
            |slug: &str| AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() };
        let target = |name: &str| TargetName::parse(name).unwrap();
        let scopes = [
            LockScope::Everything,
            LockScope::Target(target("prod")),
            LockScope::Owner("Squad@example.com".to_owned()),
            LockScope::App(target("prod"), app("shop")),
        ];
        let matches_of = |filter: &LockFilter| {
            let takes = scopes.iter().map(|scope| filter.takes(scope));
            takes.map(|takes| if takes { '+' } else { '-' }).collect::<String>()
        };
        let filter = LockFilter::default();
        assert_eq!(matches_of(&filter), "++++");
        let on_target = |name: &str| LockFilter { target: Some(target(name)), ..filter.clone() };
        assert_eq!(
            (matches_of(&on_target("prod")), matches_of(&on_target("dev"))),
            ("++++".into(), "+-+-".into())
        );
        let of_app = |slug: &str| LockFilter { app: Some(app(slug)), ..filter.clone() };
        assert_eq!(
            (matches_of(&of_app("shop")), matches_of(&of_app("api"))),
            ("++++".into(), "+++-".into())
        );
        let of_owner = |owner: &str| LockFilter { owner: Some(owner.to_owned()), ..filter.clone() };
        assert_eq!(matches_of(&of_owner("squad@EXAMPLE.com")), "++++");
        assert_eq!(matches_of(&of_owner("other")), "++-+");
    }
}
