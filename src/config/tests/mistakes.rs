//! Configurations that are wrong, and what is said of them.

use super::{SECRETS, WHOLE, lines, loaded, refused, sources};

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
fn a_clusters_version_is_one_whose_fields_are_known() {
    let clusters = |version: &str| {
        format!(
            "clusters:\n- name: a\n  environment: production\n  domain: a.example.com\n  version: {version}\n"
        )
    };
    let version = |text: &str| {
        let clusters = loaded(&clusters(text)).settings.clusters;
        clusters.find(&"a".parse().unwrap()).unwrap().version.map(|version| version.to_string())
    };
    // Without quotes, too: 1.30 is not 1.3.
    for (text, expected) in [("'1.29'", "1.29"), ("1.30", "1.30"), ("v1.37.2-gke.1", "1.37")] {
        assert_eq!(version(text).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(version("null"), None);
    let said = [
        (
            "latest",
            "this is not a version of Kubernetes [configuration]; write it like \"1.37\"; 1.25 to 1.37 are known",
        ),
        (
            "1.24",
            "the fields of Kubernetes 1.24 are not known: those of 1.25 to 1.37 are [configuration]; upgrade the cluster; until then write \"1.25\", the nearest",
        ),
        (
            "1.38",
            "the fields of Kubernetes 1.38 are not known: those of 1.25 to 1.37 are [configuration]; upgrade the-deployer; until then write \"1.37\", the nearest",
        ),
    ];
    for (text, expected) in said {
        assert_eq!(refused(&clusters(text)), format!("config.yaml:5:12: {expected}\n"));
    }
    let about = super::schema().to_value();
    let about = &about["$defs"]["Cluster"]["properties"]["version"]["description"];
    assert!(about.as_str().unwrap().contains("from `1.25` to `1.37`"), "{about}");
}

#[test]
fn two_targets_are_two_clusters_or_have_namespaces_of_their_own() {
    let clusters = |one: &str, other: &str| {
        format!(
            "clusters:\n- {{name: a, environment: production, domain: a.example.com{one}}}\n\
             - {{name: b, environment: production, domain: b.example.com{other}}}\n"
        )
    };
    let server = ", server: 'https://10.0.0.1:6443'";
    let same = refused(&clusters(server, ", server: 'https://10.0.0.1:6443/'"));
    assert!(
        same.starts_with("config.yaml:3:69: b and a are one cluster, https://10.0.0.1:6443/"),
        "{same}"
    );
    let allow = |glob: &str| format!("{server}, policies: {{namespaces: {{allow: ['{glob}']}}}}");
    assert!(loaded(&clusters(&allow("a-*"), &allow("b-*"))).warnings.is_empty());
    assert!(!refused(&clusters(&allow("a-*"), &allow("a-b-*"))).is_empty());
    assert!(loaded(&clusters(server, ", server: 'https://10.0.0.2:6443'")).warnings.is_empty());
    // The default, written out.
    let here = ", server: 'https://kubernetes.default.svc'";
    assert!(refused(&clusters("", here)).contains("b and a are one cluster"));
    let warned = loaded(&clusters("", "")).warnings;
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].message.contains("b and a have no `server`"), "{warned:?}");
}

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
fn every_cluster_needs_a_repository_for_its_manifests() {
    let lines = refused(
        "manifests: {repositories: [{name: a, url: /srv/a.git, targets: [dev]}]}\nclusters:\n\
         - {name: dev, environment: development, domain: dev.example.com}\n\
         - {name: prod, environment: production, domain: prod.example.com, server: 'https://10.0.0.1'}\n",
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
fn what_is_no_yaml_no_map_or_too_large_is_refused() {
    for text in ["- a\n", "server: [\n", "a: &a [*a]\n", "\tx", "just words", "{}\n---\n{}"] {
        assert!(!refused(text).is_empty(), "{text:?}");
    }
    assert!(!refused(&format!("server: {}\n", "x".repeat(300_000))).is_empty());
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

#[test]
fn a_templates_repository_that_cannot_be_followed_is_told_at_its_place() {
    let both = refused("templates: {path: x, repository: {url: /srv/t.git}}\n");
    assert!(both.contains("config.yaml:1:1: `path` and `repository` are both given"), "{both}");
    let lines = refused(
        "templates:\n  repository:\n    url: 'github.com:acme/templates.git'\n    \
         branch: a..b\n    path: ../x\n    refresh: 10ms\n    token: {env: NOWHERE}\n",
    );
    for expected in [
        "config.yaml:3:10: templates cannot be read from such an address",
        "config.yaml:4:13: this is not a branch's name",
        "config.yaml:5:11: this is not a folder inside a repository",
        "config.yaml:6:14: the repository would be asked without pause",
        "config.yaml:7:",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
}

#[test]
fn deployments_are_kept_for_400_days_or_for_ever() {
    let days = |text: &str| loaded(text).settings.storage.retention_days;
    assert_eq!(days("{}"), Some(400));
    assert_eq!(days("storage: {retention_days: 0}"), None);
    let lines = refused("storage: {retention_days: 7}");
    assert!(lines.contains("config.yaml:1:27: people and reports look back further"), "{lines}");
}

#[test]
fn two_clusters_that_kubernetes_would_call_alike_are_refused() {
    let cluster = |name| format!("- {{name: {name}, environment: development, domain: d.io}}\n");
    let two = |other| refused(&format!("clusters:\n{}{}", cluster("prod-eu"), cluster(other)));
    for other in ["Prod-EU", "prod_eu"] {
        let told = format!("prod-eu and {other} would both be called prod-eu in Kubernetes");
        assert!(two(other).contains(&told), "{}", two(other));
    }
}
