//! Tests of the configuration as a whole, and the helpers that the tests of its areas share.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret as _;

use crate::cluster::connection::settings::{ClusterAccess, ClusterSettings, ClusterSource};
use crate::config::access::GitAccess;
use crate::config::forge::{ForgeSettings, GitHubCredentials};
use crate::config::settings::Settings;
use crate::config::templates::TemplatesSettings;
use crate::config::webhook::WebhookSecret;
use crate::config::{LoadedConfig, SettingsSources, schema};
use crate::lookups::clients::SecretStoreSettings;
use crate::lookups::vault;
use crate::model::callers::Pages;
use crate::model::id::{RepoName, TargetName};
use crate::model::target::{Clusters, Environment};
use crate::model::violation::{Rejection, Violation};
use crate::notify::bigquery::BigQuerySettings;
use crate::notify::slack::SlackTransport;

pub(super) fn sources(text: Option<&str>, variables: &[(&str, &str)]) -> SettingsSources {
    let to_owned_pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    SettingsSources {
        file: text.map(|text| ("config.yaml".to_owned(), text.to_owned())),
        variables: variables.iter().map(to_owned_pair).collect(),
        home: ".the-deployer".into(),
    }
}

pub(super) const SECRETS: [(&str, &str); 4] = [
    ("TOKEN", "t0ken-text"),
    ("HOOK", "h00k-text"),
    ("BOT", "xoxb-b0t-text"),
    ("SIGNING", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
];

pub(super) fn loaded(text: &str) -> LoadedConfig {
    sources(Some(text), &SECRETS).load().unwrap_or_else(|rejection| panic!("{rejection:#?}"))
}

/// The violations, one a line.
pub(super) fn refused(text: &str) -> String {
    lines(sources(Some(text), &SECRETS).load().map(|loaded| loaded.settings))
}

pub(super) fn lines(result: Result<Settings, Rejection>) -> String {
    let rejection = result.expect_err("refused");
    let line = |v: &Violation| format!("{v}; {}\n", v.help.as_deref().unwrap_or("no help"));
    rejection.violations.iter().map(line).collect()
}

pub(super) const WHOLE: &str = r#"
server: {listen: "0.0.0.0:9000", external_url: "https://deployer.example.com/", shutdown_grace: 1m}
storage: {url: "postgres://deployer@db/deployer", folder: /var/lib/the-deployer, retention_days: 90}
forge:
  github:
    api_url: https://github.example.com/api/v3
    token: {env: TOKEN}
    webhook_secret: {env: HOOK}
    repositories: [acme/*]
    tasks: [deploy, release]
    tag: "{ref}"
waml: {path: deploy/weave.yaml, max_bytes: 1000}
templates: {path: /etc/templates}
manifests:
  repositories:
  - name: production
    url: https://git.example.com/manifests.git
    branch: live
    targets: ["prod-*"]
    token: {env: TOKEN}
    identity: {name: Deployer, email: deployer@example.com}
  - {name: rest, url: /srv/rest.git}
clusters:
- name: prod-1
  environment: production
  domain: prod.example.com
  labels: {region: eu}
  argocd: {namespace: gitops, project: platform, webhook: {url: "https://argo/api/webhook", secret: {env: HOOK}}}
  platform: {secrets: {vault: {address: "https://vault.example.com", mount: kv}}}
  lookups: {secrets: vault, vault: {token: {env: TOKEN}, namespace: team}}
- name: dev
  environment: development
  domain: dev.example.com
  server: "https://10.0.0.1:6443"
  kubernetes: {token: {env: TOKEN}}
  progress: {patience: 3m, previews: true}
fleets:
- {name: everywhere, clusters: {fleets: [europe]}}
- {name: europe, clusters: {names: ["prod-*"], labels: {region: eu}}}
outbound:
  proxy: http://proxy.example.com:3128
  proxy_username: deployer
  proxy_password: {env: HOOK}
  no_proxy: [internal.example.com, 10.0.0.0/8]
  private_networks: [10.1.0.0/16, "fd00::/8"]
registries:
- {host: ghcr.io, username: deployer, password: {env: HOOK}}
- {host: "localhost:5000", insecure: true}
- {host: "*"}
gates:
  prometheus: {url: "https://prometheus.example.com", token: {env: TOKEN}, timeout: 3s}
  alertmanager: {url: "http://alertmanager.monitoring:9093"}
  http: {allowed_hosts: ["*.example.com"]}
notify:
  slack:
    token: {env: BOT}
    default_channel: deploys
    api_url: https://slack.example.com/api/
    people: {octocat: U0123456}
    email: "{login}@example.com"
    direct_messages: false
  webhooks:
  - {name: warehouse, url: "https://w.example.com/in", secret: {env: SIGNING}}
  bigquery: {project: acme-analytics, dataset: dw, table: ends, endpoint: "https://bq.example.com/"}
auth:
  pages: open
  sessions: {idle: 1h, longest: 12h}
  tokens:
  - {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
  - {name: bart, env: TOKEN}
limits: {workers: 8, lease: 45s, lookups: 7s, body: 2000000, body_timeout: 5s, header_timeout: 4s,
  idle_timeout: 61s, write_timeout: 3s, connections: 100}
"#;

/// The private key of a GitHub App.
pub(super) const APP: &str = include_str!("../forge/github/auth/tests/app.pem");

pub(super) fn with_key(text: &str, key: &str) -> Result<LoadedConfig, Rejection> {
    sources(Some(text), &[("KEY", key), ("HOOK", "h00k-text"), ("TOKEN", "t0ken-text")]).load()
}

pub(super) fn github(app: &str) -> String {
    format!("forge:\n  github:\n    webhook_secret: {{env: HOOK}}\n    app: {app}\n")
}

pub(super) const GITHUB: &str =
    "forge:\n  github: {token: {env: TOKEN}, webhook_secret: {env: HOOK}, organizations: [acme]}\n";

#[test]
#[expect(clippy::too_many_lines, reason = "a list: each part of the configuration")]
fn everything_can_be_set() {
    let Settings {
        server,
        storage,
        forge,
        webhook,
        waml,
        templates,
        manifests,
        clusters,
        fleets,
        outbound,
        lookups,
        gates,
        slack,
        event_webhooks,
        bigquery,
        argocd,
        kubernetes,
        agents,
        tokens,
        people: _,
        pages,
        sessions,
        limits,
    } = loaded(WHOLE).settings;
    assert_eq!(server.listen.to_string(), "0.0.0.0:9000");
    assert_eq!(server.external_url, "https://deployer.example.com");
    assert_eq!(server.shutdown_grace, Duration::from_mins(1));
    assert_eq!(storage.url.expose_secret(), "postgres://deployer@db/deployer");
    assert_eq!(storage.retention_days, Some(90));
    let ForgeSettings::GitHub { api_url, credentials, .. } = forge else { panic!("GitHub") };
    let GitHubCredentials::Token(token) = credentials else { panic!("token") };
    assert_eq!(api_url, "https://github.example.com/api/v3");
    assert_eq!(token.secret.expose_secret(), "t0ken-text");
    let WebhookSecret::Given(secret) = webhook.secret else { panic!("given") };
    assert_eq!(secret.expose_secret(), "h00k-text");
    assert!(webhook.rules.repositories.allow(&RepoName::parse("acme/shop").unwrap()));
    assert!(!webhook.rules.repositories.allow(&RepoName::parse("evil/shop").unwrap()));
    assert_eq!(webhook.rules.tasks, ["deploy", "release"]);
    assert_eq!(webhook.rules.tag.to_string(), "{ref}");
    assert_eq!((waml.path.as_str(), waml.max_bytes), ("deploy/weave.yaml", 1000));
    let TemplatesSettings::Folder(folder) = templates else { panic!("folder") };
    assert_eq!(folder, Path::new("/etc/templates"));
    assert_eq!(manifests[0].clone_dir, Path::new("/var/lib/the-deployer/clones/production.git"));
    assert_eq!((manifests[0].branch.as_str(), manifests[1].branch.as_str()), ("live", "main"));
    assert_eq!(manifests[0].identity.email, "deployer@example.com");
    assert!(matches!(manifests[0].access, GitAccess::Token(_)));
    assert!(matches!(manifests[1].access, GitAccess::Anybody));
    let Clusters::Known(clusters) = clusters else { panic!("known") };
    let prod = &clusters[&TargetName::parse("prod-1").unwrap()];
    assert_eq!((prod.environment, prod.labels["region"].as_str()), (Environment::Production, "eu"));
    assert_eq!((prod.argocd.namespace.as_str(), prod.project().as_str()), ("gitops", "platform"));
    let dev = &clusters[&TargetName::parse("dev").unwrap()];
    assert_eq!(
        (dev.argocd.namespace.as_str(), dev.project().as_str()),
        ("argocd", "the-deployer-dev")
    );
    let names: Vec<&str> = fleets.names().map(TargetName::as_str).collect();
    assert_eq!(names, ["europe", "everywhere"]);
    assert_eq!((event_webhooks.len(), argocd.len(), pages), (1, 1, Pages::Open));
    assert_eq!((sessions.idle.as_hours(), sessions.longest.as_hours()), (1, 12));
    let BigQuerySettings { project, dataset, table, endpoint, access: _ } = bigquery.unwrap();
    assert_eq!((project.as_str(), dataset.as_str()), ("acme-analytics", "dw"));
    assert_eq!((table.as_str(), endpoint.as_str()), ("ends", "https://bq.example.com"));
    let ClusterSettings { source, patience, previews, pod_logs: _ } =
        &kubernetes[&TargetName::parse("dev").unwrap()];
    assert_eq!((kubernetes.len(), patience.as_secs(), previews.is_some()), (1, 180, true));
    let ClusterSource::ApiServer(ClusterAccess::Server { server, .. }) = source else {
        panic!("by address and token")
    };
    assert_eq!(server, "https://10.0.0.1:6443", "the cluster's own");
    assert!(agents.is_empty(), "the cluster has a connection");
    let slack = slack.unwrap();
    assert!(
        matches!(slack.door, SlackTransport::Bot { api_url, .. } if api_url == "https://slack.example.com/api")
    );
    assert_eq!((slack.direct_messages, slack.people.people.len()), (false, 1));
    assert_eq!(tokens[0].name, "ci");
    assert_eq!(hex::encode(tokens[0].sha256).get(..8), Some("9f86d081"));
    let networks = [("10.1.0.0".parse().unwrap(), 16), ("fd00::".parse().unwrap(), 8)];
    assert_eq!(outbound.private_networks, networks);
    let proxy = outbound.proxy.unwrap();
    assert_eq!(proxy.url, "http://proxy.example.com:3128");
    assert_eq!(proxy.except.as_deref(), Some("internal.example.com,10.0.0.0/8"));
    let (name, password) = proxy.login.unwrap();
    assert_eq!((name.as_str(), password.expose_secret()), ("deployer", "h00k-text"));
    let registries: Vec<_> = lookups
        .registries
        .iter()
        .map(|(host, registry)| (host.as_str(), registry.login.is_some(), registry.insecure))
        .collect();
    let expected = [("*", false, false), ("ghcr.io", true, false), ("localhost:5000", false, true)];
    assert_eq!(registries, expected);
    let vault = &lookups.secrets[&TargetName::parse("prod-1").unwrap()];
    let SecretStoreSettings::Vault(vault) = vault else { panic!("Vault") };
    let vault::VaultSettings { address, mount, namespace, token } = vault;
    assert_eq!((address.as_str(), mount.as_str()), ("https://vault.example.com", "kv"));
    assert_eq!((namespace.as_deref(), &token.file), (Some("team"), &None));
    assert_eq!((lookups.secrets.len(), limits.lookups.as_secs()), (1, 7));
    assert!(gates.alertmanager.is_some() && gates.prometheus.unwrap().timeout.as_secs() == 3);
    assert_eq!((limits.workers, limits.lease.as_secs(), limits.body), (8, 45, 2_000_000));
    let times = [limits.header_timeout, limits.body_timeout, limits.idle_timeout];
    assert_eq!(times.map(|time| time.as_secs()), [4, 5, 61]);
    assert_eq!((limits.write_timeout.as_secs(), limits.connections), (3, 100));
    assert_eq!(limits.connections_per_address, 50);
}

#[test]
fn nothing_at_all_works_on_this_machine_only() {
    for sources in [
        sources(None, &[]),
        sources(Some(""), &[]),
        sources(Some("# nothing yet\n"), &[]),
        sources(Some("server:\nclusters:\nforge: {local: }\n"), &[]),
    ] {
        let settings = sources.load().unwrap_or_else(|r| panic!("{r:#?}")).settings;
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.server.external_url, "http://127.0.0.1:8080");
        assert_eq!(settings.storage.url.expose_secret(), "sqlite:.the-deployer/state.db");
        let ForgeSettings::Local { root } = settings.forge else { panic!("local") };
        assert_eq!(root, Path::new(".the-deployer/repos"));
        let WebhookSecret::Kept(path) = settings.webhook.secret else { panic!("kept") };
        assert_eq!(path, Path::new(".the-deployer/webhook-secret"));
        assert_eq!(settings.manifests[0].url, ".the-deployer/manifests.git");
        assert!(settings.manifests[0].embedded);
        assert_eq!(settings.clusters, Clusters::any());
    }
}

#[test]
fn a_variable_sets_one_value_over_the_files() {
    let sources = sources(
        Some("server: {listen: 127.0.0.1:1}\nlimits: {workers: 2}\n"),
        &[
            ("THE_DEPLOYER_SERVER_LISTEN", "127.0.0.1:2"),
            ("THE_DEPLOYER_LIMITS_BODY", "2048"),
            ("THE_DEPLOYER_FORGE_GITHUB_TOKEN_ENV", "THE_DEPLOYER_TOKEN"),
            ("THE_DEPLOYER_FORGE_GITHUB_WEBHOOK_SECRET_ENV", "HOOK"),
            ("THE_DEPLOYER_FORGE_GITHUB_REPOSITORIES", "acme/*, other/shop"),
            ("THE_DEPLOYER_TOKEN", "t0ken-text"),
            ("HOOK", "h00k-text"),
            ("THE_DEPLOYER_LOG", "debug"),
            ("THE_DEPLOYER_SERVICE_HOST", "10.0.0.1"),
            ("THE_DEPLOYER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("PATH", "/bin"),
        ],
    );
    let settings = sources.load().unwrap_or_else(|r| panic!("{r:#?}")).settings;
    assert_eq!(settings.server.listen.port(), 2);
    assert_eq!((settings.limits.workers, settings.limits.body), (2, 2048));
    let allow = |name| settings.webhook.rules.repositories.allow(&RepoName::parse(name).unwrap());
    assert!(allow("acme/x") && allow("other/shop") && !allow("other/x"));
}

#[test]
fn settings_never_print_a_secret() {
    let text = format!("{:?}", loaded(WHOLE));
    for secret in ["t0ken-text", "h00k-text", "postgres://"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_file_is_read_and_one_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let error = SettingsSources::read(Some(&path), BTreeMap::new()).err().unwrap().to_string();
    assert!(error.contains("config.yaml cannot be read"), "{error}");
    std::fs::write(&path, "limits: {workers: 3}\n").unwrap();
    let sources = SettingsSources::read(Some(&path), BTreeMap::new()).unwrap();
    assert_eq!(sources.load().unwrap().settings.limits.workers, 3);
}

#[test]
fn the_schema_documents_every_key() {
    let schema = schema().to_value();
    let types = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for definition in types.filter(|definition| definition["properties"].is_object()) {
        for (name, property) in definition["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name} in {definition}");
        }
        assert_eq!(definition["additionalProperties"], false);
    }
}

/// The example of the page, with secrets that the tests have.
fn example() -> String {
    let page = include_str!("../../docs/configuration.md");
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let example = rest.split_once("```").unwrap().0;
    let path_of = |file: &str| format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    let example = example
        .replace("/etc/ssl/company.pem", &path_of("tests/facts/tls/ca.pem"))
        .replace("{file: /run/secrets/github-app.pem}", "{env: KEY}")
        .replace("{file: /run/secrets/bigquery-key.json}", "{env: ACCOUNT}")
        .replace("{file: /run/secrets/signing-key}", "{env: SIGNING_KEY}");
    let mut parts = example.split("{file: ");
    let first = parts.next().unwrap().to_owned();
    parts
        .fold(first, |text, part| text + "{env: TOKEN}" + part.split_once('}').unwrap().1)
        .replace("file: /run/secrets/api-token", "env: TOKEN")
        .replace("    secret: {env: TOKEN}", "    secret: {env: SIGNING}")
        .replace("{env: TOKEN}    # a bot's", "{env: BOT}    # a bot's")
}

#[test]
fn the_example_of_the_page_can_be_used() {
    let key = ("KEY", include_str!("../forge/github/auth/tests/app.pem"));
    let signing = ("SIGNING_KEY", include_str!("../git/signing/tests/open"));
    let account = serde_json::json!({
        "type": "service_account", "client_email": "d@acme.iam.gserviceaccount.com",
        "private_key": include_str!("../forge/github/auth/tests/app.pkcs8.pem"),
    });
    let account = account.to_string();
    let secrets = [&SECRETS[..], &[key, signing, ("ACCOUNT", &account)]].concat();
    let loaded = sources(Some(&example()), &secrets).load();
    assert_eq!(loaded.unwrap_or_else(|rejection| panic!("{rejection:#?}")).warnings, []);
}

#[test]
fn the_page_has_every_key() {
    let schema = schema().to_value();
    let page = include_str!("../../docs/configuration.md");
    let mut names = vec!["Cluster", "Policies", "Window", "ArgoCd", "Lookups", "VaultAccess"];
    names.extend([
        "KubernetesAccess",
        "KubernetesApi",
        "AgentCredentials",
        "ProgressPolicy",
        "Registry",
        "TemplatesRepository",
        "ManifestRepository",
    ]);
    names.extend(["Notify", "Slack", "EventWebhook", "BigQuery", "Auth", "GitHubCallers", "Ssh"]);
    names.extend(["App", "Outbound", "Server", "Storage", "GitHub", "Previews", "Waml", "Token"]);
    names.extend(["Limits", "Forge", "Templates", "Signing", "Gates", "GateApi", "HttpGates"]);
    let types = names.iter().map(|name| &schema["$defs"][*name]).chain([&schema]);
    for key in types.flat_map(|definition| definition["properties"].as_object().unwrap().keys()) {
        let is_documented = page.contains(&format!("{key}:"));
        assert!(
            is_documented || ["env", "sha256"].contains(&key.as_str()),
            "{key} is not on the page"
        );
    }
}

#[test]
fn unknown_keys_and_wrong_types_are_told_all_at_once_with_their_places() {
    let text = "sever: {listen: x}\nserver:\n  lisen: 127.0.0.1:1\nlimits:\n  workers: many\n\
                clusters:\n- {name: 'a b', environment: prod, domain: d}\n";
    let lines = refused(text);
    for expected in [
        "config.yaml:1:1: the file has no key `sever` [unknown-key]; did you mean `server`?",
        "config.yaml:3:3: `server` has no key `lisen` [unknown-key]; did you mean `listen`?",
        "config.yaml:5:12: `limits.workers` must be a whole number from 1 to 256",
        "config.yaml:7:10: `clusters[0].name` must be a target's name",
        "config.yaml:7:30: `clusters[0].environment` must be one of",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert_eq!(lines.lines().count(), 5, "{lines}");
}

#[test]
fn what_is_missing_is_told_once() {
    let lines = refused("forge:\n  github: {api_url: https://api.github.com}\n");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("`webhook_secret` is missing from `forge.github`"), "{lines}");
}

#[test]
fn what_contradicts_itself_is_told_at_its_place() {
    let lines = refused(
        "server: {listen: 0.0.0.0:8080, shutdown_grace: soon}\n\
         storage: {url: 'mysql://x'}\n\
         forge: {github: {token: {env: TOKEN}, webhook_secret: {env: HOOK}}, local: {root: x}}\n\
         waml: {path: ../x}\n\
         manifests: {repositories: [{name: a, url: 'https://u:p@host/x', targets: ['[', dev]}]}\n\
         clusters:\n\
         - {name: dev, environment: development, domain: Dev_1}\n\
         - {name: dev, environment: development, domain: dev.example.com}\n",
    );
    for expected in [
        "config.yaml:1:18: 0.0.0.0:8080 can be reached from other machines without a token",
        "config.yaml:1:48: this is not a duration of at most a day",
        "config.yaml:2:16: this is not the address of a supported database",
        "config.yaml:3:1: `github` and `local` are both given",
        "config.yaml:4:14: this is not a path inside a repository",
        "config.yaml:5:43: the address has a user name or a password in it, which logs would show",
        "config.yaml:5:75: this glob cannot be read",
        "config.yaml:7:49: this is not a domain",
        "config.yaml:8:10: there is a cluster called dev already",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert!(!lines.contains("no help") && lines.lines().count() == 9, "{lines}");
}

#[test]
fn what_one_part_lacks_hides_nothing_of_the_others_and_makes_nothing_up() {
    let lines = refused(
        "server: {listen: 0.0.0.0:80, shutdown_grace: soon}\nauth: {tokens: [{env: TOKEN}]}\n\
         forge: {github: {tag: x, token: {env: TOKEN}}}\n\
         clusters: [{name: a, environment: production, domain: a.b}]\n\
         manifests: {repositories: [{name: a, targets: [b]}]}\nstorage: {url: 'x:'}\n",
    );
    for expected in [
        "config.yaml:1:46: this is not a duration",
        "`name` is missing from `auth.tokens[0]`",
        "`webhook_secret` is missing from `forge.github`",
        "`url` is missing from `manifests.repositories[0]`",
        "config.yaml:6:16: this is not the address of a supported database",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert_eq!(lines.lines().count(), 5, "{lines}");
}

#[test]
fn a_wrong_variable_is_told_by_its_name_and_its_value_is_not_shown() {
    let sources = sources(
        None,
        &[
            ("THE_DEPLOYER_SERVER_LISTEM", "s3cret"),
            ("THE_DEPLOYER_LIMITS_WORKERS", "many"),
            ("THE_DEPLOYER_SERVER_LISTEN", "nowhere"),
            ("THE_DEPLOYER_STORAGE_URL", "mysql://user:s3cret@host"),
        ],
    );
    let lines = lines(sources.load().map(|loaded| loaded.settings));
    for expected in [
        "the variable THE_DEPLOYER_SERVER_LISTEM sets nothing [unknown-key]; did you mean \
         `THE_DEPLOYER_SERVER_LISTEN`?",
        "THE_DEPLOYER_LIMITS_WORKERS:1:1: `limits.workers` must be a whole number",
        "THE_DEPLOYER_SERVER_LISTEN:1:1: this is not an address and a port",
        "THE_DEPLOYER_STORAGE_URL:1:1: this is not the address of a supported database",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert!(!lines.contains("s3cret"), "{lines}");
    let to_owned_pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let expected =
        [("THE_DEPLOYER_LIMITS_WORKERS", "many"), ("THE_DEPLOYER_SERVER_LISTEN", "nowhere")];
    assert_eq!(sources.texts(), expected.map(to_owned_pair));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", cut in 0..WHOLE.len(), put in "[-:{}\\[\\]*&!a-z0 \n\"']{0,6}") {
        let _ = sources(Some(&text), &[]).load();
        let (head, tail) = (WHOLE.get(..cut).unwrap_or(""), WHOLE.get(cut + 1..).unwrap_or(""));
        let changed = format!("{head}{put}{tail}");
        let sources = sources(Some(&changed), &SECRETS);
        let _ = (sources.load(), sources.texts());
    }
}

#[test]
fn what_is_no_yaml_no_map_or_too_large_is_refused() {
    for text in ["- a\n", "server: [\n", "a: &a [*a]\n", "\tx", "just words", "{}\n---\n{}"] {
        assert!(!refused(text).is_empty(), "{text:?}");
    }
    assert!(!refused(&format!("server: {}\n", "x".repeat(300_000))).is_empty());
}
