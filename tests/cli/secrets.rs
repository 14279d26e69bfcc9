//! `bart secrets`: lists and changes secrets with a person's own login, in a Vault and in a cluster.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tokio::sync::Barrier;

use crate::harness::developer::{Developer, Said};
use crate::harness::events::waml;
use crate::harness::process::{Home, Process};
use crate::harness::secret_stores::cluster::SecretCluster;
use crate::harness::secret_stores::vault::{GITHUB, MOUNT, READER, ROLE, TOKEN, Vault};
use crate::harness::terminal::on_a_terminal;

const TARGET: &str = "prod-cluster-1";
const DB: &str = "devx/shop/db";
/// A value that must be nowhere but in the store.
const VALUE: &str = "hunter2-v4lue";

fn config(of_target: &str, of_staging: &str) -> String {
    let cluster = |name: &str, platform: &str| {
        format!(
            "- name: {name}\n  environment: production\n  domain: apps.example.com\n  platform: {platform}\n"
        )
    };
    format!("clusters:\n{}{}", cluster(TARGET, of_target), cluster("staging", of_staging))
}

fn in_vault(vault: &Vault) -> String {
    format!("{{secrets: {{vault: {{address: '{}', mount: {MOUNT}}}}}}}", vault.address())
}

/// A WAML with a key of `db`, and `tls` as a folder.
fn with_secrets() -> String {
    let secrets = "    env: [{name: PASSWORD, secret: {name: db, key: password}}]\n    secrets: [{name: tls, mountPath: /tls, optional: true}]\n";
    let text = waml("shop").replace("    env: [{name: MY_ENV_NAME, value: some-value}]\n", secrets);
    format!("{text}  staging:\n{secrets}")
}

struct World {
    home: Home,
    process: Process,
    developer: Developer,
    variables: Vec<(String, String)>,
}

impl World {
    async fn start(config: &str) -> Self {
        let home = Home::configured(config);
        home.commit("example/shop", &with_secrets());
        let process = home.start().await;
        let developer = Developer::cloned(&home.state("repos/example/shop.git"));
        let variables = vec![("BART_SERVER".to_owned(), process.address().to_owned())];
        Self { home, process, developer, variables }
    }

    async fn with_vault(vault: &Vault) -> Self {
        let mut world = Self::start(&config(&in_vault(vault), &in_vault(vault))).await;
        world.logged_in(vault, TOKEN);
        world
    }

    fn logged_in(&mut self, vault: &Vault, token: &str) {
        self.variables.push(("VAULT_ADDR".to_owned(), vault.address()));
        self.variables.push(("VAULT_TOKEN".to_owned(), token.to_owned()));
    }

    fn bart(&self, arguments: &[&str]) -> Command {
        let variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.developer.bart(&variables, arguments)
    }

    async fn runs(&self, arguments: &[&str]) -> Said {
        self.typed(arguments, "").await
    }

    /// Runs it with that standard input.
    async fn typed(&self, arguments: &[&str], input: &str) -> Said {
        let mut command = self.bart(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // One that is refused before it reads closes its input.
        let _is_closed = child.stdin.take().unwrap().write_all(input.as_bytes());
        Said::until_the_end_of(child).await
    }

    async fn audit(&self) -> Vec<Json> {
        let answer = self.process.request(Method::GET, "/api/v1/audit").send().await.unwrap();
        let page: Json = answer.json().await.unwrap();
        page["entries"].as_array().unwrap().clone()
    }

    /// Nothing that is written outside of the store has the value.
    async fn leaks_nothing(&self, said: &[&Said]) {
        let audit = format!("{:?}", self.audit().await);
        for text in said.iter().map(|said| format!("{said:?}")).chain([audit, self.process.log()]) {
            for secret in [VALUE, TOKEN] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_value_is_set_listed_and_removed_and_the_audit_log_has_its_name_alone() {
    let vault = Vault::start().await;
    vault.put(DB, json!({"user": "shop", "port": 5432}));
    let world = World::with_vault(&vault).await;
    let set = world.typed(&["secrets", "set", TARGET, "db/password"], &format!("{VALUE}\n")).await;
    set.ended(0, &["set db/password on prod-cluster-1: version 2 of kv/devx/shop/db in Vault"]);
    assert_eq!(
        vault.newest(DB),
        (2, json!({"user": "shop", "port": 5432, "password": VALUE})),
        "the others stay as they are"
    );

    vault.lock().seen.clear();
    let list = world.runs(&["secrets", "list", TARGET]).await;
    list.ended(0, &["db/password", "PASSWORD", "tls", "no (optional)", "db/user"]);
    assert!(!vault.was_read(), "no value is read for the list");
    let rows = world.runs(&["secrets", "list", TARGET, "-o", "json"]).await.ended(0, &[]).json();
    let row = |key: Option<&str>| {
        let rows = rows["secrets"].as_array().unwrap();
        rows.iter().find(|row| row["key"].as_str() == key).unwrap().clone()
    };
    let password = row(Some("password"));
    assert_eq!(
        (&password["wanted"], &password["exists"], &password["version"]),
        (&json!(true), &json!(true), &json!("2"))
    );
    assert!(
        password["since"].as_str().unwrap().starts_with("2026-01-01T")
            && password.get("value").is_none()
    );
    assert_eq!(
        (&row(Some("user"))["wanted"], &row(None)["secret"]),
        (&json!(false), &json!("tls"))
    );

    let removed = world.runs(&["secrets", "unset", TARGET, "db/user"]).await;
    removed.ended(0, &["removed db/user", "version 3"]);
    assert_eq!(vault.newest(DB).1, json!({"port": 5432, "password": VALUE}));
    world.runs(&["secrets", "unset", TARGET, "db/user"]).await.ended(1, &["there is no key user"]);
    world.leaks_nothing(&[&set, &list, &removed]).await;

    let revealed = world.runs(&["secrets", "list", TARGET, "--reveal"]).await;
    revealed.ended(0, &[VALUE]);
    let acts: Vec<_> = world
        .audit()
        .await
        .iter()
        .map(|entry| {
            (
                entry["act"].clone(),
                entry["subject"].clone(),
                entry["target"].clone(),
                entry["app"].clone(),
            )
        })
        .collect();
    let entry =
        |act: &str, subject: &str| (json!(act), json!(subject), json!(TARGET), json!("devx/shop"));
    assert_eq!(
        acts,
        [
            entry("secrets-reveal", "db/password, db/port"),
            entry("secrets-unset", "db/user"),
            entry("secrets-set", "db/password"),
        ]
    );
    world.leaks_nothing(&[]).await;
}

#[tokio::test]
async fn of_writers_at_the_same_time_one_wins_and_the_others_are_told() {
    const WRITERS: usize = 4;
    let vault = Vault::start().await;
    vault.put(DB, json!({"user": "shop"}));
    let world = World::with_vault(&vault).await;
    vault.lock().readers = Some(Arc::new(Barrier::new(WRITERS)));
    let writers = (0..WRITERS).map(|n| {
        let (key, value) = (format!("db/key{n}"), format!("value-{n}"));
        let world = &world;
        async move { world.typed(&["secrets", "set", TARGET, &key], &value).await }
    });
    let ends = futures::future::join_all(writers).await;
    let winners: Vec<_> = ends.iter().filter(|said| said.code == Some(0)).collect();
    assert_eq!(winners.len(), 1, "{ends:?}");
    for loser in ends.iter().filter(|said| said.code != Some(0)) {
        loser.ended(
            1,
            &["another writer changed the secret after it was read: nothing was written"],
        );
    }
    let (version, data) = vault.newest(DB);
    assert_eq!(
        (version, data.as_object().unwrap().len()),
        (2, 2),
        "the winner's key beside the old one: {data}"
    );
    assert_eq!(world.audit().await.len(), 1, "the log has what was done");
}

#[tokio::test]
async fn a_value_comes_from_a_file_or_standard_input_and_never_from_an_argument() {
    let vault = Vault::start().await;
    let world = World::with_vault(&vault).await;
    std::fs::write(world.developer.work().join("key.pem"), "line\n\n").unwrap();
    world
        .runs(&["secrets", "set", TARGET, "tls/key.pem", "--from-file", "key.pem"])
        .await
        .ended(0, &["version 1"]);
    assert_eq!(vault.newest("devx/shop/tls").1, json!({"key.pem": "line\n\n"}), "every byte");
    let empty = world.typed(&["secrets", "set", TARGET, "tls/key.pem"], "\n").await;
    empty.ended(2, &["the value is empty"]);
    let argument = world.runs(&["secrets", "set", TARGET, "db/password", VALUE]).await;
    assert_eq!(argument.code, Some(2), "{argument:?}");
    let pasted = world.runs(&["secrets", "set", TARGET, &format!("db/password={VALUE}")]).await;
    pasted.ended(2, &["write a key as SECRET/KEY"]);
    assert!(!format!("{pasted:?}").contains(VALUE), "{pasted:?}");
    let unknown = world.typed(&["secrets", "set", TARGET, "bd/password"], VALUE).await;
    unknown.ended(2, &["the WAML wants no secret `bd`", "db"]);
    let target = world.runs(&["secrets", "list", "prod-cluster"]).await;
    target.ended(2, &["the WAML has no target `prod-cluster`", TARGET]);
    std::fs::write(world.developer.work().join("binary"), [0xff, 0]).unwrap();
    let binary =
        world.runs(&["secrets", "set", TARGET, "tls/binary", "--from-file", "binary"]).await;
    binary.ended(2, &["is not text"]);
}

#[tokio::test]
async fn a_terminal_does_not_show_what_is_typed() {
    if crate::harness::is_missing("script", "the prompt on a terminal") {
        return;
    }
    let vault = Vault::start().await;
    let world = World::with_vault(&vault).await;
    let bart = world.bart(&[]);
    let mut script = on_a_terminal(
        &format!("{} secrets set {TARGET} db/password", env!("CARGO_BIN_EXE_bart")),
        200,
    );
    script.env_clear().envs(bart.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.current_dir(world.developer.work()).env("SHELL", "/bin/sh");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let shown = tokio::task::spawn_blocking(move || {
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = Vec::new();
        let mut part = [0; 1024];
        let mut is_typed = false;
        loop {
            let read = output.read(&mut part).unwrap_or(0);
            if read == 0 {
                break;
            }
            shown.extend_from_slice(&part[..read]);
            if !is_typed && String::from_utf8_lossy(&shown).contains("(not shown): ") {
                input.write_all(format!("{VALUE}\n").as_bytes()).unwrap();
                input.flush().unwrap();
                is_typed = true;
            }
        }
        child.wait().unwrap();
        String::from_utf8_lossy(&shown).into_owned()
    });
    let shown = shown.await.unwrap();
    assert!(
        shown.contains("Value of db/password on prod-cluster-1") && shown.contains("version 1"),
        "{shown}"
    );
    assert!(!shown.contains(VALUE), "{shown}");
    assert_eq!(vault.newest(DB).1, json!({"password": VALUE}));
}

#[tokio::test]
async fn secrets_are_copied_to_another_target_and_what_is_there_stays() {
    let (from, to) = (Vault::start().await, Vault::start().await);
    from.put(DB, json!({"password": VALUE, "other": "x"}));
    from.put("devx/shop/tls", json!({"cert": "c", "key": "k"}));
    to.put("devx/shop/tls", json!({"cert": "own"}));
    let mut world = World::start(&config(&in_vault(&to), &in_vault(&from))).await;
    // A login for each of the two.
    for target in [TARGET, "staging"] {
        let login = ["secrets", "login", target, "--method", "token"];
        world
            .typed(&login, &format!("{TOKEN}\n"))
            .await
            .ended(0, &["logged in at http://127.0.0.1", "token-ada"]);
    }
    let copy = world.runs(&["secrets", "copy", "staging", TARGET]).await;
    copy.ended(
        0,
        &[
            "copied 2 keys from staging to prod-cluster-1",
            "db/password",
            "tls/key",
            "there already, see --overwrite: tls/cert",
        ],
    );
    assert_eq!(to.newest(DB).1, json!({"password": VALUE}), "only what the WAML wants");
    assert_eq!(to.newest("devx/shop/tls").1, json!({"cert": "own", "key": "k"}));
    world.leaks_nothing(&[&copy]).await;
    let entry = &world.audit().await[0];
    assert_eq!(
        (&entry["act"], &entry["subject"]),
        (&json!("secrets-copy"), &json!("db/password (from staging)"))
    );
    world
        .runs(&["secrets", "copy", "staging", TARGET, "tls", "--overwrite"])
        .await
        .ended(0, &["tls/cert"]);
    assert_eq!(to.newest("devx/shop/tls").1, json!({"cert": "c", "key": "k"}));
    world.runs(&["secrets", "copy", TARGET, TARGET]).await.ended(2, &["name two targets"]);
    // Another Vault's token is not sent.
    world.logged_in(&from, TOKEN);
    world.runs(&["secrets", "list", TARGET]).await.ended(0, &[]);
}

#[tokio::test]
async fn what_vault_refuses_is_told_with_what_to_do() {
    let vault = Vault::start().await;
    let mut world = World::start(&config(&in_vault(&vault), &in_vault(&vault))).await;
    let list = ["secrets", "list", TARGET];
    world.runs(&list).await.ended(1, &["you are not logged in at Vault", "bart secrets login"]);
    world.variables.push(("VAULT_TOKEN".to_owned(), TOKEN.to_owned()));
    world.runs(&list).await.ended(1, &["with VAULT_ADDR=", "to say that it is for this Vault"]);
    assert!(vault.lock().seen.is_empty(), "no token goes where it may not belong");
    world.logged_in(&vault, "hvs.wrong");
    world.runs(&list).await.ended(1, &["does not let you use kv/data/devx/shop", "(403)"]);
    world.logged_in(&vault, READER);
    world.runs(&list).await.ended(0, &["MISSING"]);
    let set = ["secrets", "set", TARGET, "db/password"];
    let refused = world.typed(&set, VALUE).await;
    refused.ended(1, &["does not let you use kv/data/devx/shop/db (403)"]);
    world.leaks_nothing(&[&refused]).await;
    assert!(world.audit().await.is_empty(), "nothing was done");
    // A deleted version counts: the next one follows it.
    vault.put(DB, json!({"password": "old"}));
    vault.delete(DB);
    world.logged_in(&vault, TOKEN);
    world.runs(&list).await.ended(0, &["MISSING"]);
    world.typed(&set, VALUE).await.ended(0, &["version 2"]);
    vault.lock().is_old = true;
    world.runs(&list).await.ended(0, &["db/password"]);
    // Vault's own file, where VAULT_ADDR names the same Vault.
    std::fs::create_dir_all(world.developer.home("")).unwrap();
    std::fs::write(world.developer.home(".vault-token"), format!("{TOKEN}\n")).unwrap();
    world.variables.retain(|(name, _)| name != "VAULT_TOKEN");
    world.runs(&list).await.ended(0, &["db/password"]);
}

#[tokio::test]
async fn people_log_in_at_vault_through_the_browser_or_by_github() {
    use std::os::unix::fs::PermissionsExt as _;
    if crate::harness::is_missing("curl", "the login through the browser") {
        return;
    }
    let vault = Vault::start().await;
    vault.put(DB, json!({"password": VALUE}));
    let mut world = World::start(&config(&in_vault(&vault), &in_vault(&vault))).await;
    let browser = world.developer.home("browser");
    std::fs::create_dir_all(world.developer.home("")).unwrap();
    std::fs::write(
        &browser,
        "#!/bin/sh\ncurl --silent --location --max-time 20 \"$1\" >/dev/null 2>&1 &\n",
    )
    .unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.variables.push(("BROWSER".to_owned(), browser.to_str().unwrap().to_owned()));
    let oidc = ["secrets", "login", TARGET, "--method", "oidc", "--role", ROLE, "--port", "0"];
    let said = world.runs(&oidc).await;
    said.ended(0, &["Log in in the browser", "logged in at http://127.0.0.1", "as developer"]);
    let file = world.developer.home(".config/bart/vault-logins.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(
        !format!("{said:?}").contains("hvs.granted")
            && std::fs::read_to_string(&file).unwrap().contains("hvs.granted")
    );
    world.runs(&["secrets", "list", TARGET]).await.ended(0, &["db/password"]);

    vault.lock().denied = true;
    world
        .runs(&oidc)
        .await
        .ended(1, &["the identity provider refuses the login: not in the group"]);
    vault.lock().redirects = vec!["http://localhost:8250/oidc/callback".to_owned()];
    world.runs(&oidc).await.ended(1, &["the role must allow the redirect http://localhost:"]);
    let other = ["secrets", "login", TARGET, "--role", "nobody", "--port", "0"];
    world.runs(&other).await.ended(1, &["could not be found"]);

    std::fs::remove_file(&file).unwrap();
    let github = ["secrets", "login", TARGET, "--method", "github"];
    world.variables.push(("GH_TOKEN".to_owned(), "ghp_wrong".to_owned()));
    let wrong = world.runs(&github).await;
    wrong.ended(1, &["refuses the login by github (400)", "Bad credentials"]);
    world.variables.push(("BART_GITHUB_TOKEN".to_owned(), GITHUB.to_owned()));
    world.runs(&github).await.ended(0, &["as ada"]);
    world.runs(&["secrets", "list", TARGET]).await.ended(0, &["db/password"]);
}

#[tokio::test]
async fn secrets_of_a_cluster_are_changed_with_a_persons_kubeconfig() {
    let cluster = SecretCluster::start().await;
    let world = World::start(&config("{}", "{}")).await;
    let file = cluster.kubeconfig(&world.developer.work(), &[TARGET, "other"]);
    let kubeconfig = ["--kubeconfig", file.to_str().unwrap()];
    let set = [&["secrets", "set", TARGET, "db/password"], &kubeconfig[..]].concat();
    let said = world.typed(&set, VALUE).await;
    said.ended(0, &["version 1 of the Secret devx/db of the context prod-cluster-1"]);
    let path = "/api/v1/namespaces/devx/secrets/db";
    let value = cluster.lock().objects[path]["data"]["password"].clone();
    assert_eq!(value, "aHVudGVyMi12NGx1ZQ==");
    let list = world.runs(&[&["secrets", "list", TARGET], &kubeconfig[..]].concat()).await;
    list.ended(0, &["db/password", "yes", "no (optional)"]);
    // The loser of two writers is told, whether the Secret was there before or not.
    cluster.lock().is_overtaken = true;
    world
        .typed(&set, "other")
        .await
        .ended(1, &["another writer changed the secret", "nothing was written"]);
    cluster.lock().objects.clear();
    cluster.lock().is_overtaken = true;
    world.typed(&set, "other").await.ended(1, &["another writer changed the secret"]);
    // What an operator makes is changed where it comes from.
    let owner = json!([{"kind": "ExternalSecret", "name": "db"}]);
    cluster.lock().objects.get_mut(path).unwrap()["metadata"]["ownerReferences"] = owner;
    world.typed(&set, VALUE).await.ended(1, &["is made by the ExternalSecret db"]);
    let staging = [&["secrets", "list", "staging"], &kubeconfig[..]].concat();
    world.runs(&staging).await.ended(2, &["is staging?", "--context: prod-cluster-1, other"]);
    world.runs(&[&staging[..], &["--context", "other"]].concat()).await.ended(0, &["db/password"]);
    world.leaks_nothing(&[&said, &list]).await;
}

#[tokio::test]
async fn the_store_of_external_secrets_is_found_in_the_cluster() {
    let (vault, cluster) = (Vault::start().await, SecretCluster::start().await);
    vault.put(DB, json!({"password": VALUE}));
    let mut world = World::start(&config("{secrets: {delivery: external-secrets}}", "{}")).await;
    world.logged_in(&vault, TOKEN);
    let file = cluster.kubeconfig(&world.developer.work(), &[TARGET]);
    let list = ["secrets", "list", TARGET, "--kubeconfig", file.to_str().unwrap()];
    world.runs(&list).await.ended(1, &["has no ClusterSecretStore vault"]);
    let path = "/apis/external-secrets.io/v1/clustersecretstores/vault".to_owned();
    let provider = json!({"vault": {"server": vault.address(), "path": MOUNT, "version": "v2"}});
    cluster.lock().objects.insert(path.clone(), json!({"spec": {"provider": provider}}));
    world.runs(&list).await.ended(0, &["db/password", "PASSWORD"]);
    let aws = json!({"spec": {"provider": {"aws": {"service": "SecretsManager"}}}});
    cluster.lock().objects.insert(path, aws);
    world.runs(&list).await.ended(1, &["is of aws, which bart cannot write to"]);
    assert!(world.home.state("").exists());
}
