//! A credential plugin of a kubeconfig: a program that prints a token or a client certificate (the protocol of
//! `client.authentication.k8s.io`).
//!
//! This code runs it and not the client library, which runs it three times for each client, blocks a worker while it
//! runs, never ends one that hangs, and does not run it again when its token is refused. It gets no terminal. Neither
//! its arguments nor its output are ever shown: both can be secrets.

use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecAuthCluster, ExecConfig};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::cluster::connection::error::ConnectError;

/// The deadline of a run. It is shorter than that of a request, so that the reason names the plugin.
const DEADLINE: Duration = Duration::from_secs(20);

/// The most bytes of output that are read; a token and a certificate chain fit many times.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// A program with its arguments and variables.
#[derive(Clone)]
pub(super) struct ExecPlugin {
    command: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    /// The value of `KUBERNETES_EXEC_INFO`.
    info: String,
    /// The kubeconfig's advice for a machine without the program.
    hint: Option<String>,
    deadline: Duration,
}

/// The credential that the program printed.
#[derive(Debug)]
pub(super) struct PluginCredential {
    pub(super) token: Option<SecretString>,
    /// The chain and the key as PEM.
    pub(super) certificate: Option<(String, SecretString)>,
    pub(super) expires: Option<Timestamp>,
}

impl ExecPlugin {
    pub(super) fn new(
        config: ExecConfig,
        cluster: Option<ExecAuthCluster>,
    ) -> Result<Self, ConnectError> {
        let ExecConfig { api_version, command, args, env, install_hint, .. } = config;
        let command = command.filter(|command| !command.is_empty());
        let command = command.ok_or_else(|| ConnectError::plugin("", "is not named"))?;
        let variables = env.unwrap_or_default().into_iter().filter_map(|mut variable| {
            Some((variable.remove("name")?, variable.remove("value").unwrap_or_default()))
        });
        let mut spec = json!({"interactive": false});
        if let (Some(cluster), Some(spec)) = (cluster, spec.as_object_mut()) {
            spec.insert("cluster".to_owned(), json!(cluster));
        }
        let info = json!({"apiVersion": api_version, "kind": "ExecCredential", "spec": spec});
        Ok(Self {
            command,
            arguments: args.unwrap_or_default(),
            variables: variables.collect(),
            info: info.to_string(),
            hint: install_hint,
            deadline: DEADLINE,
        })
    }

    /// Runs the program to its end, or kills it at the deadline.
    pub(super) async fn run(&self) -> Result<PluginCredential, ConnectError> {
        let output = tokio::time::timeout(self.deadline, self.output()).await;
        let output = output.map_err(|_elapsed| {
            self.failure(format!("does not end within {} seconds", self.deadline.as_secs()))
        })??;
        self.parse(&output)
    }

    async fn output(&self) -> Result<Vec<u8>, ConnectError> {
        let mut command = Command::new(&self.command);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", &self.info)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            let hint = self.hint.as_deref().map_or_else(String::new, |hint| format!("; {hint}"));
            self.failure(format!("cannot be started: {error}{hint}"))
        })?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let read = stdout.take(MAX_OUTPUT).read_to_end(&mut output).await;
            read.map_err(|error| self.failure(format!("cannot be read: {error}")))?;
        }
        let status = child.wait().await;
        let status =
            status.map_err(|error| self.failure(format!("cannot be waited for: {error}")))?;
        if status.success() {
            Ok(output)
        } else {
            Err(self
                .failure(format!("fails with {status}; run it as the service's user to see why")))
        }
    }

    /// Parses JSON, or YAML, which Kubernetes' own client takes, too.
    fn parse(&self, output: &[u8]) -> Result<PluginCredential, ConnectError> {
        let read = serde_json::from_slice(output).ok();
        let read = read.or_else(|| serde_yaml::from_slice(output).ok());
        let ExecCredential { status } =
            read.ok_or_else(|| self.failure("prints no ExecCredential".to_owned()))?;
        let ExecCredentialStatus {
            token,
            client_certificate_data,
            client_key_data,
            expiration_timestamp,
        } = status.ok_or_else(|| self.failure("prints no status".to_owned()))?;
        let expires = expiration_timestamp.map(|text| text.parse::<Timestamp>()).transpose();
        let expires =
            expires.map_err(|_| self.failure("prints an expiry that is no time".to_owned()))?;
        let certificate = client_certificate_data.zip(client_key_data);
        let certificate = certificate.map(|(chain, key)| (chain, SecretString::from(key)));
        if token.is_none() && certificate.is_none() {
            return Err(self.failure("prints neither a token nor a certificate".to_owned()));
        }
        Ok(PluginCredential { token: token.map(SecretString::from), certificate, expires })
    }

    fn failure(&self, problem: String) -> ConnectError {
        ConnectError::plugin(&self.command, problem)
    }
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn plugin(script: &str) -> ExecPlugin {
        let config = ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            env: Some(vec![
                [("name", "TOKEN"), ("value", "s3cret")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ]),
            ..ExecConfig::default()
        };
        ExecPlugin::new(config, None).unwrap()
    }

    #[tokio::test]
    async fn a_token_is_read_from_json_and_from_yaml() {
        for (script, expires) in [
            (r#"echo "{\"status\": {\"token\": \"$TOKEN\"}}""#, false),
            (
                "printf 'status:\\n  token: %s\\n  expirationTimestamp: 2030-01-01T00:00:00Z\\n' $TOKEN",
                true,
            ),
        ] {
            let credential = plugin(script).run().await.unwrap();
            assert_eq!(credential.token.unwrap().expose_secret(), "s3cret");
            assert_eq!(credential.expires.is_some(), expires);
        }
    }

    #[tokio::test]
    async fn a_program_is_told_what_it_is_for_and_gets_no_terminal() {
        let script = r#"if read line; then exit 3; fi
            case "$KUBERNETES_EXEC_INFO" in
            *'"interactive":false'*) echo '{"status": {"token": "t"}}';;
            esac"#;
        assert!(plugin(script).run().await.unwrap().token.is_some());
    }

    #[tokio::test]
    async fn what_a_failing_program_prints_is_not_told() {
        for (script, expected) in [
            ("echo $TOKEN; echo $TOKEN >&2; exit 3", "fails with exit status: 3"),
            ("echo $TOKEN", "prints no ExecCredential"),
            ("echo '{}'", "prints no status"),
            ("echo '{\"status\": {}}'", "neither a token nor a certificate"),
            (
                "echo '{\"status\": {\"token\": \"s3cret\", \"expirationTimestamp\": \"soon\"}}'",
                "an expiry that is no time",
            ),
        ] {
            let reason = plugin(script).run().await.unwrap_err().to_string();
            assert!(reason.contains(expected) && !reason.contains("s3cret"), "{script}: {reason}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended() {
        let hanging = ExecPlugin { deadline: Duration::from_millis(50), ..plugin("exec sleep 60") };
        let reason = hanging.run().await.unwrap_err().to_string();
        assert!(reason.contains("`sh` does not end"), "{reason}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named_with_the_hint() {
        let config = ExecConfig {
            command: Some("/none/aws".to_owned()),
            install_hint: Some("install the AWS CLI".to_owned()),
            ..ExecConfig::default()
        };
        let reason = ExecPlugin::new(config, None).unwrap().run().await.unwrap_err().to_string();
        assert!(reason.contains("`/none/aws` cannot be started"), "{reason}");
        assert!(reason.ends_with("; install the AWS CLI"), "{reason}");
        let reason = ExecPlugin::new(ExecConfig::default(), None).err().unwrap().to_string();
        assert!(reason.contains("is not named"), "{reason}");
    }
}
