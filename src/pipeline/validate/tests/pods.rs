//! How pods run, said badly: rights, the end of a life, nodes, the sources of variables.

use super::refused::with_severity;
use super::{HEAD, WEB, check_section, plan_on};
use crate::model::platform::Platform;

#[test]
fn rights_of_pods_are_those_that_kubernetes_takes_together() {
    assert_eq!(
        check_section(
            "    security:\n      runAsUser: 0\n      capabilities: {add: [CAP_CHOWN, SYS_ADMIN]}\n      writable: [/a/b, /a-b, tmp]\n"
        ),
        [
            "9:18: the user 0 is root, which `runAsNonRoot` refuses [security]",
            "10:28: `CAP_CHOWN` is not the name of a capability [security]",
            "10:39: `SYS_ADMIN` is a way to more rights, which `allowPrivilegeEscalation: false` refuses [security]",
            "11:24: `/a-b` gets the same volume as another folder [security]",
            "11:30: `tmp` is not a folder in the container [volumes]",
        ]
    );
    let own = "    security: {runAsNonRoot: false, runAsUser: 0, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}\n";
    assert_eq!(check_section(own), Vec::<String>::new());
    assert_eq!(
        with_severity("    security: {capabilities: {add: [ALL]}}\n"),
        [(false, "the container gets every right of root".to_owned())]
    );
}

#[test]
fn the_end_of_a_pod_leaves_time_and_has_one_way() {
    assert_eq!(
        check_section(
            "    lifecycle:\n      preStop: {command: [], path: /drain}\n      postStart: {path: /warm, port: admin}\n"
        ),
        [
            "9:17: `preStop` has an empty command [lifecycle]",
            "9:36: `preStop` has both `command` and `path` [lifecycle]",
            "10:38: `postStart` asks the port `admin`, which the app does not have [lifecycle]",
        ]
    );
    assert_eq!(
        check_section("    lifecycle: {preStop: {sleepSeconds: 60}}\n"),
        [
            "8:41: a pause of 60 s leaves the app no time to end: it is killed after 40 s [lifecycle]"
        ]
    );
    assert_eq!(
        check_section("    lifecycle: {terminationGracePeriodSeconds: 5}\n"),
        ["8:48: a pause of 10 s leaves the app no time to end: it is killed after 5 s [lifecycle]"]
    );
}

#[test]
fn nodes_are_named_by_legal_labels_and_taints() {
    assert_eq!(
        check_section(
            "    scheduling:\n      nodeSelector: {a b: c d}\n      tolerations: [{value: x}, {key: a, seconds: 3}]\n      nodeAffinity: [{key: a, values: []}]\n      priorityClass: High\n"
        ),
        [
            "9:27: `a b` is not a legal key [scheduling]",
            "9:27: `c d` is not a legal label value [scheduling]",
            "10:21: a taint's value says nothing without its key [scheduling]",
            "10:51: only a taint `NoExecute` ends pods after some seconds [scheduling]",
            "11:31: no node can have one of no values [scheduling]",
            "12:22: `High` is not a legal name of a priority class [scheduling]",
        ]
    );
}

#[test]
fn a_variable_has_one_source_which_exists() {
    assert_eq!(
        check_section(
            "    env:\n    - {name: A, value: x, field: metadata.name}\n    - {name: B, field: spec.nodename}\n    - {name: C, resource: cpu}\n    - {name: D, configMap: {name: Settings, key: ..}}\n    - {name: E, field: \"metadata.labels['a b']\"}\n    configMaps: [{name: A_B}]\n"
        ),
        [
            "9:7: `A` has a value and a field [env]",
            "10:24: `spec.nodename` is no field that a variable can show [env]",
            "11:27: `cpu` is no amount that a variable can show [env]",
            "12:35: `Settings` is not a legal name of a ConfigMap [env]",
            "12:50: `..` is not a legal key of a ConfigMap [env]",
            "13:24: `metadata.labels[\\'a b\\']` is no field that a variable can show [env]",
            "14:25: `A_B` is not a legal name of a ConfigMap [env]",
        ]
    );
}

#[test]
fn an_annotation_that_the_namespace_refuses_is_shown_where_it_is_written() {
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    let merge =
        format!("{{spec: {{template: {{metadata: {{annotations: {{{key}: unconfined}}}}}}}}}}");
    let pointer = format!("/spec/template/metadata/annotations/{}", key.replace('/', "~1"));
    for (section, marker) in [
        (format!("    annotations: {{{key}: unconfined}}\n"), "unconfined"),
        (format!("    annotations:\n      {key}: localhost/a\n"), ""),
        (format!("    patches:\n    - kind: Deployment\n      merge: {merge}\n"), "unconfined"),
        (
            format!(
                "    annotations: {{{key}: runtime/default}}\n    patches:\n    - kind: Deployment\n      operations: [{{op: add, path: {pointer}, value: unconfined}}]\n"
            ),
            "/spec",
        ),
    ] {
        for level in ["privileged", "baseline", "restricted"] {
            let platform = format!("{{pod_security: {{level: {level}}}}}");
            let platform: Platform = serde_yaml::from_str(&platform).unwrap();
            let text = format!("{HEAD}deploy:\n  t:\n{WEB}{section}");
            let (before, _) = text.split_at(text.rfind(marker).unwrap());
            let place =
                format!("{}:{}", before.lines().count(), before.lines().last().unwrap().len() + 1);
            let violations = match plan_on(&text, platform) {
                Ok(rendered) => rendered.warnings,
                Err(rejection) => rejection.violations,
            };
            let said: Vec<String> = violations.iter().map(ToString::to_string).collect();
            let expected = format!(
                ".weave.yaml:{place}: the namespace `n` takes no pod of Deployment `a`: an annotation for its container `a` names no allowed profile (AppArmor) [pod-security]"
            );
            let is_refused = level != "privileged" && !marker.is_empty();
            assert_eq!(
                said,
                if is_refused { vec![expected] } else { Vec::new() },
                "{level}: {text}"
            );
        }
    }
}
