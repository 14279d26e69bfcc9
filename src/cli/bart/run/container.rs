//! The arguments of `docker run` or `podman run`: no value is in them. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::plan::{RunPort, RunVariable};
use crate::waml::section::Section;
use crate::waml::section_operations::Engine;

/// A container of the app's pod.
pub(super) struct LocalContainer<'a> {
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) mode: ContainerMode,
    /// The network with the dependencies, if there are any, or that of another container.
    pub(super) network: Option<&'a str>,
    /// The ports that are published at this machine.
    pub(super) ports: &'a BTreeSet<RunPort>,
    pub(super) variables: &'a [RunVariable],
    /// The file with the variables of one line.
    pub(super) env_file: &'a Path,
    /// Folders of this machine, each with its folder in the container.
    pub(super) mounts: &'a [(PathBuf, String)],
    pub(super) command: &'a [String],
    pub(super) args: &'a [String],
}

/// The way in which a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerMode {
    /// The app: bart waits for its end, and a person may be at the terminal.
    Attached { is_interactive: bool },
    /// A sidecar, which goes on until it is removed.
    Detached,
}

/// A database or Redis beside the app.
pub(super) struct DependencyContainer {
    /// `database` or `redis`: its host's name beside the app's container.
    pub(super) host: &'static str,
    pub(super) image: String,
    pub(super) port: u16,
    /// Its own variables.
    pub(super) variables: Vec<(String, SecretString)>,
    /// The variables by which the app finds it, but for its host.
    kind: DependencyKind,
}

enum DependencyKind {
    Database { scheme: &'static str, name: String, password: SecretString },
    Redis,
}

/// Returns whether a variable fits into an env file, which has a line for each.
pub(super) fn is_one_line(variable: &RunVariable) -> bool {
    !variable.value.expose_secret().contains(['\n', '\r'])
}

/// Writes the variables of one line as `--env-file` reads them: nothing is quoted.
pub(super) fn env_file_text<'a>(
    variables: impl Iterator<Item = (&'a str, &'a SecretString)>,
) -> SecretString {
    let lines = variables.map(|(name, value)| format!("{name}={}\n", value.expose_secret()));
    lines.collect::<String>().into()
}

/// Returns the arguments that run a container. A variable of several lines is named only: the program takes its value from
/// its own environment.
pub(super) fn run_arguments(container: &LocalContainer<'_>) -> Vec<String> {
    let mut arguments = vec!["run".to_owned()];
    let mut add = |parts: &[&str]| arguments.extend(parts.iter().map(|part| (*part).to_owned()));
    match container.mode {
        ContainerMode::Attached { is_interactive } => {
            add(&["--rm", "--init", "--name", container.name]);
            if is_interactive {
                add(&["--interactive", "--tty"]);
            }
        }
        ContainerMode::Detached => add(&["--detach", "--rm", "--name", container.name]),
    }
    if let Some(network) = container.network {
        add(&["--network", network]);
    }
    add(&["--env-file", &container.env_file.to_string_lossy()]);
    for variable in container.variables.iter().filter(|variable| !is_one_line(variable)) {
        add(&["--env", &variable.name]);
    }
    for port in container.ports {
        add(&["--publish", &format!("127.0.0.1:{}:{port}", port.number)]);
    }
    for (from, to) in container.mounts {
        add(&["--volume", &format!("{}:{to}:ro", from.display())]);
    }
    let mut command = container.command.iter();
    if let Some(entry) = command.next() {
        add(&["--entrypoint", entry]);
    }
    arguments.push(container.image.to_owned());
    arguments.extend(command.chain(container.args).cloned());
    arguments
}

/// Returns the dependencies that the WAML has. The password is a new one for each run.
pub(super) fn dependencies(
    section: &Section,
    slug: &str,
    password: &SecretString,
) -> Vec<DependencyContainer> {
    let mut all = Vec::new();
    if let Some(database) = &section.database {
        let name = slug.replace('-', "_");
        let version = database.version.as_deref().unwrap_or("latest");
        let (image, port, scheme, keys) = match database.engine.unwrap_or(Engine::Postgres) {
            Engine::Postgres => (
                "postgres",
                5432,
                "postgres",
                ["POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD"],
            ),
            Engine::Mysql => {
                ("mysql", 3306, "mysql", ["MYSQL_DATABASE", "MYSQL_USER", "MYSQL_PASSWORD"])
            }
        };
        let [of_name, of_user, of_password] = keys.map(str::to_owned);
        let mut variables = vec![
            (of_name, name.as_str().into()),
            (of_user, name.as_str().into()),
            (of_password, password.clone()),
        ];
        if image == "mysql" {
            variables.push(("MYSQL_RANDOM_ROOT_PASSWORD".to_owned(), "yes".into()));
        }
        let kind = DependencyKind::Database { scheme, name, password: password.clone() };
        all.push(DependencyContainer {
            host: "database",
            image: format!("{image}:{version}"),
            port,
            variables,
            kind,
        });
    }
    if let Some(redis) = &section.redis {
        let version = redis.version.as_deref().unwrap_or("latest");
        all.push(DependencyContainer {
            host: "redis",
            image: format!("redis:{version}"),
            port: 6379,
            variables: Vec::new(),
            kind: DependencyKind::Redis,
        });
    }
    all
}

impl DependencyContainer {
    /// Returns the variables by which the app finds it on that host.
    pub(super) fn app_variables(&self, host: &str) -> Vec<(String, SecretString)> {
        let port = self.port;
        let variables: Vec<(&str, String)> = match &self.kind {
            DependencyKind::Redis => vec![
                ("REDIS_HOST", host.to_owned()),
                ("REDIS_PORT", port.to_string()),
                ("REDIS_URL", format!("redis://{host}:{port}/0")),
            ],
            DependencyKind::Database { scheme, name, password } => {
                let password = password.expose_secret();
                vec![
                    ("DATABASE_HOST", host.to_owned()),
                    ("DATABASE_PORT", port.to_string()),
                    ("DATABASE_NAME", name.clone()),
                    ("DATABASE_USER", name.clone()),
                    ("DATABASE_PASSWORD", password.to_owned()),
                    ("DATABASE_URL", format!("{scheme}://{name}:{password}@{host}:{port}/{name}")),
                ]
            }
        };
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// Returns the arguments that start it. Its port is published for a process of this machine alone.
    pub(super) fn run_arguments(
        &self,
        name: &str,
        network: &str,
        env_file: &Path,
        publish: bool,
    ) -> Vec<String> {
        let (file, port) = (env_file.to_string_lossy(), format!("127.0.0.1:{0}:{0}", self.port));
        let mut arguments = vec![
            "run",
            "--detach",
            "--rm",
            "--name",
            name,
            "--network",
            network,
            "--network-alias",
            self.host,
            "--env-file",
            &file,
        ];
        if publish {
            arguments.extend(["--publish", &port]);
        }
        arguments.push(&self.image);
        arguments.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waml::section_network::Protocol;

    #[test]
    fn no_value_is_an_argument() {
        let variable = |name: &str, value: &str| RunVariable {
            name: name.to_owned(),
            value: value.into(),
            origin: String::new(),
        };
        let variables = [variable("A", "hunter2"), variable("KEY", "hunter2\nmore")];
        let port = |number, protocol| RunPort { number, protocol };
        let container = LocalContainer {
            name: "bart-shop-1",
            image: "ghcr.io/acme/shop:1.0",
            mode: ContainerMode::Attached { is_interactive: false },
            network: Some("n"),
            ports: &[port(8000, Protocol::Tcp), port(5353, Protocol::Udp)].into(),
            variables: &variables,
            env_file: Path::new("/t/env"),
            mounts: &[(PathBuf::from("/t/0"), "/etc/app".to_owned())],
            command: &["/bin/app".to_owned(), "serve".to_owned()],
            args: &["--fast".to_owned()],
        };
        assert_eq!(
            run_arguments(&container).join(" "),
            "run --rm --init --name bart-shop-1 --network n --env-file /t/env --env KEY \
             --publish 127.0.0.1:5353:5353/udp --publish 127.0.0.1:8000:8000 --volume /t/0:/etc/app:ro --entrypoint /bin/app ghcr.io/acme/shop:1.0 serve --fast"
        );
    }

    #[test]
    fn dependencies_have_the_variables_that_the_app_has_in_a_cluster() {
        let section: Section = serde_yaml::from_str(
            "{database: {engine: postgres, version: '16'}, redis: {version: '7'}}",
        )
        .unwrap();
        let all = dependencies(&section, "my-shop", &"pw".into());
        let names: Vec<_> =
            all.iter().map(|one| (one.host, one.image.as_str(), one.port)).collect();
        assert_eq!(names, [("database", "postgres:16", 5432), ("redis", "redis:7", 6379)]);
        let url = all[0].app_variables("database").pop().unwrap();
        assert_eq!(
            (url.0.as_str(), url.1.expose_secret()),
            ("DATABASE_URL", "postgres://my_shop:pw@database:5432/my_shop")
        );
        let arguments = all[0].run_arguments("d", "n", Path::new("/t/db"), true).join(" ");
        assert!(
            arguments.ends_with("--env-file /t/db --publish 127.0.0.1:5432:5432 postgres:16"),
            "{arguments}"
        );
    }
}
