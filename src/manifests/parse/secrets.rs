//! Objects that a controller creates from other objects: Secrets, and what Flagger makes of a Canary. They are in no
//! manifest, and are one with every other object of their kind and name in the namespace.

use serde_json::Value as Json;

use crate::manifests::canary::{created_objects, read_canary};
use crate::model::facts::LiveObject;
use crate::model::stateful::group;

/// The annotations by which cert-manager's ingress-shim creates a Certificate, and so the Secret, for an `Ingress`.
const ISSUERS: [&str; 2] = ["cert-manager.io/issuer", "cert-manager.io/cluster-issuer"];

/// Lists the Secrets that a controller will create from the object, and what Flagger makes of a Canary.
pub(crate) fn created_secrets(object: &Json) -> Vec<LiveObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Json::as_str);
    let own_name = || text("/metadata/name");
    let kind = (group(text("/apiVersion").unwrap_or_default()), text("/kind").unwrap_or_default());
    let name = match kind {
        ("cert-manager.io", "Certificate") | ("cache.weavelab.xyz", "CachedCertificate") => {
            text("/spec/secretName")
        }
        // `Merge` writes into one that is there, and `None` writes none.
        ("external-secrets.io", "ExternalSecret") => match text("/spec/target/creationPolicy") {
            Some("Merge" | "None") => None,
            _ => text("/spec/target/name").or_else(own_name),
        },
        (
            "secrets.hashicorp.com",
            "VaultStaticSecret" | "VaultDynamicSecret" | "VaultPKISecret" | "HCPVaultSecretsApp",
        ) => {
            let makes = object.pointer("/spec/destination/create").and_then(Json::as_bool);
            makes.filter(|makes| *makes).and_then(|_| text("/spec/destination/name"))
        }
        ("bitnami.com", "SealedSecret") => text("/spec/template/metadata/name").or_else(own_name),
        ("networking.k8s.io", "Ingress") => return of_ingress(object),
        ("flagger.app", "Canary") => return of_canary(object),
        _ => None,
    };
    name.map(secret).into_iter().collect()
}

fn of_ingress(object: &Json) -> Vec<LiveObject> {
    let annotations = object.pointer("/metadata/annotations").and_then(Json::as_object);
    let is_told = annotations.is_some_and(|map| ISSUERS.iter().any(|key| map.contains_key(*key)));
    let tls = object.pointer("/spec/tls").and_then(Json::as_array).into_iter().flatten();
    let names = tls.filter_map(|tls| tls.get("secretName")?.as_str());
    names.filter(|_| is_told).map(secret).collect()
}

fn of_canary(object: &Json) -> Vec<LiveObject> {
    object.as_object().and_then(read_canary).map(created_objects).unwrap_or_default()
}

fn secret(name: &str) -> LiveObject {
    LiveObject { api_version: "v1".to_owned(), kind: "Secret".to_owned(), name: name.to_owned() }
}

/// Checks that a controller may create Secrets from an object of that kind.
pub(crate) fn may_be_creator(kind: &str) -> bool {
    kind == "Ingress" || may_create_secrets(kind, "")
}

/// Checks that a file with an object of that kind has to be read whole to know its Secrets.
pub(super) fn may_create_secrets(kind: &str, file: &str) -> bool {
    match kind {
        "Ingress" => ISSUERS.iter().any(|key| file.contains(key)),
        "Certificate" | "CachedCertificate" | "ExternalSecret" | "SealedSecret"
        | "HCPVaultSecretsApp" | "Canary" => true,
        kind => kind.starts_with("Vault"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(api_version: &str, kind: &str, spec: &Json) -> Vec<String> {
        let object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": "own", "annotations": {"cert-manager.io/issuer": "ours"}},
            "spec": spec,
        });
        let secrets = created_secrets(&object);
        assert!(secrets.iter().all(|secret| secret.api_version == "v1" && secret.kind == "Secret"));
        assert!(secrets.is_empty() || may_create_secrets(kind, &object.to_string()), "{kind}");
        assert!(secrets.is_empty() || may_be_creator(kind), "{kind}");
        secrets.into_iter().map(|secret| secret.name).collect()
    }

    #[test]
    fn secrets_are_known_by_those_that_have_them_made() {
        for (api_version, kind, spec, expected) in [
            ("cert-manager.io/v1", "Certificate", json!({"secretName": "a"}), vec!["a"]),
            ("cache.weavelab.xyz/v1", "CachedCertificate", json!({"secretName": "a"}), vec!["a"]),
            ("example.com/v1", "Certificate", json!({"secretName": "a"}), vec![]),
            ("external-secrets.io/v1", "ExternalSecret", json!({}), vec!["own"]),
            (
                "external-secrets.io/v1beta1",
                "ExternalSecret",
                json!({"target": {"name": "a", "creationPolicy": "Owner"}}),
                vec!["a"],
            ),
            (
                "external-secrets.io/v1",
                "ExternalSecret",
                json!({"target": {"name": "a", "creationPolicy": "Merge"}}),
                vec![],
            ),
            (
                "secrets.hashicorp.com/v1beta1",
                "VaultStaticSecret",
                json!({"destination": {"name": "a", "create": true}}),
                vec!["a"],
            ),
            (
                "secrets.hashicorp.com/v1beta1",
                "VaultDynamicSecret",
                json!({"destination": {"name": "a"}}),
                vec![],
            ),
            ("bitnami.com/v1alpha1", "SealedSecret", json!({}), vec!["own"]),
            (
                "networking.k8s.io/v1",
                "Ingress",
                json!({"tls": [{"secretName": "a"}, {"secretName": "b"}, {}]}),
                vec!["a", "b"],
            ),
            ("v1", "Secret", json!({}), vec![]),
        ] {
            assert_eq!(names(api_version, kind, &spec), expected, "{kind} {spec}");
        }
    }
}
