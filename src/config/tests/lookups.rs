//! Registries, and where secrets are looked up.

use super::{SECRETS, loaded, refused, sources};
use crate::config::settings::SecretsLookup;
use crate::model::id::TargetName;

#[test]
fn a_cluster_is_asked_at_its_own_address_unless_another_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, token) = (folder.path().join("ca.crt"), folder.path().join("token"));
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
    std::fs::write(&token, "t0ken").unwrap();
    let text = format!(
        "clusters:\n\
         - name: a\n  environment: production\n  domain: a.io\n  server: https://10.0.0.1:6443\n  \
           lookups: {{secrets: kubernetes, kubernetes: {{token: {{file: {}}}, ca: {}}}}}\n\
         - name: b\n  environment: production\n  domain: b.io\n  \
           lookups: {{secrets: kubernetes, kubernetes: {{server: 'https://b:6443', token: {{env: TOKEN}}}}}}\n\
         - {{name: c, environment: production, domain: c.io, lookups: {{secrets: none}}}}\n",
        token.display(),
        ca.display(),
    );
    let found = loaded(&text).settings.lookups.secrets;
    let of = |name: &str| match &found[&TargetName::parse(name).unwrap()] {
        SecretsLookup::Kubernetes { server, token, ca } => {
            (server.clone(), token.file.clone(), ca.is_some())
        }
        SecretsLookup::Vault { .. } => panic!("not Vault"),
    };
    assert_eq!(of("a"), ("https://10.0.0.1:6443".to_owned(), Some(token), true));
    assert_eq!(of("b"), ("https://b:6443".to_owned(), None, false));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_vault_is_asked_in_the_namespace_that_it_has_for_apps_unless_another_is_given() {
    let cluster = |name: &str, lookups: &str| {
        format!(
            "- name: {name}\n  environment: production\n  domain: {name}.io\n  platform: {{secrets: {{vault: \
             {{address: 'https://v', namespace: team}}}}}}\n  lookups: {{secrets: vault, vault: {{token: {{env: TOKEN}}{lookups}}}}}\n"
        )
    };
    let text = format!("clusters:\n{}{}", cluster("a", ""), cluster("b", ", namespace: other"));
    let found = loaded(&text).settings.lookups.secrets;
    for (name, wanted) in [("a", "team"), ("b", "other")] {
        let SecretsLookup::Vault { namespace, .. } = &found[&TargetName::parse(name).unwrap()]
        else {
            panic!("Vault is asked");
        };
        assert_eq!(namespace.as_deref(), Some(wanted));
    }
}

#[test]
fn what_cannot_be_looked_up_is_told_at_its_place() {
    let lines = refused(
        "registries:\n\
         - {host: 'https://ghcr.io'}\n\
         - {host: ghcr.io, username: me}\n\
         - {host: ghcr.io, password: {env: NONE}, username: me}\n\
         - {host: '*', insecure: true}\n\
         - {host: index.docker.io}\n\
         clusters:\n\
         - {name: a, environment: production, domain: a.io, lookups: {secrets: vault}}\n\
         - name: b\n  environment: production\n  domain: b.io\n  \
           platform: {secrets: {vault: {address: 'http://vault.example.com'}}}\n  \
           lookups: {secrets: vault}\n\
         - {name: c, environment: production, domain: c.io, lookups: {secrets: kubernetes}}\n\
         - name: d\n  environment: production\n  domain: d.io\n  \
           platform: {secrets: {delivery: external-secrets}}\n  \
           lookups: {secrets: kubernetes, kubernetes: {token: {env: TOKEN}, server: nowhere, ca: /none}}\n\
         limits: {lookups: 5m}\n",
    );
    for expected in [
        "config.yaml:2:10: this is not a registry's host",
        "config.yaml:3:3: a login is a name and a password",
        "config.yaml:4:10: the registry ghcr.io is there already",
        "config.yaml:4:35: the variable NONE is not set",
        "config.yaml:5:3: every other registry is asked by https and without a login",
        "config.yaml:6:10: this is not a registry's host",
        "config.yaml:8:52: there is no Vault to look secrets up in",
        "config.yaml:13:22: our token would go to `platform.secrets.vault.address` in the clear",
        "config.yaml:13:3: there is no token for Vault",
        "config.yaml:14:52: there is no token for the API server",
        "`clusters[3].lookups.kubernetes.server` must be",
        "/none cannot be read",
        "config.yaml:19:22: the secrets of this cluster come with the apps' own manifests",
        "config.yaml:20:19: looking things up takes a second and no more than a minute",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
}

#[test]
fn a_secret_in_the_file_itself_is_refused_and_not_shown() {
    for text in [
        "registries:\n- {host: ghcr.io, username: me, password: s3cret}\n",
        "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
         lookups: {secrets: kubernetes, kubernetes: {token: s3cret}}\n",
        "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
         lookups: {secrets: vault, vault: {token: s3cret}}\n",
        "templates: {repository: {url: 'https://example.com/t.git', token: s3cret}}\n",
    ] {
        let shown = format!("{}{:?}", refused(text), sources(Some(text), &SECRETS).texts());
        assert!(shown.contains("holds a secret itself") && !shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn a_password_in_the_clear_is_doubtful() {
    let text = |host: &str| {
        format!(
            "registries: [{{host: '{host}', username: me, password: {{env: TOKEN}}, insecure: true}}]"
        )
    };
    assert_eq!(loaded(&text("127.0.0.1:5000")).warnings, []);
    let warnings = loaded(&text("registry.example.com")).warnings;
    assert!(warnings[0].message.contains("in the clear"), "{warnings:?}");
}

#[test]
fn what_the_apps_bring_themselves_is_not_looked_for_in_the_cluster() {
    for delivery in ["external-secrets", "vault-secrets-operator", "vault-agent"] {
        let text = format!(
            "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
             server: https://10.0.0.1\n  platform: {{secrets: {{delivery: {delivery}}}}}\n  \
             lookups: {{secrets: kubernetes, kubernetes: {{token: {{env: TOKEN}}}}}}\n"
        );
        let lines = refused(&text);
        let expected =
            "config.yaml:7:22: the secrets of this cluster come with the apps' own manifests";
        assert!(lines.contains(expected), "{lines}");
    }
}

#[test]
fn a_network_that_is_none_is_told_and_no_token_has_a_name_that_deceives() {
    let lines = refused("outbound: {private_networks: [10.1.0.0/16, 10.0.0.0/33]}\n");
    assert!(lines.contains("config.yaml:1:") && lines.contains("this is not a network"), "{lines}");
    let digits = "9f".repeat(32);
    let lines =
        refused(&format!("auth: {{tokens: [{{name: \"ops\\u202Ex\", sha256: {digits}}}]}}\n"));
    assert!(lines.contains("invisible character (U+202E)"), "{lines}");
}
