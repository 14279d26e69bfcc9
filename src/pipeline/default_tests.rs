use super::*;
use crate::pipeline::merge;
use crate::waml::scalar::read_untyped;
use crate::waml::yaml::{self, Budget};

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

fn filled(section: &str, defaults: &str) -> String {
    let text = format!("{HEAD}deploy:\n  t: {section}\n");
    let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    let defaults =
        yaml::parse("defaults.yaml", defaults.as_bytes(), &Budget::default(), &mut Vec::new());
    let merged = merge::layers(&waml, &TargetName::parse("t").unwrap()).unwrap();
    read_untyped(&fill(merged, &defaults.unwrap()).tree).to_string()
}

#[test]
fn a_default_fills_a_hole_in_something_that_is_there() {
    let defaults = "{ingress: {port: 8000, public: false}, service: {port: 8000}}";
    assert_eq!(filled("{}", defaults), "{}");
    assert_eq!(
        filled("{ingress: [{hostPrefix: a}, {hostPrefix: b, port: 1, public: true}]}", defaults),
        r#"{"ingress":[{"hostPrefix":"a","port":8000,"public":false},{"hostPrefix":"b","port":1,"public":true}]}"#
    );
}

#[test]
fn what_every_app_has_is_always_filled() {
    let defaults = "{resources: {requests: {cpu: 200m, memory: 256Mi}}, scaling: {replicas: 3}, autoscaling: {horizontal: {maxReplicas: 5}}}";
    assert_eq!(
        filled("{resources: {requests: {cpu: 1}}}", defaults),
        r#"{"resources":{"requests":{"cpu":1,"memory":"256Mi"}},"scaling":{"replicas":3}}"#
    );
}

#[test]
fn null_keeps_a_default_out() {
    let defaults = "{probes: {liveness: {path: /health}, readiness: {path: /health}}, disruption: {maxUnavailable: 1}}";
    assert_eq!(
        filled("{probes: {liveness: null}, disruption: null}", defaults),
        r#"{"probes":{"readiness":{"path":"/health"}}}"#
    );
}

#[test]
fn a_map_of_defaults_for_list_elements_makes_no_element() {
    let defaults = "{service: {ports: {protocol: TCP}}}";
    assert_eq!(filled("{service: [{}]}", defaults), r#"{"service":[{}]}"#);
    assert_eq!(
        filled("{service: [{ports: [{name: a}, {name: b, protocol: UDP}]}]}", defaults),
        r#"{"service":[{"ports":[{"name":"a","protocol":"TCP"},{"name":"b","protocol":"UDP"}]}]}"#
    );
}

#[test]
fn default_environment_variables_join_those_of_the_app() {
    let defaults = "{env: [{name: LEVEL, value: info}, {name: TZ, value: UTC}]}";
    assert_eq!(
        filled("{env: [{name: LEVEL, value: debug}]}", defaults),
        r#"{"env":[{"name":"LEVEL","value":"debug"},{"name":"TZ","value":"UTC"}]}"#
    );
    assert_eq!(
        filled("{}", defaults),
        r#"{"env":[{"name":"LEVEL","value":"info"},{"name":"TZ","value":"UTC"}]}"#
    );
}

#[test]
fn the_wamls_plain_lists_win_whole() {
    let defaults = "{args: [--theirs], command: [/theirs], probes: {liveness: {command: [no]}}}";
    assert_eq!(
        filled(
            "{args: [--mine], command: [/mine], probes: {liveness: {command: [\"yes\"]}}}",
            defaults
        ),
        r#"{"args":["--mine"],"command":["/mine"],"probes":{"liveness":{"command":["yes"]}}}"#
    );
}

#[test]
fn an_element_that_null_takes_away_is_not_put_back_by_a_default() {
    let defaults = "{env: [{name: LEVEL, value: info}], ingress: {port: 8000}}";
    assert_eq!(filled("{env: [{name: LEVEL, value: null}]}", defaults), r#"{"env":[]}"#);
    assert_eq!(
        filled("{ingress: [{hostPrefix: a, paths: null}]}", defaults),
        r#"{"ingress":[],"env":[{"name":"LEVEL","value":"info"}]}"#
    );
}

#[test]
fn what_only_refines_an_element_can_be_taken_from_it_alone() {
    let defaults = "{ingress: {cache: {maxAge: 0}}}";
    assert_eq!(
        filled(
            "{ingress: [{hostPrefix: a, public: null, paths: [{path: /}, {path: /x, cache: null}, {path: /y, servicePort: null}]}]}",
            defaults
        ),
        r#"{"ingress":[{"hostPrefix":"a","paths":[{"path":"/","cache":{"maxAge":0}},{"path":"/x"}],"cache":{"maxAge":0}}]}"#
    );
}

#[test]
fn a_null_in_a_patch_stays_because_it_removes_a_field() {
    let patch = "{kind: Deployment, merge: {spec: {paused: null}}, operations: null}";
    assert_eq!(
        filled(&format!("{{patches: [{patch}], cron: null}}"), "{}"),
        r#"{"patches":[{"kind":"Deployment","merge":{"spec":{"paused":null}}}]}"#
    );
}
