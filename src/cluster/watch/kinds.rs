//! Addresses of the kinds, and the selectors of the objects that are watched.

use crate::cluster::object::WatchedKind;

/// The label of the objects that the service renders (`pipeline::render`) and Argo CD creates.
const MANAGED: &str = "app.kubernetes.io/managed-by=the-deployer";

/// The label of pods and `ReplicaSet` objects, which have those of the pod template. Pods of others can have it, too:
/// they are told apart by their owner.
const NAME_LABEL: &str = "app.kubernetes.io/name";

impl WatchedKind {
    /// Returns the kind's API group; that of core is empty.
    pub fn group(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet => "apps",
            Self::CronJob | Self::Job => "batch",
            Self::Pod => "",
            Self::Application => "argoproj.io",
            Self::Canary => "flagger.app",
        }
    }

    /// Returns the kind's name in addresses and in rules of RBAC.
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

    /// Returns the kind's API group with the version: `apps/v1`, and of core `v1`.
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

    /// Returns the path that lists all objects of the kind in the cluster.
    pub fn path(self) -> String {
        format!("{}/{}", self.group_path(), self.plural())
    }

    /// Returns the path that lists the objects of the kind in a namespace.
    pub fn path_in(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.group_path(), self.plural())
    }

    fn group_path(self) -> String {
        let folder = if self.group().is_empty() { "api" } else { "apis" };
        format!("/{folder}/{}", self.group_version())
    }

    /// Returns the kind's name for `kubectl`: `deployments.apps`.
    pub fn resource(self) -> String {
        match self.group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    /// Returns whether a cluster can be without the kind: it comes with Argo CD or Flagger.
    pub fn is_custom(self) -> bool {
        matches!(self, Self::Application | Self::Canary)
    }

    /// Returns the selector of the objects that are watched. With previews every workload is, because no selector finds
    /// annotations.
    pub fn label_selector(self, previews: bool) -> Option<&'static str> {
        match self {
            Self::Application | Self::Canary => Some(MANAGED),
            _ if previews => None,
            Self::ReplicaSet | Self::Pod => Some(NAME_LABEL),
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
        assert_eq!(WatchedKind::Pod.path_in("devx"), "/api/v1/namespaces/devx/pods");
    }

    #[test]
    fn previews_ask_for_every_workload_but_for_no_more_applications() {
        for kind in WatchedKind::ALL {
            assert!(kind.label_selector(false).is_some(), "{kind}");
            assert_eq!(kind.label_selector(true).is_some(), kind.is_custom(), "{kind}");
        }
    }
}
