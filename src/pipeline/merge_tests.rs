use proptest::prelude::*;

use super::*;
use crate::waml::node::Path;
use crate::waml::scalar::read_untyped;

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

pub(crate) fn waml(body: &str) -> Waml {
    let waml = Waml::parse(".weave.yaml", format!("{HEAD}{body}").as_bytes()).unwrap();
    // Layers that are for no target are warned of, and are what some of these tests are about.
    let violations: Vec<_> =
        waml.violations.iter().filter(|violation| violation.rule != "ignored").collect();
    assert_eq!(violations, Vec::<&crate::model::violation::Violation>::new(), "{body}");
    waml
}

fn target(name: &str) -> TargetName {
    TargetName::parse(name).unwrap()
}

fn merged(body: &str, name: &str) -> String {
    let waml = waml(body);
    read_untyped(&layers(&waml, &target(name)).unwrap().tree).to_string()
}

#[test]
fn matching_defaults_apply_in_file_order_and_the_target_last() {
    let body = "
defaults:
- {match: '*', scaling: {replicas: 1, maxSurge: 1}}
- {match: 'prod-*', scaling: {replicas: 2}}
- {match: 'dev-*', scaling: {replicas: 9}}
deploy:
  prod-1: {scaling: {maxSurge: 5}}
  dev-1: {}
  dev-2:
";
    assert_eq!(merged(body, "prod-1"), r#"{"scaling":{"replicas":2,"maxSurge":5}}"#);
    assert_eq!(merged(body, "dev-1"), r#"{"scaling":{"replicas":9,"maxSurge":1}}"#);
    assert_eq!(merged(body, "dev-2"), r#"{"scaling":{"replicas":9,"maxSurge":1}}"#);
}

#[test]
fn lists_of_things_merge_by_identity_and_plain_lists_are_replaced() {
    let body = "
defaults:
- match: '*'
  args: [a, b]
  env: [{name: A, value: 1}, {name: B, value: 2}]
  service: [{ports: [{name: http, number: 80}]}]
  ingress: [{hostPrefix: x, public: true, paths: [{path: /, servicePort: 80}]}]
deploy:
  t:
    args: [c]
    env: [{name: B, value: 3}, {name: C, value: 4}]
    service: [{name: a, ports: [{name: http, targetPort: 81}, {name: grpc, number: 90}]}]
    ingress: [{hostPrefix: x, paths: [{path: /v2, servicePort: 90}]}, {host: y.z}]
";
    assert_eq!(
        merged(body, "t"),
        concat!(
            r#"{"args":["c"],"#,
            r#""env":[{"name":"A","value":1},{"name":"B","value":3},{"name":"C","value":4}],"#,
            r#""service":[{"ports":[{"name":"http","number":80,"targetPort":81},{"name":"grpc","number":90}],"name":"a"}],"#,
            r#""ingress":[{"hostPrefix":"x","public":true,"paths":[{"path":"/","servicePort":80},{"path":"/v2","servicePort":90}]},{"host":"y.z"}]}"#,
        )
    );
}

/// The key has the name of the list of an address's paths, which merges.
#[test]
fn paths_in_vault_are_a_plain_list() {
    let body = "
defaults:
- {match: '*', vault: {paths: [n/a, n/b]}, iam: {roles: [a]}}
deploy:
  t: {vault: {paths: [n/c]}, iam: {roles: [b]}}
";
    assert_eq!(merged(body, "t"), r#"{"vault":{"paths":["n/c"]},"iam":{"roles":["b"]}}"#);
}

/// The identity of an element depends on its type, whatever its key.
#[test]
fn identity_goes_by_the_type() {
    use crate::waml::duplicates::ElementIdentity;
    let identity_of = |path: &str| {
        let steps = path.split('.').fold(Section::place(), |place, step| match step {
            "[]" => place.element(),
            key => place.key(key),
        });
        steps.identity()
    };
    assert_eq!(identity_of("env"), Some(ElementIdentity::Name));
    assert_eq!(identity_of("service"), Some(ElementIdentity::NameOrSlug));
    assert_eq!(identity_of("service.[].ports"), Some(ElementIdentity::Name));
    assert_eq!(identity_of("ingress"), Some(ElementIdentity::Host));
    assert_eq!(identity_of("ingress.[].paths"), Some(ElementIdentity::Path));
    for plain in
        ["vault.paths", "iam.roles", "command", "versions", "removes", "labels.env", "x.paths"]
    {
        assert_eq!(identity_of(plain), None, "{plain}");
    }
}

#[test]
fn null_takes_away_what_earlier_layers_set() {
    let body = "
defaults:
- match: '*'
  env: [{name: A, value: 1}, {name: B, value: 2}]
  resources: {limits: {cpu: 1, memory: 1Gi}}
  volumes: [{name: v}]
deploy:
  t: {env: [{name: A, value: null}], resources: {limits: {cpu: ~}}, volumes: }
";
    assert_eq!(
        merged(body, "t"),
        r#"{"env":[{"name":"A","value":null},{"name":"B","value":2}],"resources":{"limits":{"cpu":null,"memory":"1Gi"}},"volumes":null}"#
    );
}

#[test]
fn every_value_knows_its_layer_and_line() {
    let waml = waml(
        "defaults:\n- {match: '*', env: [{name: A, value: 1}]}\ndeploy:\n  t:\n    env: [{name: B, value: 2}]\n",
    );
    let merged = layers(&waml, &target("t")).unwrap();
    let origin = |path| {
        let origin = &merged.tree.at(&Path::parse(path).unwrap()).unwrap().origin;
        format!("{} {}", origin.position, origin.layer)
    };
    assert_eq!(origin("env[0].value"), ".weave.yaml:7:39 defaults[0]");
    assert_eq!(origin("env[1].value"), ".weave.yaml:10:28 deploy.t");
}

#[test]
fn a_target_that_is_not_under_deploy_is_refused_with_those_that_are() {
    let waml = waml("deploy: {prod-cluster-1: {}, dev: {}}\n");
    let rejection = layers(&waml, &target("prod-cluster-2")).unwrap_err();
    let violation = &rejection.violations[0];
    assert_eq!(
        violation.to_string(),
        ".weave.yaml:6:1: `prod-cluster-2` is not a target of this app [target]"
    );
    assert_eq!(
        violation.help.as_deref(),
        Some(
            "deploy to one of `prod-cluster-1` and `dev`, or add `prod-cluster-2:` under `deploy`; did you mean `prod-cluster-1`?"
        )
    );
}

#[test]
fn of_a_deploy_that_cannot_be_read_no_target_is_said_to_lack() {
    for deploy in ["deploy: [t]\n", "deploy: t\n", "deploy: {t: [a]}\n", ""] {
        let waml = Waml::parse(".weave.yaml", format!("{HEAD}{deploy}").as_bytes()).unwrap();
        let rejection = match layers(&waml, &target("t")) {
            Err(rejection) => rejection,
            Ok(merged) => Rejection { violations: merged.waml.violations.clone() },
        };
        let rules: Vec<_> = rejection.violations.iter().map(|v| v.rule.as_ref()).collect();
        assert_eq!(rules.len(), 1, "{deploy}: {rejection:?}");
        assert_ne!(rules, ["target"], "{deploy}");
    }
}

/// Returns a section as flow YAML: numbers under keys that merge in all three ways.
fn section() -> impl Strategy<Value = String> {
    let value =
        || prop_oneof![3 => (0..50u32).prop_map(|n| n.to_string()), 1 => Just("null".to_owned())];
    let env = proptest::collection::btree_map("[A-D]", value(), 0..4).prop_map(|map| {
        let items: Vec<String> =
            map.iter().map(|(n, v)| format!("{{name: {n}, value: {v}}}")).collect();
        format!("env: [{}]", items.join(", "))
    });
    let labels = proptest::collection::btree_map("[a-d]", value(), 0..4).prop_map(|map| {
        let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        format!("labels: {{{}}}", items.join(", "))
    });
    let args = proptest::collection::vec(0..9u32, 0..3).prop_map(|list| format!("args: {list:?}"));
    (env, labels, args, 0..8u8).prop_map(|(env, labels, args, present)| {
        let parts = [env, labels, args];
        let present_parts = parts.iter().enumerate().filter(|(n, _)| present & (1 << n) != 0);
        present_parts.map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(", ")
    })
}

fn body(sections: &[String], deploy: &str, extra: Option<(usize, &str)>) -> String {
    let mut entries: Vec<String> =
        sections.iter().map(|s| format!("- {{match: '*', {s}}}\n")).collect();
    if let Some((at, section)) = extra {
        entries.insert(at.min(entries.len()), format!("- {{match: 'other', {section}}}\n"));
    }
    let defaults =
        if entries.is_empty() { String::new() } else { format!("defaults:\n{}", entries.concat()) };
    format!("{defaults}deploy:\n  t: {{{deploy}}}\n")
}

proptest! {
    #[test]
    fn merging_never_loses_an_override(sections in proptest::collection::vec(section(), 0..4), deploy in section()) {
        let waml = waml(&body(&sections, &deploy, None));
        let merged = layers(&waml, &target("t")).unwrap();
        let result = read_untyped(&merged.tree);
        let (_, last) = waml.deploy.first().unwrap();
        for (key, value) in read_untyped(last).as_object().unwrap() {
            match key.as_str() {
                "args" => prop_assert_eq!(&result["args"], value),
                "labels" => for (label, value) in value.as_object().unwrap() {
                    prop_assert_eq!(&result["labels"][label], value);
                },
                _ => for wanted in value.as_array().unwrap() {
                    let found = result["env"].as_array().unwrap().iter().find(|e| e["name"] == wanted["name"]);
                    prop_assert_eq!(&found.unwrap()["value"], &wanted["value"]);
                },
            }
        }
    }

    #[test]
    fn merging_is_stable(sections in proptest::collection::vec(section(), 1..4), deploy in section()) {
        let result = merged(&body(&sections, &deploy, None), "t");
        prop_assert_eq!(&result, &merged(&body(&sections, &deploy, None), "t"));
        // The last layer said twice is the last layer said once.
        let mut twice = sections.clone();
        twice.push(deploy.clone());
        prop_assert_eq!(result, merged(&body(&twice, &deploy, None), "t"));
    }

    #[test]
    fn a_section_that_does_not_match_has_no_effect(
        sections in proptest::collection::vec(section(), 0..4), deploy in section(), other in section(), at in 0..4usize,
    ) {
        let without_section = merged(&body(&sections, &deploy, None), "t");
        prop_assert_eq!(without_section, merged(&body(&sections, &deploy, Some((at, &other))), "t"));
    }
}
