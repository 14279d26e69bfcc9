//! Names that belong to Kubernetes or to the platform: the namespaces that apps may use, and the objects that belong to
//! others in every namespace.
//!
//! Knows names only; who may use a namespace among those that apps may have is a matter of owners.

use crate::model::id::Namespace;
use crate::model::namespace_globs::matches;
use crate::model::platform::network::IngressKind;
use crate::model::target::Target;

/// Namespaces that no app of a target may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedNamespaces {
    /// A glob.
    pub glob: String,
    /// The owner of the namespace.
    pub owner: NamespaceOwner,
}

/// The owner of a namespace that no app may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceOwner {
    /// Kubernetes keeps these names for itself.
    Kubernetes,
    /// Argo CD runs there.
    ArgoCd,
    /// The gateways are there.
    Gateways,
    /// The software that runs the cluster is usually in it, and no operator gave it to apps.
    Platform,
    /// The operators deny them.
    Operators,
}

/// The reason why a target takes no app in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRefusal {
    /// The fault, in one sentence.
    pub message: String,
    /// The expectation at the marked place.
    pub expected: &'static str,
    /// The way out.
    pub help: String,
    /// True if only the name speaks against it, and no person has decided anything: apps may have been live there
    /// before.
    pub by_name_alone: bool,
}

/// The glob of Kubernetes' own namespaces ("Namespaces", initial namespaces).
const KUBERNETES: &str = "kube-*";

/// The namespace that every cluster has; an app that an operator lets into it is beside the Service `kubernetes`.
const DEFAULT: &str = "default";

/// Namespaces in which the software of clusters is usually installed, and in which apps could do harm: read the
/// credentials there, or answer in place of that software. An operator who has apps in one of them names it in `allow`.
const PLATFORM: [&str; 14] = [
    "cert-manager",
    "cnrm-system",
    DEFAULT,
    "external-secrets",
    "flux-system",
    "gatekeeper-system",
    "ingress-nginx",
    "istio-ingress",
    "istio-system",
    "linkerd",
    "monitoring",
    "traefik",
    "vault",
    "vault-secrets-operator-system",
];

/// Checks that a namespace is one that the platform usually has.
pub fn is_of_platform(namespace: &str) -> bool {
    PLATFORM.contains(&namespace)
}

impl Target {
    /// Lists the namespaces that no app of the target may be in, each once.
    pub fn denied_namespaces(&self) -> Vec<DeniedNamespaces> {
        let mut denied: Vec<DeniedNamespaces> = Vec::new();
        let mut add = |glob: &str, owner| {
            if !denied.iter().any(|rule| rule.glob == glob) {
                denied.push(DeniedNamespaces { glob: glob.to_owned(), owner });
            }
        };
        add(KUBERNETES, NamespaceOwner::Kubernetes);
        add(self.argocd.namespace.as_str(), NamespaceOwner::ArgoCd);
        let ingress = &self.platform.ingress;
        if matches!(ingress.kind, IngressKind::Gateway | IngressKind::Istio) {
            add(&ingress.gateways.public.namespace, NamespaceOwner::Gateways);
            add(&ingress.gateways.internal.namespace, NamespaceOwner::Gateways);
        }
        for glob in &self.policies.namespaces.deny {
            add(glob, NamespaceOwner::Operators);
        }
        for name in PLATFORM.iter().filter(|name| self.is_platforms(name)) {
            add(name, NamespaceOwner::Platform);
        }
        denied
    }

    /// Checks that a namespace of the platform would be open to apps without this rule, and is not given to them by
    /// name.
    fn is_platforms(&self, name: &str) -> bool {
        let allow = self.policies.namespaces.allow.as_ref();
        allow.is_none_or(|globs| {
            globs.iter().any(|glob| matches(glob, name)) && !globs.iter().any(|glob| glob == name)
        })
    }

    /// Finds why the target takes no app in the namespace; `None` where it takes them.
    pub fn refuse_namespace(&self, namespace: &str) -> Option<NamespaceRefusal> {
        let name = &self.name;
        let mut denied = self.denied_namespaces().into_iter();
        if let Some(rule) = denied.find(|rule| matches(&rule.glob, namespace)) {
            let DeniedNamespaces { glob, owner } = rule;
            let message = match owner {
                NamespaceOwner::Kubernetes => format!(
                    "the namespace `{namespace}` is Kubernetes' own: `{glob}` may not be used by apps"
                ),
                NamespaceOwner::ArgoCd => {
                    format!("Argo CD of `{name}` runs in the namespace `{namespace}`")
                }
                NamespaceOwner::Gateways => {
                    format!("the gateways of `{name}` are in the namespace `{namespace}`")
                }
                NamespaceOwner::Platform => format!(
                    "the namespace `{namespace}` is reserved for the software that runs the cluster, as its name says"
                ),
                NamespaceOwner::Operators => format!(
                    "the operators of `{name}` keep the namespace `{namespace}` from apps: `{glob}`"
                ),
            };
            let mut help = "choose a namespace of your team's own".to_owned();
            if owner == NamespaceOwner::Platform {
                let allowed_globs = self.policies.namespaces.allow.as_deref().unwrap_or_default();
                let mut globs: Vec<String> =
                    allowed_globs.iter().map(|glob| format!("\"{glob}\"")).collect();
                if globs.is_empty() {
                    globs.push("\"*\"".to_owned());
                }
                help = format!(
                    "{help}; if apps may use it here, an operator allows it for the cluster: `policies: {{namespaces: \
                     {{allow: [{}, {namespace}]}}}}`",
                    globs.join(", ")
                );
            }
            let by_name_alone = owner == NamespaceOwner::Platform;
            return Some(NamespaceRefusal {
                message,
                expected: "not for apps",
                help,
                by_name_alone,
            });
        }
        let allowed_globs = self.policies.namespaces.allow.as_ref()?;
        (!allowed_globs.iter().any(|glob| matches(glob, namespace))).then(|| {
            let globs: Vec<String> = allowed_globs.iter().map(|glob| format!("`{glob}`")).collect();
            NamespaceRefusal {
                message: format!("`{name}` takes no apps in the namespace `{namespace}`"),
                expected: "not one of those for apps",
                help: format!("it takes them in {}; operators say so", globs.join(", ")),
                by_name_alone: false,
            }
        })
    }

    /// Finds whose an object of an app would be by its name; `None` where the name is free.
    pub fn owner_of_object(
        &self,
        namespace: &Namespace,
        kind: &str,
        name: &str,
    ) -> Option<&'static str> {
        let login = &self.platform.secrets.vault.operator_login.service_account;
        match (kind, name) {
            ("ServiceAccount", "default") => Some("the one that every namespace has"),
            ("ServiceAccount", name) if name == login => {
                Some("the one that vault-config-operator logs in with")
            }
            (
                "ConfigMap",
                "kube-root-ca.crt" | "openshift-service-ca.crt" | "istio-ca-root-cert",
            ) => Some("the cluster's own"),
            ("Service" | "Endpoints" | "EndpointSlice", "kubernetes")
                if namespace.as_str() == DEFAULT =>
            {
                Some("the API server's")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::TargetName;

    #[test]
    fn kubernetes_argo_cd_and_the_gateways_have_namespaces_of_their_own() {
        let mut target = Target::unconfigured(TargetName::parse("t").unwrap());
        let denied = |target: &Target| {
            target.denied_namespaces().into_iter().map(|rule| rule.glob).collect::<Vec<_>>()
        };
        let with_platform =
            |own_namespaces: &[&'static str]| [own_namespaces, &PLATFORM[..]].concat();
        assert_eq!(denied(&target), with_platform(&["kube-*", "argocd"]));
        target.platform.ingress.kind = IngressKind::Gateway;
        target.policies.namespaces.deny = vec!["argocd".to_owned(), "infra-*".to_owned()];
        assert_eq!(denied(&target), with_platform(&["kube-*", "argocd", "gateways", "infra-*"]));
    }

    #[test]
    fn what_the_platform_usually_has_is_apps_only_where_it_is_named() {
        let refusal = |allow: Option<&[&str]>, namespace: &str| {
            let mut target = Target::unconfigured(TargetName::parse("t").unwrap());
            target.policies.namespaces.allow =
                allow.map(|globs| globs.iter().map(|glob| (*glob).to_owned()).collect());
            target.refuse_namespace(namespace)
        };
        for name in PLATFORM {
            let refusal = refusal(None, name).unwrap();
            assert!(
                refusal.message.contains("is reserved for the software that runs the cluster"),
                "{name}"
            );
            let line = format!("`policies: {{namespaces: {{allow: [\"*\", {name}]}}}}`");
            assert!(refusal.help.ends_with(&line), "{}", refusal.help);
        }
        assert!(refusal(Some(&["*"]), "vault").is_some());
        assert!(refusal(Some(&["va*"]), "vault").unwrap().help.contains("[\"va*\", vault]"));
        assert_eq!(refusal(Some(&["*", "vault"]), "vault"), None);
        assert!(refusal(Some(&["*", "vault"]), "monitoring").is_some());
        assert!(refusal(Some(&["team-*"]), "vault").unwrap().message.contains("takes no apps in"));
        assert_eq!(refusal(None, "vaults"), None);
    }
}
