//! Checks the policies of a target when the configuration is loaded, so that no rule meets a window or a glob that
//! cannot be read.

use crate::config::resolver::Resolver;
use crate::model::lock::{NamespacePolicy, Policies};
use crate::model::namespace_globs;
use crate::model::rollback::{Holds, OnFailure};
use crate::model::window::Weekly;

impl Resolver<'_> {
    pub(super) fn policies(&mut self, path: &str, policies: Option<Policies>) -> Policies {
        let policies = policies.unwrap_or_default();
        let Policies {
            branches,
            windows,
            unknown: _,
            image_digests: _,
            hand_edits: _,
            holds,
            on_failure,
            on_canary_failure: _,
            deploy_teams,
            namespaces,
            removals: _,
        } = &policies;
        if *on_failure == OnFailure::Rollback && *holds == Holds::Off {
            let message = "a rollback after a failure takes no hold here, because `holds` is off: automation may \
                           deploy the failed release again at once";
            let help = "leave `holds` out, or write `holds: everybody`";
            self.report.warning(&format!("{path}.on_failure"), message, help);
        }
        self.namespaces(&format!("{path}.namespaces"), namespaces);
        self.deploy_teams(&format!("{path}.deploy_teams"), deploy_teams);
        self.limit_length(&format!("{path}.windows"), windows.len());
        for (n, window) in windows.iter().enumerate() {
            if let Err(error) = Weekly::parse(window) {
                let path = format!("{path}.windows[{n}].{}", error.key);
                self.report.error(&path, error.message, error.help);
            }
        }
        let Some(branches) = branches else { return policies };
        let path = format!("{path}.branches");
        self.limit_length(&path, branches.len());
        if branches.is_empty() {
            let message = "no branch is allowed, so nothing can be deployed";
            self.report.error(&path, message, "write [main], or leave it out for any commit");
        }
        self.check_globs(&path, branches);
        policies
    }

    /// Checks the globs of namespaces, which Argo CD also reads in the cluster's AppProject.
    fn namespaces(&mut self, path: &str, policy: &NamespacePolicy) {
        let NamespacePolicy { allow, deny } = policy;
        if allow.as_ref().is_some_and(Vec::is_empty) {
            let message = "no namespace is allowed, so nothing can be deployed";
            self.report.error(&format!("{path}.allow"), message, "leave it out for all of them");
        }
        for (key, globs) in [("allow", allow.as_deref().unwrap_or_default()), ("deny", deny)] {
            self.limit_length(&format!("{path}.{key}"), globs.len());
            let wrong =
                globs.iter().enumerate().filter(|(_, glob)| !namespace_globs::is_glob(glob));
            for (n, _) in wrong {
                let message = "this is no glob of namespaces";
                let help = "use lower-case letters, digits and `-`, with `*` and `?`: team-*";
                self.report.error(&format!("{path}.{key}[{n}]"), message, help);
            }
        }
    }

    /// Checks the teams whose members may deploy to a target.
    pub(super) fn deploy_teams(&mut self, path: &str, names: &[String]) {
        self.teams(path, names);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, refused};

    #[test]
    fn namespaces_for_apps_are_globs_that_argo_cd_reads_alike() {
        let lines = refused(
            "clusters:\n- name: a\n  environment: production\n  domain: a.example.com\n  policies:\n    \
             namespaces: {allow: [], deny: ['{a,b}', 'team-*', 'Team']}\n",
        );
        for expected in [
            "config.yaml:6:18: no namespace is allowed",
            "config.yaml:6:36: this is no glob of namespaces",
            "config.yaml:6:55: this is no glob of namespaces",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
    }

    #[test]
    fn a_rollback_after_a_failure_without_a_watch_or_a_hold_is_doubtful() {
        let warnings = |rest: &str| {
            let text = format!(
                "clusters:\n- {{name: a, environment: production, domain: a.io, server: 'https://a', {rest}}}\n"
            );
            let warnings = loaded(&text).warnings;
            warnings.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
        };
        let watched = "kubernetes: {token: {env: TOKEN}}";
        let on = "policies: {on_failure: rollback}";
        assert_eq!(warnings(&format!("{watched}, {on}")), Vec::<String>::new());
        let unwatched = warnings(on);
        assert!(unwatched.len() == 1 && unwatched[0].starts_with("this has no effect"));
        let off = "policies: {on_failure: rollback, holds: off}";
        let unheld = warnings(&format!("{watched}, {off}"));
        assert!(unheld.len() == 1 && unheld[0].contains("takes no hold here"), "{unheld:?}");
        assert!(warnings("policies: {on_failure: report}").is_empty());
    }

    #[test]
    fn windows_and_branches_are_read_with_the_configuration() {
        let policies = "policies: {branches: [main, '['], windows: [{days: mo, from: '09:00', to: '17:00'}, {days: mon-fri, from: '09:00', to: '25:00'}, {days: '*', from: '09:00', to: '17:00', time_zone: Mars}]}";
        let lines = refused(&format!(
            "clusters:\n- {{name: dev, environment: development, domain: dev.example.com, {policies}}}\n"
        ));
        for expected in [
            "this glob cannot be read: unclosed character class",
            "\"mo\" are not days of the week [configuration]; write mon-fri",
            "\"25:00\" is not a time of day [configuration]; write it like 09:00",
            "\"Mars\" is not a time zone [configuration]; write its name",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
        assert_eq!(lines.lines().count(), 4, "{lines}");
    }
}
