//! Reserved names.

use super::facts::{facts_on, target};
use super::plan_with;
use crate::model::target::Target;

/// Checks an app of that name on a target: its violations, where it is refused.
fn check_app(namespace: &str, slug: &str, section: &str, target: Target) -> Vec<String> {
    let text = format!(
        "schema: \"2\"\nname: A\nslug: {slug}\nowner: a@b.c\nnamespace: {namespace}\ndeploy:\n  t:\n{section}"
    );
    match plan_with(&text, &facts_on(target)) {
        Ok(_) => Vec::new(),
        Err(rejection) => rejection.violations.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn what_is_kubernetes_or_the_platforms_own_is_no_apps() {
    let check_name = |namespace: &str, slug: &str| check_app(namespace, slug, "    {}\n", open());
    for (namespace, slug, expected) in [
        (
            "kube-system",
            "clusterrole-aggregation-controller",
            ".weave.yaml:5:12: the namespace `kube-system` is Kubernetes' own: `kube-*` may not be used by apps [reserved]",
        ),
        (
            "devx",
            "default",
            ".weave.yaml:3:7: the slug `default` would make the ServiceAccount `default`, the one that every namespace has [reserved]",
        ),
        (
            "default",
            "kubernetes",
            ".weave.yaml:3:7: the slug `kubernetes` would make the Service `kubernetes`, the API server's [reserved]",
        ),
        (
            "argocd",
            "shop",
            ".weave.yaml:5:12: Argo CD of `t` runs in the namespace `argocd` [reserved]",
        ),
    ] {
        assert_eq!(check_name(namespace, slug), [expected]);
    }
    assert!(
        check_name("default", "shop").is_empty() && check_name("devx", "kubernetes").is_empty()
    );
}

/// Returns a target that takes apps in `default`.
fn open() -> Target {
    let mut target = target();
    target.policies.namespaces.allow = Some(vec!["*".to_owned(), "default".to_owned()]);
    target
}

#[test]
fn what_the_platform_usually_has_is_no_apps_unless_an_operator_says_so() {
    for namespace in
        ["cert-manager", "default", "flux-system", "istio-system", "monitoring", "traefik", "vault"]
    {
        let messages = check_app(namespace, "shop", "    {}\n", target());
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].contains("is reserved for the software that runs the cluster"),
            "{messages:?}"
        );
    }
    assert!(check_app("default", "shop", "    {}\n", open()).is_empty());
    assert!(!check_app("vault", "shop", "    {}\n", open()).is_empty());
}

#[test]
fn what_is_made_of_the_waml_takes_no_reserved_name_either() {
    let service = "    service: [{name: kubernetes, ports: [{name: http, number: 8000}]}]\n";
    let messages = check_app("default", "shop", service, open());
    assert!(
        messages
            .iter()
            .any(|message| message.contains("the Service `kubernetes`, the API server's")),
        "{messages:?}"
    );
    let files = "    volumes: [{name: crt, mountPath: /x, files: {ca: mine}}]\n";
    let messages = check_app("devx", "kube-root-ca", files, target());
    assert!(
        messages[0].contains(
            "ConfigMap `kube-root-ca.crt` has a name that is taken: it is the cluster's own"
        ),
        "{messages:?}"
    );
    let mut vault = target();
    vault.platform.secrets.vault.operator_login.service_account = "vault-login".to_owned();
    let messages = check_app("devx", "vault-login", "    {}\n", vault);
    assert!(messages[0].contains("vault-config-operator logs in with"), "{messages:?}");
}

#[test]
fn operators_say_where_apps_may_be() {
    let target_with = |allow: Option<&[&str]>, deny: &[&str]| {
        let to_strings = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let mut target = target();
        target.policies.namespaces.allow = allow.map(to_strings);
        target.policies.namespaces.deny = to_strings(deny);
        target
    };
    let namespace = |name: &str, target: Target| check_app(name, "shop", "    {}\n", target);
    assert!(namespace("team-a", target_with(Some(&["team-*"]), &["team-infra"])).is_empty());
    let messages = namespace("team-infra", target_with(Some(&["team-*"]), &["team-infra"]));
    assert!(
        messages[0].contains("the operators of `t` keep the namespace `team-infra`"),
        "{messages:?}"
    );
    let messages = namespace("devx", target_with(Some(&["team-*"]), &[]));
    assert!(
        messages[0].contains("`t` takes no apps in the namespace `devx` [reserved]"),
        "{messages:?}"
    );
    // The namespaces of Kubernetes stay reserved, whatever is allowed.
    assert!(!namespace("kube-public", target_with(Some(&["*"]), &[])).is_empty());
}
