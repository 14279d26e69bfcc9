//! A target: one cluster that apps are deployed to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::{Namespace, TargetName};
use crate::model::kubernetes::KubernetesVersion;
use crate::model::lock::Policies;
use crate::model::platform::Platform;
use crate::model::words::words;

/// The configuration of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The name, as in `deploy` of the WAML.
    pub name: TargetName,
    /// The domain under which apps are reached: host = `hostPrefix` + `.` + this.
    pub domain: String,
    /// The kind of environment; it decides how strict the policies are.
    pub environment: Environment,
    /// The API server's address as Argo CD knows it.
    pub server: String,
    /// The version of Kubernetes that its API server has; `None` where the configuration does not say it.
    #[serde(default)]
    pub version: Option<KubernetesVersion>,
    /// Free labels, for selecting.
    pub labels: BTreeMap<String, String>,
    /// The platform: the components of the cluster beside Kubernetes.
    #[serde(default)]
    pub platform: Platform,
    /// The policies for deployments to it.
    #[serde(default)]
    pub policies: Policies,
    /// The cluster as Argo CD names it.
    #[serde(default)]
    pub argocd: ArgoCdDestination,
}

/// A cluster as Argo CD names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgoCdDestination {
    /// The namespace that Argo CD itself runs in.
    pub namespace: Namespace,
    /// The operator's own AppProject that the cluster's apps are in; `None` for the one that is
    /// written into the manifest repository.
    pub project: Option<String>,
}

impl Default for ArgoCdDestination {
    fn default() -> Self {
        Self { namespace: Namespace::parse("argocd").expect("a word is a label"), project: None }
    }
}

words! {
    /// The kind of environment that a target is.
    pub enum Environment {
        /// Users are on it: what cannot be checked is refused.
        Production = "production",
        /// Everything else: what cannot be checked is a warning.
        Development = "development",
    }
}

/// The clusters that the configuration names. Clones share them.
#[derive(Debug, Clone, PartialEq)]
pub enum Clusters {
    /// None is configured: every target is accepted, with the domain `<target>.internal`, and
    /// offers this.
    Any(Box<Platform>),
    /// Only these targets exist.
    Known(Arc<BTreeMap<TargetName, Target>>),
}

impl Clusters {
    /// Returns clusters for a service without configured clusters: every target exists, with the default platform.
    pub fn any() -> Self {
        Self::Any(Box::default())
    }

    /// Returns these clusters and no other.
    pub fn from_targets(targets: impl IntoIterator<Item = Target>) -> Self {
        let targets = targets.into_iter().map(|target| (target.name.clone(), target));
        Self::Known(Arc::new(targets.collect()))
    }

    /// Finds the target of that name, if it may be deployed to.
    pub fn find(&self, name: &TargetName) -> Option<Target> {
        match self {
            Self::Any(platform) => Some(Target {
                platform: (**platform).clone(),
                ..Target::unconfigured(name.clone())
            }),
            Self::Known(targets) => targets.get(name).cloned(),
        }
    }

    /// Returns the same without the times at which a target takes deployments: for a plan that is none.
    #[must_use]
    pub fn without_windows(mut self, name: &TargetName) -> Self {
        if let Self::Known(targets) = &mut self
            && let Some(target) = Arc::make_mut(targets).get_mut(name)
        {
            target.policies.windows.clear();
        }
        self
    }

    /// Lists the names one may choose from; empty when every name will do.
    pub fn names(&self) -> Vec<&TargetName> {
        match self {
            Self::Any(_) => Vec::new(),
            Self::Known(targets) => targets.keys().collect(),
        }
    }
}

impl Target {
    /// The address of the cluster that Argo CD itself runs in.
    pub const IN_CLUSTER: &str = "https://kubernetes.default.svc";

    /// Makes a target while no cluster is configured.
    pub fn unconfigured(name: TargetName) -> Self {
        Self {
            domain: format!("{}.internal", name.object_name()),
            name,
            environment: Environment::Development,
            server: Self::IN_CLUSTER.to_owned(),
            version: None,
            labels: BTreeMap::new(),
            platform: Platform::default(),
            policies: Policies::default(),
            argocd: ArgoCdDestination::default(),
        }
    }

    /// Returns the version of Kubernetes that manifests for it are judged by: its own, as far as it
    /// is known, else the newest.
    pub fn kubernetes(&self) -> KubernetesVersion {
        self.version.unwrap_or(KubernetesVersion::NEWEST).nearest_known()
    }

    /// Names the AppProject of the cluster's apps. It has the cluster's name, because one Argo CD may serve several,
    /// and the service's, because an operator may have a project of the cluster's name.
    pub fn project(&self) -> String {
        let own_project = || format!("the-deployer-{}", self.name.object_name());
        self.argocd.project.clone().unwrap_or_else(own_project)
    }
}
