//! The Pod Security levels that a cluster's namespaces enforce.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::Namespace;
use crate::model::namespace_globs;
use crate::model::platform::problem::PlatformProblem;

/// The levels of namespaces, as their labels `pod-security.kubernetes.io/enforce` have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PodSecurity {
    /// The level of every namespace that `namespaces` does not name. Default: `privileged`, which refuses no pod.
    pub level: PodSecurityLevel,
    /// Levels by glob of the namespace: `team-*`. Of several that match, the strictest counts.
    pub namespaces: BTreeMap<String, PodSecurityLevel>,
}

/// A level of Kubernetes' Pod Security Standards, the strictest last.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PodSecurityLevel {
    /// Every pod.
    #[default]
    Privileged,
    /// No pod with rights on its node.
    Baseline,
    /// Pods as they should be: not root, no more rights than they need.
    Restricted,
}

impl PodSecurityLevel {
    /// Returns the level as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl PodSecurity {
    /// Returns the level of a namespace.
    pub fn level_of(&self, namespace: &Namespace) -> PodSecurityLevel {
        let is_match = |glob: &str| namespace_globs::matches(glob, namespace.as_str());
        let matching = self.namespaces.iter().filter(|(glob, _)| is_match(glob));
        matching.map(|(_, level)| *level).max().unwrap_or(self.level)
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = PlatformProblem> {
        let wrong = self.namespaces.keys().filter(|glob| !namespace_globs::is_glob(glob));
        wrong.map(|glob| PlatformProblem {
            key: format!("pod_security.namespaces.{glob}"),
            message: "this is no glob of namespaces".to_owned(),
            help: "use lower-case letters, digits and `-`, with `*` and `?`: team-*",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_level_that_names_the_namespace_counts() {
        use PodSecurityLevel::{Baseline, Privileged, Restricted};
        let levels = [("team-*", Baseline), ("*-pay", Restricted), ("infra", Privileged)];
        let security = PodSecurity {
            level: Restricted,
            namespaces: levels.map(|(glob, level)| (glob.to_owned(), level)).into(),
        };
        for (namespace, level) in [
            ("team-a", Baseline),
            ("team-pay", Restricted),
            ("infra", Privileged),
            ("x", Restricted),
        ] {
            assert_eq!(
                security.level_of(&Namespace::parse(namespace).unwrap()),
                level,
                "{namespace}"
            );
        }
        let wrong = PodSecurity { namespaces: [("A".to_owned(), Baseline)].into(), ..security };
        let keys: Vec<String> = wrong.problems().map(|problem| problem.key).collect();
        assert_eq!(keys, ["pod_security.namespaces.A"]);
        assert_eq!(PodSecurity::default().level, Privileged);
    }
}
