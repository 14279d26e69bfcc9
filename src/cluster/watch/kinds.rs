//! Where objects of each kind are listed, and which of them are watched.

use crate::cluster::object::WatchedKind;

/// What the service renders carries it (`pipeline::render`), and what Argo CD makes of that.
const MANAGED: &str = "app.kubernetes.io/managed-by=the-deployer";

/// Pods and `ReplicaSet` objects have the labels of the pod template, of which this one is ours. Others have it, too: what is
/// nobody's that we know is dropped by its owner.
const NAMED: &str = "app.kubernetes.io/name";

impl WatchedKind {
    /// Its API group; of core it is empty.
    pub fn group(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet => "apps",
            Self::CronJob | Self::Job => "batch",
            Self::Pod => "",
            Self::Application => "argoproj.io",
            Self::Canary => "flagger.app",
        }
    }

    /// Its name in addresses and in rules of RBAC.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::CronJob => "cronjobs",
            Self::Job => "jobs",
            Self::ReplicaSet => "replicasets",
            Self::Pod => "pods",
            Self::Application => "applications",
            Self::Canary => "canaries",
        }
    }

    /// Its API group with the version: `apps/v1`, and of core `v1`.
    pub fn group_version(self) -> String {
        let version = match self {
            Self::Application => "v1alpha1",
            Self::Canary => "v1beta1",
            _ => "v1",
        };
        match self.group() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// Where all of the cluster are listed.
    pub fn path(self) -> String {
        let folder = if self.group().is_empty() { "api" } else { "apis" };
        format!("/{folder}/{}/{}", self.group_version(), self.plural())
    }

    /// As rules of RBAC and `kubectl` write it: `deployments.apps`.
    pub fn resource(self) -> String {
        match self.group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    /// Returns whether a cluster can be without it: it comes with Argo CD or Flagger.
    pub fn is_custom(self) -> bool {
        matches!(self, Self::Application | Self::Canary)
    }

    /// Which of them are watched; with previews it is every workload, because annotations cannot be selected by.
    pub fn label_selector(self, previews: bool) -> Option<&'static str> {
        match self {
            Self::Application | Self::Canary => Some(MANAGED),
            _ if previews => None,
            Self::ReplicaSet | Self::Pod => Some(NAMED),
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::CronJob | Self::Job => {
                Some(MANAGED)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place_and_its_name() {
        let both = |kind: WatchedKind| (kind.path(), kind.resource());
        let is = |path: &str, name: &str| (path.to_owned(), name.to_owned());
        assert_eq!(both(WatchedKind::Pod), is("/api/v1/pods", "pods"));
        assert_eq!(both(WatchedKind::Job), is("/apis/batch/v1/jobs", "jobs.batch"));
        let canaries = is("/apis/flagger.app/v1beta1/canaries", "canaries.flagger.app");
        assert_eq!(both(WatchedKind::Canary), canaries);
    }

    #[test]
    fn previews_ask_for_every_workload_but_for_no_more_applications() {
        for kind in WatchedKind::ALL {
            assert!(kind.label_selector(false).is_some(), "{kind}");
            assert_eq!(kind.label_selector(true).is_some(), kind.is_custom(), "{kind}");
        }
    }
}
