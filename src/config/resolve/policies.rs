//! What a cluster asks of what is deployed to it: read here, so that no rule meets a window or a
//! glob that cannot be read.

use crate::config::resolve::Resolver;
use crate::model::lock::Policies;
use crate::model::namespaces::{self, NamespacePolicy};
use crate::model::window::Weekly;

/// Each is looked at for every deployment.
const MOST: usize = 100;

impl Resolver<'_> {
    pub(super) fn policies(&mut self, path: &str, policies: Option<Policies>) -> Policies {
        let policies = policies.unwrap_or_default();
        let Policies {
            branches,
            windows,
            unknown: _,
            hand_edits: _,
            holds: _,
            deploy_teams,
            namespaces,
            removals: _,
        } = &policies;
        self.namespaces(&format!("{path}.namespaces"), namespaces);
        self.deploy_teams(&format!("{path}.deploy_teams"), deploy_teams);
        self.few(&format!("{path}.windows"), windows.len());
        for (n, window) in windows.iter().enumerate() {
            if let Err(error) = Weekly::parse(window) {
                let path = format!("{path}.windows[{n}].{}", error.key);
                self.report.wrong(&path, error.message, error.help);
            }
        }
        let Some(branches) = branches else { return policies };
        let path = format!("{path}.branches");
        self.few(&path, branches.len());
        if branches.is_empty() {
            let message = "no branch is allowed, so nothing can be deployed";
            self.report.wrong(&path, message, "write [main], or leave it out for any commit");
        }
        self.check_globs(&path, branches);
        policies
    }

    /// Argo CD reads the same globs in the cluster's AppProject.
    fn namespaces(&mut self, path: &str, policy: &NamespacePolicy) {
        let NamespacePolicy { allow, deny } = policy;
        if allow.as_ref().is_some_and(Vec::is_empty) {
            let message = "no namespace is allowed, so nothing can be deployed";
            self.report.wrong(&format!("{path}.allow"), message, "leave it out for all of them");
        }
        for (key, globs) in [("allow", allow.as_deref().unwrap_or_default()), ("deny", deny)] {
            self.few(&format!("{path}.{key}"), globs.len());
            let wrong = globs.iter().enumerate().filter(|(_, glob)| !namespaces::is_glob(glob));
            for (n, _) in wrong {
                let message = "this is no glob of namespaces";
                let help = "use lower-case letters, digits and `-`, with `*` and `?`: team-*";
                self.report.wrong(&format!("{path}.{key}[{n}]"), message, help);
            }
        }
    }

    pub(super) fn few(&mut self, path: &str, count: usize) {
        if count > MOST {
            let message = format!("these are {count}, more than the limit of {MOST}");
            self.report.wrong(path, message, "join those that belong together");
        }
    }
}
