//! `bart run`: the app on a developer's machine, by a command or by an image, with a stand-in for docker that records what
//! it is given.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::developer::{Developer, Said};
use crate::harness::events::waml;
use crate::harness::folder;
use crate::harness::process::Home;
use crate::harness::secret_stores::vault::{MOUNT, TOKEN, Vault};

const TARGET: &str = "prod-cluster-1";
/// A value that no line of bart's may have.
const VALUE: &str = "hunter2-v4lue";

/// A WAML with a variable, a secret and a file.
fn app(more: &str) -> String {
    let more = format!(
        "    env: [{{name: MODE, value: slow}}, {{name: PASSWORD, secret: {{name: db, key: password}}}}, {{name: NODE, field: spec.nodeName}}]\n    \
         volumes: [{{name: conf, mountPath: /etc/app, files: {{app.toml: 'a = 1'}}}}]\n{more}"
    );
    waml("shop").replace("    env: [{name: MY_ENV_NAME, value: some-value}]\n", &more)
}

fn developer(more: &str) -> Developer {
    Developer::of("https://github.example.com/example/shop", &app(more))
}

/// A program that is called `docker` and records its arguments, and the env files that it reads.
struct Docker(tempfile::TempDir);

impl Docker {
    fn new() -> Self {
        let this = Self(folder::temporary());
        let script = "#!/bin/sh\nhome=$(dirname \"$0\")\necho \"$@\" >>\"$home/calls\"\nlast=\nfor one in \"$@\"; do\n  case \"$last\" in\n  --env-file) stat -c %a \"$one\" >>\"$home/modes\"; echo \"$one\" >>\"$home/files\"; cat \"$one\" >>\"$home/env\";;\n  --env) eval \"echo \\\"$one=\\$$one\\\"\" >>\"$home/inherited\";;\n  --volume) cat \"${one%%:*}\"/* >>\"$home/volumes\";;\n  esac\n  last=$one\ndone\ncase \"$*\" in *--detach*|network*|rm*) exit 0;; esac\nexit 5\n";
        let path = this.0.path().join("docker");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        this
    }

    fn path(&self) -> String {
        format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }
}

async fn runs(developer: &Developer, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    developer.runs(variables, &[&["run", TARGET], arguments].concat()).await
}

#[tokio::test]
async fn a_command_gets_the_variables_and_files_and_its_exit_code_is_kept() {
    let developer = developer("");
    let script =
        "echo mode=$MODE password=$PASSWORD extra=$EXTRA; cat $BART_FILES/etc/app/app.toml; exit 7";
    std::fs::write(developer.work().join(".env"), format!("PASSWORD='{VALUE}'\n")).unwrap();
    let run = ["--set", "MODE=fast", "--set", "EXTRA", "--", "sh", "-c", script];
    let said = runs(&developer, &[("EXTRA", "of-mine")], &run).await;
    assert_eq!(said.out, format!("mode=fast password={VALUE} extra=of-mine\na = 1"), "{said:?}");
    said.ended(
        7,
        &[
            "MODE (the command line)",
            "PASSWORD (",
            "/etc/app/app.toml (the WAML)",
            "ports 8000",
            "NODE is not set: spec.nodeName is a field of a pod",
        ],
    );
    assert!(!said.err.contains(VALUE) && !said.err.contains("fast"), "no values: {}", said.err);
    let folder = said.err.split("below ").nth(1).unwrap().split("/root").next().unwrap();
    assert!(folder.contains("bart-run-") && !PathBuf::from(folder).exists(), "{folder} is removed");
    runs(&developer, &[], &["--", "no-such-program"])
        .await
        .ended(127, &["cannot start no-such-program"]);
    runs(&developer, &[], &["--", "sh", "-c", "kill -9 $$"]).await.ended(137, &[]);
    runs(&developer, &[], &["--set", "1X=1", "--", "true"]).await.ended(2, &["--set"]);
    std::fs::write(developer.work().join(".env"), format!("A=1\n{VALUE}\n")).unwrap();
    let wrong = runs(&developer, &[], &["--", "true"]).await;
    wrong.ended(2, &[".env:2: write NAME=VALUE"]);
    assert!(!format!("{wrong:?}").contains(VALUE));
}

#[tokio::test]
async fn signals_are_passed_on_and_the_process_ends_by_itself() {
    let developer = developer("");
    for signal in ["TERM", "INT", "HUP"] {
        let script = format!(
            "trap 'echo cleaned; exit 3' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let mut command =
            developer.bart(&[], &["run", TARGET, "--no-secrets", "--", "sh", "-c", &script]);
        let mut child = command.spawn().unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
            line.clear();
            out.read_line(&mut line).unwrap();
            (line, child.wait().unwrap().code())
        });
        assert_eq!(ended.await.unwrap(), ("cleaned\n".to_owned(), Some(3)), "{signal}");
    }
}

#[tokio::test]
async fn an_image_gets_values_by_a_private_file_that_is_removed_and_never_by_arguments() {
    let (developer, docker) = (developer(""), Docker::new());
    std::fs::write(
        developer.work().join(".env"),
        format!("PASSWORD={VALUE}\nKEY=\"one\\n{VALUE}\"\n"),
    )
    .unwrap();
    let path = docker.path();
    let said = runs(&developer, &[("PATH", &path)], &["--tag", "1.10"]).await;
    said.ended(5, &["PASSWORD ("]);
    let calls = docker.read("calls");
    assert!(
        calls.starts_with("run --rm --init --name bart-shop-")
            && calls.trim_end().ends_with("example/shop:1.10"),
        "{calls}"
    );
    assert!(
        calls.contains("--publish 127.0.0.1:8000:8000") && calls.contains(":/etc/app:ro"),
        "{calls}"
    );
    assert!(!calls.contains(VALUE) && !said.err.contains(VALUE), "{calls} {}", said.err);
    assert_eq!(
        (docker.read("modes").as_str(), docker.read("volumes").as_str()),
        ("600\n", "a = 1")
    );
    assert_eq!(docker.read("env"), format!("MODE=slow\nPASSWORD={VALUE}\n"));
    assert_eq!(docker.read("inherited"), format!("KEY=one\n{VALUE}\n"));
    let file = docker.read("files");
    assert!(!file.is_empty() && !PathBuf::from(file.trim()).parent().unwrap().exists(), "{file}");
    runs(&developer, &[("PATH", &path)], &[])
        .await
        .ended(2, &["which image is to be run?", "--tag"]);
    let nowhere = folder::temporary();
    let nowhere = nowhere.path().to_str().unwrap().to_owned();
    let none = runs(&developer, &[("PATH", &nowhere)], &["--tag", "1.10"]).await;
    none.ended(2, &["neither docker nor podman"]);
}

#[tokio::test]
async fn dependencies_run_beside_the_app_and_are_removed_at_the_end() {
    let more = "    database: {engine: postgres, version: '16', tier: x, storage: 10Gi}\n    redis: {version: '7', memory: 1Gi}\n";
    let (developer, docker) = (developer(more), Docker::new());
    let path = docker.path();
    let script = "echo $REDIS_URL $DATABASE_HOST $DATABASE_NAME; test -n \"$DATABASE_PASSWORD\"";
    let run = ["--no-secrets", "--with-dependencies", "--", "sh", "-c", script];
    let said = runs(&developer, &[("PATH", &path)], &run).await;
    said.ended(
        0,
        &[
            "redis://127.0.0.1:6379/0 127.0.0.1 shop",
            "database runs as postgres:16",
            "PASSWORD is not set: there is no secret db/password",
        ],
    );
    let calls = docker.read("calls");
    let acts: Vec<_> =
        calls.lines().map(|line| line.split(" bart-").next().unwrap().to_owned()).collect();
    let start = "run --detach --rm --name";
    assert_eq!(
        acts,
        [
            "network create",
            start,
            start,
            "rm --force --volumes",
            "rm --force --volumes",
            "network rm"
        ],
        "{calls}"
    );
    assert!(calls.contains("--publish 127.0.0.1:5432:5432 postgres:16"), "{calls}");
    let env = docker.read("env");
    let password = env.lines().find_map(|line| line.strip_prefix("POSTGRES_PASSWORD=")).unwrap();
    assert!(
        password.len() == 64 && !calls.contains(password) && !said.err.contains(password),
        "{calls}"
    );
    let said = runs(
        &developer,
        &[("PATH", &path)],
        &["--no-secrets", "--with-dependencies", "--image", "shop:dev"],
    )
    .await;
    said.ended(5, &[]);
    let calls = docker.read("calls");
    assert!(
        calls.lines().any(
            |line| line.starts_with("run --rm --init") && line.contains("--network bart-shop-")
        ),
        "{calls}"
    );
    assert!(docker.read("env").contains("REDIS_URL=redis://redis:6379/0"));
}

#[tokio::test]
async fn secrets_come_from_the_store_with_the_persons_login_and_the_audit_log_has_their_names() {
    let vault = Vault::start().await;
    vault.put("devx/shop/db", json!({"password": VALUE, "other": "x"}));
    let config = format!(
        "clusters:\n- name: {TARGET}\n  environment: production\n  domain: apps.example.com\n  platform: {{secrets: {{vault: {{address: '{}', mount: {MOUNT}}}}}}}\n",
        vault.address()
    );
    let home = Home::configured(&config);
    home.commit("example/shop", &app(""));
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let (address, server) = (vault.address(), process.address().to_owned());
    let variables = [
        ("BART_SERVER", server.as_str()),
        ("VAULT_ADDR", address.as_str()),
        ("VAULT_TOKEN", TOKEN),
    ];
    let run = ["--", "sh", "-c", "echo $PASSWORD"];
    let said = runs(&developer, &variables, &run).await;
    said.ended(0, &["PASSWORD (secret db/password)"]);
    assert_eq!(said.out, format!("{VALUE}\n"));
    assert!(!said.err.contains(VALUE), "{}", said.err);
    let audit = process.request(Method::GET, "/api/v1/audit").send().await.unwrap();
    let audit: Json = audit.json().await.unwrap();
    let entry = &audit["entries"][0];
    assert_eq!((&entry["act"], &entry["subject"]), (&json!("secrets-run"), &json!("db/password")));
    assert!(!audit.to_string().contains(VALUE) && !process.log().contains(VALUE));

    let written = runs(&developer, &variables, &["--env-file", "dev.env"]).await;
    written.ended(0, &["wrote 2 variables to dev.env"]);
    let file = developer.work().join("dev.env");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("MODE=slow\nPASSWORD={VALUE}\n"));
    runs(&developer, &variables, &["--env-file", "dev.env"])
        .await
        .ended(2, &["dev.env is there already"]);
    // What a file has is not asked for.
    vault.lock().seen.clear();
    runs(&developer, &variables, &["--from-env", "dev.env", "--", "sh", "-c", "echo $PASSWORD"])
        .await
        .ended(0, &[VALUE]);
    assert!(!vault.was_read());
    drop(process);
    let away = runs(&developer, &variables, &run).await;
    away.ended(2, &["cannot reach", "--no-secrets"]);
    let mut alone = developer
        .bart(&variables, &["run", TARGET, "--no-secrets", "--", "sh", "-c", "echo .$PASSWORD."]);
    let said = Said::of(&alone.stdin(Stdio::null()).output().unwrap());
    said.ended(0, &["..", "PASSWORD is not set"]);
}
