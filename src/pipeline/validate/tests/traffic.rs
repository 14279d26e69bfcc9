//! Addresses, on targets that offer one thing or another.

use serde_json::{Value as Json, json};

use super::{HEAD, WEB, check_section, plan_on};
use crate::model::violation::Violation;

/// Returns the violations of a section on a target with this platform.
fn said_on(platform: Json, section: &str) -> Vec<String> {
    let text = format!("{HEAD}deploy:\n  t:\n{section}");
    let format_violation =
        |v: &Violation| format!("{:?} {}", v.severity, v).replace(".weave.yaml:", "");
    match plan_on(&text, serde_json::from_value(platform).unwrap()) {
        Ok(rendered) => rendered.warnings.iter().map(format_violation).collect(),
        Err(rejection) => rejection.violations.iter().map(format_violation).collect(),
    }
}

/// Returns the names of a section's files on a target with this platform.
fn files_on(platform: Json, section: &str) -> Vec<String> {
    let text = format!("{HEAD}deploy:\n  t:\n{section}");
    let rendered = plan_on(&text, serde_json::from_value(platform).unwrap()).unwrap();
    rendered.files.into_iter().map(|file| file.name).collect()
}

#[test]
fn two_addresses_are_not_one() {
    assert_eq!(
        check_section(&format!(
            "{WEB}    ingress:\n    - {{hostPrefix: a}}\n    - {{host: a.t.internal, paths: [{{path: /b}}, {{path: /}}]}}\n    - {{hostPrefix: b}}\n"
        )),
        ["11:48: `a.t.internal/` is the address of `ingress[0]` too [routes]"]
    );
    // From inside and from outside one host may lead to two places.
    assert_eq!(
        check_section(&format!(
            "{WEB}    ingress: [{{hostPrefix: a}}, {{host: a.t.internal, public: true}}]\n"
        )),
        Vec::<String>::new()
    );
}

#[test]
fn a_path_can_be_understood_in_one_way() {
    for path in ["/a//b", "/a/../b", "/a/.", "/%2Fx", "/%2fx", "/%", "/%4", "/%zz"] {
        let messages = check_section(&format!(
            "{WEB}    ingress: [{{hostPrefix: a, paths: [{{path: '{path}'}}]}}]\n"
        ));
        assert_eq!(messages, [format!("9:46: `{path}` is not a legal path [ingress]")]);
    }
    for path in ["/", "/a/", "/a.b/..c", "/%41", "/a%20b"] {
        let messages = check_section(&format!(
            "{WEB}    ingress: [{{hostPrefix: a, paths: [{{path: '{path}'}}]}}]\n"
        ));
        assert_eq!(messages, Vec::<String>::new(), "{path}");
    }
}

#[test]
fn what_never_changes_is_kept_for_some_time() {
    assert_eq!(
        check_section(&format!(
            "{WEB}    ingress: [{{hostPrefix: a, cache: {{immutable: true}}}}]\n"
        )),
        ["9:50: `immutable` is set, but caches may keep the answers for no time [routes]"]
    );
}

#[test]
fn a_target_says_what_it_cannot_do() {
    let cached = format!("{WEB}    ingress: [{{hostPrefix: a, cache: {{maxAge: 60}}}}]\n");
    assert_eq!(
        said_on(json!({"ingress": {"kind": "kubernetes"}}), &cached),
        ["Warning 9:31: `t` cannot set the header `Cache-Control` [routes]"]
    );
    assert_eq!(said_on(json!({"ingress": {"kind": "gateway"}}), &cached), Vec::<String>::new());

    let paths: Vec<String> = (0..17).map(|n| format!("{{path: /{n}}}")).collect();
    let many = format!("{WEB}    ingress: [{{hostPrefix: a, paths: [{}]}}]\n", paths.join(", "));
    assert_eq!(
        said_on(json!({"ingress": {"kind": "gateway"}}), &many),
        ["Error 9:31: an address has 17 paths; a route of a gateway takes 16 [routes]"]
    );
    assert_eq!(said_on(json!({}), &many), Vec::<String>::new());

    let web = format!("{WEB}    ingress: [{{hostPrefix: a}}]\n");
    assert_eq!(
        said_on(json!({"network_policy": {"enabled": true}}), &web),
        ["Warning 9:5: network policies on `t` let nothing in from outside the namespace [routes]"]
    );
    let open = json!({"network_policy": {"enabled": true, "ingress": {"namespaces": ["traefik"]}}});
    assert_eq!(said_on(open, &web), Vec::<String>::new());
}

#[test]
fn each_host_has_one_certificate_where_we_make_them() {
    let web = format!(
        "{WEB}    ingress:\n    - {{hostPrefix: a, public: true}}\n    - {{host: a.t.internal}}\n    - {{hostPrefix: b}}\n"
    );
    let certificates = |platform: Json| -> Vec<String> {
        let files = files_on(platform, &web).into_iter();
        files.filter(|name| name.contains("certificate")).collect()
    };
    let hosts = ["a.a.t.internal", "a.b.t.internal"];
    assert_eq!(certificates(json!({})), hosts.map(|host| format!("certificate-{host}.yaml")));
    assert_eq!(
        certificates(json!({"certificates": {"kind": "cached-certificate"}})),
        hosts.map(|host| format!("cachedcertificate-{host}.yaml"))
    );
    assert_eq!(certificates(json!({"certificates": {"kind": "none"}})), Vec::<String>::new());
    // One of the two with the first host is encrypted.
    assert_eq!(
        certificates(json!({"ingress": {"tls": {"internal": false}}})),
        ["certificate.yaml"]
    );
}
