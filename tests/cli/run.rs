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

/// Records what it is given, the call last. The app goes on until a call has the text of `WAIT_FOR`, if there is one, and ends with 5.
const DOCKER: &str = r#"#!/bin/sh
home=$(dirname "$0")
if [ "$1" = container ]; then echo "${RUNNING:-true}"; exit 0; fi
last=
for one in "$@"; do
  case "$last" in
  --env-file) stat -c %a "$one" >>"$home/modes"; echo "$one" >>"$home/files"; cat "$one" >>"$home/env";;
  --env) eval "echo \"$one=\$$one\"" >>"$home/inherited";;
  --volume) cat "${one%%:*}"/* >>"$home/volumes";;
  esac
  last=$one
done
echo "$@" >>"$home/calls"
case "$*" in
*"${FAIL:-no such call}"*) exit 125;;
*--detach*|network*|rm*) exit 0;;
esac
tries=0
while [ -n "$WAIT_FOR" ] && [ $tries -lt 200 ] && ! grep -q -e "$WAIT_FOR" "$home/calls"; do
  sleep 0.05
  tries=$((tries + 1))
done
exit 5
"#;

/// A program that is called `docker` and records its arguments, and the env files that it reads.
struct Docker(tempfile::TempDir);

impl Docker {
    fn new() -> Self {
        let this = Self(folder::temporary());
        let path = this.0.path().join("docker");
        std::fs::write(&path, DOCKER).unwrap();
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
        .ended(2, &["which image is to be run? no service is configured", "--tag"]);
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
async fn a_process_runs_with_its_own_settings_over_those_of_the_app() {
    let more = "    args: [all]\n    processes: {web: {args: [serve], env: [{name: LEVEL, value: debug}]}, worker: {args: [work]}}\n    \
                ports: [{name: dns, number: 5353, protocol: UDP}]\n";
    let (developer, docker) = (developer(more), Docker::new());
    let path = docker.path();
    let variables = [("PATH", path.as_str())];
    let web = runs(&developer, &variables, &["--no-secrets", "--tag", "1"]).await;
    web.ended(5, &["LEVEL (the WAML)", "ports 5353/udp, 8000"]);
    let calls = docker.read("calls");
    assert!(calls.trim_end().ends_with("example/shop:1 serve"), "{calls}");
    assert!(
        calls.contains("--publish 127.0.0.1:5353:5353/udp --publish 127.0.0.1:8000:8000"),
        "{calls}"
    );
    assert_eq!(docker.read("env"), "LEVEL=debug\nMODE=slow\n");
    let worker = ["--no-secrets", "--tag", "1", "--process", "worker"];
    let worker = runs(&developer, &variables, &worker).await;
    worker.ended(5, &["MODE (the WAML)"]);
    assert!(!worker.err.contains("LEVEL") && !worker.err.contains("ports"), "{worker:?}");
    let calls = docker.read("calls");
    assert!(calls.trim_end().ends_with("example/shop:1 work"), "{calls}");
    runs(&developer, &[], &["--process", "mailer", "--", "true"])
        .await
        .ended(2, &["no process `mailer` on prod-cluster-1", "`web` and `worker`"]);
}

#[tokio::test]
async fn what_whole_config_maps_and_secrets_would_set_is_named() {
    let more = "    configMaps: [{name: flags}, {name: tuning, optional: true}]\n    secrets: [{name: keys}]\n";
    let developer = developer(more);
    let said = runs(&developer, &[], &["--no-secrets", "--", "true"]).await;
    said.ended(
        0,
        &[
            "the ConfigMap flags is not set: it is in the cluster, and each of its keys is a variable\n",
            "the ConfigMap tuning is not set: it is in the cluster, and each of its keys is a variable; the app starts without it",
            "the secret keys is not set: each of its keys is a variable, and none was read",
            "--from-env FILE",
        ],
    );
}

/// A sidecar with an image of its own, and one with the app's.
const SIDECARS: &str = "    sidecars:
    - name: proxy
      image: ghcr.io/acme/proxy:1.2
      args: [--fast]
      env: [{name: LEVEL, value: info}, {name: TOKEN, secret: {name: proxy, key: token}}]
      ports: [{name: dns, number: 5353, protocol: UDP}]
      mounts: [{name: conf, mountPath: /etc/proxy}]
    - {name: tail, args: [--tail]}
";

#[tokio::test]
async fn sidecars_share_the_network_of_the_apps_container_and_are_removed_with_it() {
    let (developer, docker) = (developer(SIDECARS), Docker::new());
    let path = docker.path();
    std::fs::write(developer.work().join(".env"), format!("KEY=\"a\\n{VALUE}\"\n")).unwrap();
    let variables = [("PATH", path.as_str()), ("WAIT_FOR", "sidecar-tail")];
    let said = runs(
        &developer,
        &variables,
        &["--no-secrets", "--with-dependencies", "--tag", "1", "--set", "LEVEL=debug"],
    )
    .await;
    said.ended(
        5,
        &[
            "sidecar proxy: 1 variables\n   LEVEL (the command line)",
            "/etc/proxy/app.toml (the WAML)",
            "TOKEN of the sidecar proxy is not set: there is no secret proxy/token",
            "the sidecar proxy runs as ghcr.io/acme/proxy:1.2, in the container bart-shop-",
        ],
    );
    let calls = docker.read("calls");
    assert!(!calls.contains(VALUE) && !said.err.contains(VALUE), "{calls} {}", said.err);
    let calls: Vec<&str> = calls.lines().collect();
    // The stand-in says at once that the app runs, so that a sidecar's call may be first.
    let find_call = |part: &str| {
        let call = calls.iter().find(|call| call.contains(part));
        call.copied().unwrap_or_else(|| panic!("{part}: {calls:#?}"))
    };
    let app = find_call("run --rm --init --name ");
    let (proxy, tail) =
        (find_call("sidecar-proxy --network "), find_call("sidecar-tail --network "));
    let removed: Vec<_> =
        calls.iter().filter_map(|call| call.strip_prefix("rm --force --volumes ")).collect();
    let name = app.strip_prefix("run --rm --init --name ").unwrap().split(' ').next().unwrap();
    assert!(app.contains("--publish 127.0.0.1:5353:5353/udp"), "the app's network has it: {app}");
    let start = |sidecar: &str| {
        format!(
            "run --detach --rm --name {name}-sidecar-{sidecar} --network container:{name} --env-file "
        )
    };
    assert!(proxy.starts_with(&start("proxy")) && !proxy.contains("--publish"), "{proxy}");
    assert!(proxy.ends_with(":/etc/proxy:ro ghcr.io/acme/proxy:1.2 --fast"), "{proxy}");
    assert!(tail.starts_with(&start("tail")) && tail.contains(" --env KEY "), "{tail}");
    assert!(tail.contains(":/etc/app:ro") && tail.ends_with("example/shop:1 --tail"), "{tail}");
    let [first, second] = ["proxy", "tail"].map(|one| format!("{name}-sidecar-{one}"));
    assert_eq!(removed, [first.as_str(), &second, name], "the app after whom shares its network");
    let env = docker.read("env");
    let mut env: Vec<&str> = env.lines().collect();
    env.sort_unstable();
    assert_eq!(env, ["LEVEL=debug", "LEVEL=debug", "LEVEL=debug", "MODE=slow", "MODE=slow"]);
    assert_eq!(docker.read("inherited"), format!("KEY=a\n{VALUE}\n").repeat(2));
}

#[tokio::test]
async fn a_sidecar_that_cannot_start_ends_the_app() {
    let (developer, docker) = (developer(SIDECARS), Docker::new());
    let path = docker.path();
    let variables =
        [("PATH", path.as_str()), ("FAIL", "sidecar-proxy --network"), ("WAIT_FOR", "^rm ")];
    let run = ["--no-secrets", "--with-dependencies", "--tag", "1"];
    runs(&developer, &variables, &run).await.ended(2, &["docker run failed"]);
    let calls = docker.read("calls");
    let removed = calls.lines().filter(|line| line.starts_with("rm --force --volumes bart-shop-"));
    assert_eq!(removed.count(), 3, "the app and its sidecars: {calls}");
    // An app that ends before its sidecars could start leaves nothing either.
    let variables = [("PATH", path.as_str()), ("RUNNING", "false")];
    runs(&developer, &variables, &run).await.ended(5, &[]);
}

/// `bart run` checks no WAML, and writes files that are called after what stands in it.
#[tokio::test]
async fn a_name_in_the_waml_leads_to_no_file_outside_the_runs_folder() {
    let sidecar = app(SIDECARS).replace("name: proxy", "name: ../../proxy");
    let file = app(SIDECARS).replace("app.toml:", "../../app.toml:");
    for (waml, said) in [
        (sidecar, "\"../../proxy\" is not a legal name of a sidecar"),
        (file, "\"../../app.toml\" is no name of a file"),
    ] {
        let developer = Developer::of("https://github.example.com/example/shop", &waml);
        let docker = Docker::new();
        let path = docker.path();
        let run = ["--no-secrets", "--with-dependencies", "--tag", "1"];
        runs(&developer, &[("PATH", path.as_str())], &run).await.ended(2, &[said]);
    }
    // A command has the files below a folder.
    let folder = app("").replace("/etc/app", "/../../app");
    let file = app("").replace("app.toml:", "../../app.toml:");
    for (waml, said) in [
        (folder, "leads out of the run's folder"),
        (file, "\"../../app.toml\" is no name of a file"),
    ] {
        let developer = Developer::of("https://github.example.com/example/shop", &waml);
        runs(&developer, &[], &["--no-secrets", "--", "true"]).await.ended(2, &[said]);
    }
}

#[tokio::test]
async fn sidecars_of_a_command_publish_their_ports_and_need_an_image_of_their_own() {
    let (developer, docker) = (developer(SIDECARS), Docker::new());
    let path = docker.path();
    let said = runs(
        &developer,
        &[("PATH", &path)],
        &["--no-secrets", "--with-dependencies", "--", "sh", "-c", "echo $MODE $LEVEL"],
    )
    .await;
    said.ended(0, &["the sidecar tail does not run: it has the app's image"]);
    assert_eq!(said.out, "slow\n", "a sidecar's variables are its own");
    let calls = docker.read("calls");
    let calls: Vec<&str> = calls.lines().collect();
    let [proxy, removed] = calls[..] else { panic!("{calls:#?}") };
    assert!(proxy.starts_with("run --detach --rm --name bart-shop-"), "{proxy}");
    assert!(proxy.contains(" --publish 127.0.0.1:5353:5353/udp "), "{proxy}");
    assert!(removed.starts_with("rm --force --volumes bart-shop-"), "{removed}");
}

#[tokio::test]
async fn the_image_is_the_one_that_is_live_on_the_target() {
    let home = Home::embedded();
    home.commit("example/shop", &waml("shop"));
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let docker = Docker::new();
    let path = docker.path();
    let server = process.address().to_owned();
    let variables = [("PATH", path.as_str()), ("BART_SERVER", server.as_str())];
    let not_live = "which image is to be run? devx/shop is not live on prod-cluster-1";
    runs(&developer, &variables, &[]).await.ended(2, &[not_live, "--tag"]);
    developer.runs(&variables, &["deploy", "1.0", TARGET]).await.ended(0, &[]);
    runs(&developer, &variables, &[])
        .await
        .ended(5, &["runs 1.0, which is live on prod-cluster-1"]);
    let calls = docker.read("calls");
    assert!(calls.trim_end().ends_with("example/shop:1.0"), "{calls}");
    drop(process);
    let away = runs(&developer, &variables, &[]).await;
    away.ended(2, &["which image is to be run? cannot reach", "--tag"]);
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
