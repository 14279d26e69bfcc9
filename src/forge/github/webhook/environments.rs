//! The environments that the service deploys to, by the name in the event. Pure.

use std::collections::BTreeSet;

use crate::model::id::TargetName;
use crate::support::globs::{GlobError, GlobOptions, Globs};

/// The environments that may be deployed to.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    /// The globs of the operator, where there are some.
    named: Option<Globs>,
    /// The configured targets.
    targets: BTreeSet<String>,
}

/// The owner of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvironmentMatch {
    /// The environment belongs to the service; if it is no legal target, the author of the deployment should see that.
    Ours,
    /// The environment is not among those that the operator names.
    NotAllowed,
    /// The environment cannot be a target, and nothing says that it is meant for the service: most likely it belongs to
    /// another program, such as `Preview – shop`.
    Unlikely,
}

impl Environments {
    /// Allows every environment.
    pub fn any() -> Self {
        Self::default()
    }

    /// Returns the environments with the configured targets: an environment of such a name belongs to the service, in
    /// any spelling.
    #[must_use]
    pub fn with_targets<'a>(self, targets: impl IntoIterator<Item = &'a TargetName>) -> Self {
        Self { targets: targets.into_iter().map(ToString::to_string).collect(), ..self }
    }

    /// Returns the environments that match one of the globs; `*` also stands for a slash. Letter case does not count,
    /// as at GitHub.
    ///
    /// # Errors
    /// The first glob that cannot be read.
    pub fn matching<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Self, GlobError> {
        Globs::parse_with(GlobOptions { ignore_case: true, ..GlobOptions::default() }, globs)
            .map(|globs| Self { named: Some(globs), ..Self::default() })
    }

    /// Returns whether a target may be deployed to.
    pub fn allow(&self, target: &TargetName) -> bool {
        self.classify(target.as_str(), true) == EnvironmentMatch::Ours
    }

    /// Decides if the environment belongs to the service. A tag in the payload says so: only clients of the service put
    /// one there.
    pub(super) fn classify(&self, environment: &str, has_tag: bool) -> EnvironmentMatch {
        let is_target = self.targets.contains(environment);
        match &self.named {
            Some(globs) if globs.is_match(environment) => EnvironmentMatch::Ours,
            Some(_) => EnvironmentMatch::NotAllowed,
            None if has_tag || is_target || is_likely(environment) => EnvironmentMatch::Ours,
            None => EnvironmentMatch::Unlikely,
        }
    }
}

/// Returns whether most who have an environment of that name have it as a target: other tools have
/// `Production` and `Preview`.
fn is_likely(environment: &str) -> bool {
    let odd = |c: char| c.is_ascii_uppercase() || c == '_';
    TargetName::parse(environment).is_ok() && !environment.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_names_is_ours_and_nothing_else() {
        let environments = Environments::matching(["prod-*", "dev"]).unwrap();
        for environment in ["prod-eu", "Prod-EU", "prod-a/b", "dev"] {
            assert_eq!(
                environments.classify(environment, false),
                EnvironmentMatch::Ours,
                "{environment}"
            );
        }
        for other in ["github-pages", "dev-2", "", &"x".repeat(10_000)] {
            assert_eq!(environments.classify(other, true), EnvironmentMatch::NotAllowed, "{other}");
        }
        assert_eq!(
            Environments::matching([]).unwrap().classify("dev", true),
            EnvironmentMatch::NotAllowed
        );
    }

    #[test]
    fn where_nothing_is_named_a_target_is_ours_and_so_is_what_has_a_tag() {
        let environments = Environments::any();
        assert_eq!(environments.classify("prod-cluster-1", false), EnvironmentMatch::Ours);
        assert_eq!(environments.classify("Prod", true), EnvironmentMatch::Ours);
        assert_eq!(environments.classify("Production", false), EnvironmentMatch::Unlikely);
        assert_eq!(environments.classify("Preview – shop", false), EnvironmentMatch::Unlikely);
        let target = TargetName::parse("Prod_EU").unwrap();
        let configured = Environments::any().with_targets([&target]);
        assert_eq!(environments.classify("Prod_EU", false), EnvironmentMatch::Unlikely);
        assert_eq!(configured.classify("Prod_EU", false), EnvironmentMatch::Ours);
        assert_eq!(configured.classify("Production", false), EnvironmentMatch::Unlikely);
    }
}
