//! The store of secrets, and their way to a pod.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::AppKey;
use crate::model::platform::cloud::Identities;
use crate::model::platform::problem::PlatformProblem;
use crate::model::platform::vault_path::VaultPath;

/// The store of secrets, and their way to a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// The way in which a secret of the WAML becomes readable for the pod.
    pub delivery: Delivery,
    /// The Vault that keeps them.
    pub vault: Vault,
    /// The store that External Secrets reads from; for `delivery: external-secrets`.
    pub external: ExternalStore,
}

/// The Vault that keeps secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vault {
    /// Its address: `https://vault.example.com`. Default: none; then the service looks nothing up in it.
    pub address: Option<String>,
    /// The mount path of its key-value engine (version 2).
    pub mount: String,
    /// The mount path of its Kubernetes auth method for this cluster.
    pub auth: String,
    /// The namespace within Vault (Enterprise) that holds both mounts. Default: none.
    pub namespace: Option<String>,
    /// True if vault-config-operator runs in the cluster and creates each app's role and policy. Where it does not,
    /// `role` says which role an app has.
    pub operator: bool,
    /// The apps that get a role and a policy: those whose WAML has `vault` or whose secrets need one, or all.
    pub roles: Identities,
    /// The login of the operator at Vault.
    pub operator_login: OperatorLogin,
    /// The name of an app's role in `auth`, with `{namespace}` and `{slug}` in it. Default: a
    /// name of the-deployer, unique for target, namespace and slug.
    pub role: Option<String>,
    /// The paths that any app may read besides its own namespace's, as globs of a Vault policy: `shared/*`,
    /// `+/public/*`.
    pub shared: Vec<String>,
    /// The `VaultConnection` of the Vault Secrets Operator, NAME or NAMESPACE/NAME. Default: the
    /// operator's own.
    pub connection: Option<String>,
    /// The interval at which the Vault Secrets Operator looks for a new version of a secret: `60s`.
    pub refresh: String,
}

/// The login of vault-config-operator at Vault, for an app's role and policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OperatorLogin {
    /// The Kubernetes auth method that it uses. Default: the one of the apps, `auth`.
    pub path: Option<String>,
    /// The role that may write roles and policies.
    pub role: String,
    /// The `ServiceAccount` in the app's namespace that the role is bound to.
    pub service_account: String,
}

/// The store that External Secrets reads from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExternalStore {
    /// The store's name.
    pub name: String,
    /// The kind of the store: for the whole cluster or for one namespace.
    pub kind: StoreKind,
    /// The interval at which the store is read again: `1h`.
    pub refresh: String,
}

/// The kind of a store of External Secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StoreKind {
    /// One store for the whole cluster.
    #[default]
    ClusterSecretStore,
    /// One store of that name in each app's namespace.
    SecretStore,
}

impl Default for Vault {
    fn default() -> Self {
        Self {
            address: None,
            mount: "secret".to_owned(),
            auth: "kubernetes".to_owned(),
            namespace: None,
            operator: true,
            roles: Identities::default(),
            operator_login: OperatorLogin::default(),
            role: None,
            shared: Vec::new(),
            connection: None,
            refresh: "60s".to_owned(),
        }
    }
}

impl Default for OperatorLogin {
    /// Takes the names in the documentation of vault-config-operator.
    fn default() -> Self {
        Self { path: None, role: "policy-admin".to_owned(), service_account: "default".to_owned() }
    }
}

impl Default for ExternalStore {
    fn default() -> Self {
        Self { name: "vault".to_owned(), kind: StoreKind::default(), refresh: "1h".to_owned() }
    }
}

impl Secrets {
    /// Lists what does not go together.
    pub(super) fn problems(&self) -> impl Iterator<Item = PlatformProblem> {
        let Self { delivery, vault, external: _ } = self;
        let no_role = delivery.needs_role() && !vault.operator && vault.role.is_none();
        let role = no_role.then(|| PlatformProblem {
            key: "secrets.vault.role".to_owned(),
            message: "no role is created for apps, and none is named".to_owned(),
            help: "set `operator: true`, or `role` with {namespace} and {slug} in it",
        });
        let shared = vault.shared.iter().enumerate().filter_map(|(n, glob)| {
            let error = VaultPath::parse(glob).err()?;
            let key = format!("secrets.vault.shared[{n}]");
            let help = "write it as a path in the engine: `shared/*`";
            Some(PlatformProblem {
                key,
                message: format!("this is not a path in Vault: {error}"),
                help,
            })
        });
        role.into_iter().chain(shared)
    }
}

impl Vault {
    /// Checks that an app may read a path: one of its namespace's, or a shared one.
    pub fn allows(&self, app: &AppKey, path: VaultPath<'_>) -> bool {
        let own_folder = format!("{}/*", app.namespace);
        let globs = self.shared.iter().map(String::as_str).chain([own_folder.as_str()]);
        globs.filter_map(|glob| VaultPath::parse(glob).ok()).any(|glob| glob.covers(path))
    }

    /// Returns where in the engine an app's secret is, unless the WAML names a path: below the
    /// app's own.
    pub fn path_of(app: &AppKey, secret: &str) -> String {
        format!("{}/{}/{secret}", app.namespace, app.slug)
    }
}

/// The way of a secret to a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// A Kubernetes `Secret` that another program creates.
    #[default]
    Kubernetes,
    /// The Vault agent, which annotations on the pod ask for.
    VaultAgent,
    /// An `ExternalSecret` of External Secrets.
    ExternalSecrets,
    /// A `VaultStaticSecret` of the Vault Secrets Operator.
    VaultSecretsOperator,
}

impl Delivery {
    /// Checks that the pod, or an operator in its name, logs in to Vault with a role of the app's
    /// own.
    pub fn needs_role(self) -> bool {
        match self {
            Self::VaultAgent | Self::VaultSecretsOperator => true,
            Self::Kubernetes | Self::ExternalSecrets => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_may_read_what_is_its_namespaces_or_shared() {
        let app = AppKey {
            namespace: crate::model::id::Namespace::parse("devx").unwrap(),
            slug: crate::model::id::Slug::parse("my-app").unwrap(),
        };
        let vault = Vault { shared: vec!["company/*".to_owned()], ..Vault::default() };
        let allows = |path| vault.allows(&app, VaultPath::parse(path).unwrap());
        for path in ["devx/my-app/db", "devx/other/*", "devx/+/db", "company/ca", "company/*"] {
            assert!(allows(path), "{path}");
        }
        for path in ["devx", "devx*", "devx-2/a", "pay/db", "+/db", "*", "company", "comp*"] {
            assert!(!allows(path), "{path}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        let problem_keys = |text: &str| {
            let secrets: Secrets = serde_json::from_str(text).unwrap();
            secrets.problems().map(|problem| problem.key).collect::<Vec<_>>()
        };
        assert_eq!(problem_keys("{}"), Vec::<String>::new());
        assert_eq!(
            problem_keys(r#"{"delivery": "vault-agent", "vault": {"operator": false}}"#),
            ["secrets.vault.role"]
        );
        assert_eq!(
            problem_keys(r#"{"vault": {"shared": ["shared/*", "/x", "a/*/b"]}}"#),
            ["secrets.vault.shared[1]", "secrets.vault.shared[2]"]
        );
    }
}
