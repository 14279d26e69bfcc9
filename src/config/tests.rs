//! Configurations, whole and wrong.

use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;
use crate::config::settings::{Forge, WebhookSecret};
use crate::model::id::{RepoName, TargetName};
use crate::model::target::{Clusters, Environment};

fn sources(text: Option<&str>, variables: &[(&str, &str)]) -> Sources {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources {
        file: text.map(|text| ("config.yaml".to_owned(), text.to_owned())),
        variables: variables.iter().map(own).collect(),
        home: ".the-deployer".into(),
    }
}

const SECRETS: [(&str, &str); 2] = [("TOKEN", "t0ken-text"), ("HOOK", "h00k-text")];

fn loaded(text: &str) -> Loaded {
    sources(Some(text), &SECRETS).load().unwrap_or_else(|rejection| panic!("{rejection:#?}"))
}

/// The violations, one a line.
fn refused(text: &str) -> String {
    lines(sources(Some(text), &SECRETS).load().map(|loaded| loaded.settings))
}

fn lines(result: Result<Settings, Rejection>) -> String {
    let rejection = result.expect_err("refused");
    let line = |v: &Violation| format!("{v}; {}\n", v.help.as_deref().unwrap_or("no help"));
    rejection.violations.iter().map(line).collect()
}

const WHOLE: &str = r#"
server: {listen: "0.0.0.0:9000", external_url: "https://deployer.example.com/", shutdown_grace: 1m}
storage: {url: "postgres://deployer@db/deployer", folder: /var/lib/the-deployer}
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
- {name: prod-1, environment: production, domain: prod.example.com, labels: {region: eu}}
- {name: dev, environment: development, domain: dev.example.com, server: "https://10.0.0.1:6443"}
auth:
  tokens:
  - {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
  - {name: bart, env: TOKEN}
limits: {workers: 8, lease: 45s, body: 2000000}
"#;

#[test]
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
        tokens,
        limits,
    } = loaded(WHOLE).settings;
    assert_eq!(server.listen.to_string(), "0.0.0.0:9000");
    assert_eq!(server.external_url, "https://deployer.example.com");
    assert_eq!(server.shutdown_grace, Duration::from_mins(1));
    assert_eq!(storage.url.expose_secret(), "postgres://deployer@db/deployer");
    let Forge::GitHub { api_url, token } = forge else { panic!("GitHub") };
    assert_eq!(api_url, "https://github.example.com/api/v3");
    assert_eq!(token.expose_secret(), "t0ken-text");
    let WebhookSecret::Given(secret) = webhook.secret else { panic!("given") };
    assert_eq!(secret.expose_secret(), "h00k-text");
    assert!(webhook.rules.repositories.allow(&RepoName::parse("acme/shop").unwrap()));
    assert!(!webhook.rules.repositories.allow(&RepoName::parse("evil/shop").unwrap()));
    assert_eq!(webhook.rules.tasks, ["deploy", "release"]);
    assert_eq!(webhook.rules.tag.to_string(), "{ref}");
    assert_eq!((waml.path.as_str(), waml.max_bytes), ("deploy/weave.yaml", 1000));
    assert_eq!(templates.unwrap(), Path::new("/etc/templates"));
    assert_eq!(manifests[0].clone_dir, Path::new("/var/lib/the-deployer/clones/production.git"));
    assert_eq!((manifests[0].branch.as_str(), manifests[1].branch.as_str()), ("live", "main"));
    assert_eq!(manifests[0].identity.email, "deployer@example.com");
    assert!(manifests[0].token.is_some() && manifests[1].token.is_none());
    let Clusters::Known(clusters) = clusters else { panic!("known") };
    let prod = &clusters[&TargetName::parse("prod-1").unwrap()];
    assert_eq!((prod.environment, prod.labels["region"].as_str()), (Environment::Production, "eu"));
    assert_eq!(tokens[0].name, "ci");
    assert_eq!(hex::encode(tokens[0].sha256).get(..8), Some("9f86d081"));
    assert_eq!((limits.workers, limits.lease.as_secs(), limits.body), (8, 45, 2_000_000));
}

#[test]
fn a_target_goes_to_the_first_repository_that_matches_it() {
    let settings = loaded(WHOLE).settings;
    let name = |target: &str| {
        settings.manifests_of(&TargetName::parse(target).unwrap()).map(|one| one.name.as_str())
    };
    assert_eq!((name("prod-1"), name("dev")), (Some("production"), Some("rest")));
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
        let Forge::Local { root } = settings.forge else { panic!("local") };
        assert_eq!(root, Path::new(".the-deployer/repos"));
        let WebhookSecret::Kept(path) = settings.webhook.secret else { panic!("kept") };
        assert_eq!(path, Path::new(".the-deployer/webhook-secret"));
        assert_eq!(settings.manifests[0].url, ".the-deployer/manifests.git");
        assert!(settings.manifests[0].embedded);
        assert_eq!(settings.clusters, Clusters::Any);
    }
}

#[test]
fn unknown_keys_and_wrong_types_are_told_all_at_once_with_their_places() {
    let text = "sever: {listen: x}\nserver:\n  lisen: 127.0.0.1:1\nlimits:\n  workers: many\n\
                clusters:\n- {name: Prod, environment: prod, domain: d}\n";
    let lines = refused(text);
    for expected in [
        "config.yaml:1:1: the file has no key `sever` [unknown-key]; did you mean `server`?",
        "config.yaml:3:3: `server` has no key `lisen` [unknown-key]; did you mean `listen`?",
        "config.yaml:5:12: `limits.workers` must be a whole number from 1 to 256",
        "config.yaml:7:10: `clusters[0].name` must be a target's name",
        "config.yaml:7:29: `clusters[0].environment` must be one of",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert_eq!(lines.lines().count(), 5, "{lines}");
}

#[test]
fn what_is_missing_is_told_once() {
    let lines = refused("forge:\n  github: {api_url: https://api.github.com}\n");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("`token` is missing from `forge.github`"), "{lines}");
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
        "config.yaml:1:48: this is not a time of at most a day",
        "config.yaml:2:16: this names no database that is known",
        "config.yaml:3:1: `github` and `local` are both given",
        "config.yaml:4:14: this is not a path inside a repository",
        "config.yaml:5:43: an address with a name or a password in it ends in logs",
        "config.yaml:5:75: this glob cannot be read",
        "config.yaml:7:49: this is not a domain",
        "config.yaml:8:10: there is a cluster called dev already",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert!(!lines.contains("no help") && lines.lines().count() == 9, "{lines}");
}

#[test]
fn every_cluster_needs_a_repository_for_its_manifests() {
    let lines = refused(
        "manifests: {repositories: [{name: a, url: /srv/a.git, targets: [dev]}]}\nclusters:\n\
         - {name: dev, environment: development, domain: dev.example.com}\n\
         - {name: prod, environment: production, domain: prod.example.com}\n",
    );
    assert!(
        lines.starts_with("config.yaml:1:13: no repository is for the cluster prod"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

#[test]
fn githubs_part_is_checked_too() {
    let lines = refused(
        "forge:\n  github:\n    api_url: https://me:pw@api.example.com\n    token: {file: /none, env: TOKEN}\n    \
         webhook_secret: {}\n    repositories: [acme, '{']\n    tasks: []\n    tag: latest\n",
    );
    for expected in [
        "config.yaml:3:14: an address with a name or a password",
        "config.yaml:4:5: this secret is given twice",
        "config.yaml:5:5: this secret is not given",
        "config.yaml:6:20: this matches no repository",
        "config.yaml:6:26: this glob cannot be read",
        "config.yaml:7:5: with no task, no deployment is for us",
        "config.yaml:8:10: every deployment would get the same tag",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
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
        "config.yaml:1:46: this is not a time",
        "`name` is missing from `auth.tokens[0]`",
        "`webhook_secret` is missing from `forge.github`",
        "`url` is missing from `manifests.repositories[0]`",
        "config.yaml:6:16: this names no database",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert_eq!(lines.lines().count(), 5, "{lines}");
}

#[test]
fn a_token_is_given_in_exactly_one_way() {
    let lines = refused(
        "auth:\n  tokens:\n  - {name: a}\n  - {name: b, sha256: xyz}\n  - {name: b, sha256: x, env: TOKEN}\n  \
         - {name: d, env: NONE}\n",
    );
    for expected in [
        "this secret is not given",
        "config.yaml:4:23: this is not a SHA-256",
        "config.yaml:5:12: there is a token called b already",
        "this token is given more than once",
        "config.yaml:6:20: the variable NONE is not set",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    let one = loaded("auth: {tokens: [{name: a, env: TOKEN}]}\nserver: {listen: 0.0.0.0:80}");
    let sha256 = "88ea7d7a6a2cdfad3a64c6c8ae9dae0eb4ef5bf4b6cc3d1b0fa1ac6a58d3ba1a";
    assert_eq!(hex::encode(one.settings.tokens[0].sha256).len(), sha256.len());
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
        "THE_DEPLOYER_STORAGE_URL:1:1: this names no database that is known",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    assert!(!lines.contains("s3cret"), "{lines}");
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let shown =
        [("THE_DEPLOYER_LIMITS_WORKERS", "many"), ("THE_DEPLOYER_SERVER_LISTEN", "nowhere")];
    assert_eq!(sources.texts(), shown.map(own));
}

#[test]
fn a_secret_in_the_file_itself_is_refused_and_not_shown() {
    let text = "forge:\n  github:\n    token: ghp_plain\n    webhook_secret: {env: HOOK}\n    passwort: hunter2\n";
    let lines = refused(text);
    assert!(
        lines.contains("config.yaml:3:12: `forge.github.token` holds a secret itself"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let texts = sources(Some(text), &SECRETS).texts();
    let shown = format!("{lines}{texts:?}");
    assert!(!shown.contains("ghp_plain") && texts[0].1.contains("token: *********\n"), "{shown}");
}

#[test]
fn a_token_where_its_name_and_place_belong_is_not_shown() {
    for text in [
        "auth: {tokens: [s3cret]}",
        "auth: {tokens: s3cret}",
        "auth:\n  tokens: [{name: a, token: s3cret}]",
    ] {
        let shown = format!("{}{:?}", refused(text), sources(Some(text), &[]).texts());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let label = "clusters: [{name: a, environment: production, domain: a.b, labels: {token: x}}]";
    loaded(label);
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
fn settings_never_print_a_secret() {
    let text = format!("{:?}", loaded(WHOLE));
    for secret in ["t0ken-text", "h00k-text", "postgres://"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn what_is_no_yaml_no_map_or_too_large_is_refused() {
    for text in ["- a\n", "server: [\n", "a: &a [*a]\n", "\tx", "just words", "{}\n---\n{}"] {
        assert!(!refused(text).is_empty(), "{text:?}");
    }
    assert!(!refused(&format!("server: {}\n", "x".repeat(300_000))).is_empty());
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "abc\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let loaded = loaded(&format!("auth: {{tokens: [{{name: a, file: {}}}]}}", path.display()));
    assert_eq!(loaded.warnings.len(), 1);
    let warning = &loaded.warnings[0];
    assert!(warning.message.starts_with("other users of this machine can read /"), "{warning}");
    assert_eq!(warning.path, "auth.tokens[0].file");
}

#[test]
fn a_file_is_read_and_one_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let error = Sources::read(Some(&path), BTreeMap::new()).err().unwrap().to_string();
    assert!(error.contains("config.yaml cannot be read"), "{error}");
    std::fs::write(&path, "limits: {workers: 3}\n").unwrap();
    let sources = Sources::read(Some(&path), BTreeMap::new()).unwrap();
    assert_eq!(sources.load().unwrap().settings.limits.workers, 3);
}

#[test]
fn the_schema_documents_every_key() {
    let schema = schema().to_value();
    let types = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for one in types.filter(|one| one["properties"].is_object()) {
        for (name, property) in one["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name} in {one}");
        }
        assert_eq!(one["additionalProperties"], false);
    }
}
