//! The agent of a cluster that the service does not reach: the token with which it reports, and the access of the agent
//! itself to the API server of its own cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::Deserialize;

use crate::cluster::connection::settings::ClusterAccess;
use crate::config::auth::sha256_of;
use crate::config::credential::Secret;
use crate::config::kubernetes::find_service_account;
use crate::config::resolver::Resolver;
use crate::model::callers::{AgentToken, ApiToken};
use crate::model::id::TargetName;

/// The agent inside a cluster, `the-deployer agent`, which reports what happens there. The service then needs no
/// connection to the API server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentCredentials {
    /// The agent's token, which is good for its reports alone: of at least 20 characters, and another one for each
    /// cluster. A file is read again while the service runs.
    token: Secret,
}

impl Resolver<'_> {
    /// Reads the token of each cluster that has an agent, by its place and its name.
    pub(super) fn agent_tokens(
        &mut self,
        agents: Vec<(usize, String, AgentCredentials)>,
        api_tokens: &[ApiToken],
    ) -> Vec<AgentToken> {
        let mut tokens: Vec<AgentToken> = Vec::new();
        for (n, name, AgentCredentials { token }) in agents {
            let path = format!("clusters[{n}].agent.token");
            let Some(credential) = self.credential(&path, token) else { continue };
            let help = "make one with `the-deployer config token`";
            let shortest = AgentToken::MIN_CHARACTERS;
            if credential.secret.expose_secret().chars().count() < shortest {
                let message = format!("this token has less than {shortest} characters");
                self.report.error(&path, message, help);
            }
            let sha256 = sha256_of(&credential.secret);
            let is_same = |other: &&AgentToken| sha256_of(&other.credential.secret) == sha256;
            if let Some(other) = tokens.iter().find(is_same) {
                let message = format!("the agent of {} has the same token", other.cluster);
                self.report.error(&path, message, help);
            }
            if let Some(other) = api_tokens.iter().find(|other| other.sha256 == sha256) {
                let message = format!("this is the API token {} as well", other.name);
                self.report.error(&path, message, help);
            }
            // An invalid name is reported already.
            let Ok(cluster) = TargetName::parse(name) else { continue };
            tokens.push(AgentToken { cluster, credential });
        }
        tokens
    }
}

/// Finds the access of a pod to the API server of its own cluster, for an agent, by these variables.
///
/// # Errors
/// The reason and what to do, in one sentence.
pub fn in_cluster_access(variables: &BTreeMap<String, String>) -> Result<ClusterAccess, String> {
    find_service_account(variables).map_err(|missing| {
        format!("{}; run it as a pod of the cluster, or give --kubeconfig FILE", missing.message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::settings::ClusterSource;
    use crate::config::tests::{loaded, refused, sources};

    fn config(folder: &std::path::Path, clusters: &[(&str, &str)], rest: &str) -> String {
        use std::fmt::Write as _;
        let mut text = "clusters:\n".to_owned();
        for (name, token) in clusters {
            let file = folder.join(name);
            std::fs::write(&file, token).unwrap();
            let server = format!("https://{name}");
            let file = file.display();
            writeln!(
                text,
                "- {{name: {name}, environment: production, domain: {name}.io, server: '{server}', \
                 agent: {{token: {{file: {file}}}}}{rest}}}"
            )
            .unwrap();
        }
        text
    }

    #[test]
    fn an_agent_has_a_token_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = ("0123456789abcdefghij", "abcdefghij0123456789");
        let text = config(folder.path(), &[("a", a), ("b", b)], ", progress: {patience: 5m}");
        let settings = loaded(&text).settings;
        let patience = settings.kubernetes.values().map(|one| one.patience.as_secs());
        assert_eq!(patience.collect::<Vec<_>>(), [300, 300]);
        let is_agent = |source: &ClusterSource| matches!(source, ClusterSource::Agent);
        assert!(settings.kubernetes.values().all(|one| is_agent(&one.source)));
        let names: Vec<&str> = settings.agents.iter().map(|one| one.cluster.as_str()).collect();
        assert_eq!(names, ["a", "b"]);

        let same = refused(&config(folder.path(), &[("a", a), ("b", a)], ""));
        assert!(same.contains("the agent of a has the same token"), "{same}");
        let short = refused(&config(folder.path(), &[("a", "hunter2")], ""));
        assert!(short.contains("less than 20 characters") && !short.contains("hunter2"), "{short}");
        let tokens = format!(
            "auth: {{tokens: [{{name: ci, file: {}}}]}}\n",
            folder.path().join("a").display()
        );
        let api = refused(&(tokens + &config(folder.path(), &[("a", a)], "")));
        assert!(api.contains("this is the API token ci as well"), "{api}");
    }

    #[test]
    fn a_cluster_is_seen_by_the_service_or_by_an_agent() {
        let folder = tempfile::tempdir().unwrap();
        let token = [("a", "0123456789abcdefghij")];
        let both = ", kubernetes: {token: {env: TOKEN}}";
        let message = refused(&config(folder.path(), &token, both));
        assert!(message.contains("config.yaml:2:"), "{message}");
        assert!(message.contains("a cluster has an agent or a connection, not both"), "{message}");
        let previews = config(folder.path(), &token, ", progress: {previews: true}");
        let settings = loaded(&previews).settings;
        assert!(settings.kubernetes.values().all(|one| one.previews.is_some()));
        for (written, expected) in [
            ("{}", "token"),
            ("{token: s3cret}", "`clusters[0].agent.token` holds a secret itself"),
            ("{token: {file: /none}}", "/none cannot be read"),
            ("{token: {}}", "this secret is not given"),
        ] {
            let text = format!(
                "clusters: [{{name: a, environment: production, domain: a.io, agent: {written}}}]\n"
            );
            let message = refused(&text);
            assert!(message.contains(expected) && !message.contains("s3cret"), "{message}");
        }
    }

    #[test]
    fn outside_of_a_cluster_an_agent_is_told_to_name_a_kubeconfig() {
        let message = in_cluster_access(&sources(None, &[]).variables).unwrap_err();
        assert!(message.contains("KUBERNETES_SERVICE_HOST is not set"), "{message}");
        assert!(message.ends_with("or give --kubeconfig FILE"), "{message}");
    }
}
