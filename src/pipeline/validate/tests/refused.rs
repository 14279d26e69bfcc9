//! Values that Kubernetes, or a registry, would refuse, each refused at its place.

use super::{WEB, check_section, rendered};

#[test]
fn images_have_names_that_registries_take() {
    assert_eq!(
        check_section("    image: {registry: 'ghcr.io ', repository: Acme/App}\n"),
        [
            "8:23: `ghcr.io ` is not a registry [image]",
            "8:47: `Acme/App` is not the name of an image [image]",
        ]
    );
    let long = "a".repeat(200);
    let messages =
        check_section(&format!("    image: {{registry: a.b/{long}, repository: {long}}}\n"));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].ends_with("is not the name of an image [image]"), "{messages:?}");
    assert_eq!(
        check_section("    image: {repository: 'localhost:5000/acme/app'}\n"),
        Vec::<String>::new()
    );
}

#[test]
fn secrets_have_names_and_keys_that_can_exist() {
    assert_eq!(
        check_section(
            "    env: [{name: A, secret: {name: a.b, key: c.D_e}}, {name: B, secret: {name: A_b, key: 'x y'}}, {name: C, secret: {name: c, key: ..}}]\n    secrets: [{name: a.b}, {name: a..b}]\n"
        ),
        [
            "8:80: `A_b` is not a legal name of a Secret [names]",
            "8:90: `x y` is not a legal key of a Secret [env]",
            "8:132: `..` is not a legal key of a Secret [env]",
            "9:35: `a..b` is not a legal name of a Secret [names]",
        ]
    );
}

#[test]
fn a_mounted_secret_is_a_volume_with_a_legal_name() {
    let long = "a".repeat(250);
    let deployment = rendered(&format!(
        "    secrets: [{{name: plain, mountPath: /a}}, {{name: a.b, mountPath: /b}}, {{name: a-b, mountPath: /c}}, {{name: {long}, mountPath: /d}}]\n"
    ));
    let pod = &deployment["spec"]["template"]["spec"];
    let texts_of = |list: &serde_json::Value, key: &str| {
        let texts = list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap());
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let volumes = texts_of(&pod["volumes"], "name");
    assert_eq!(volumes[0], "secret-plain");
    assert_eq!(volumes[2], "secret-a-b");
    assert!(volumes[1].starts_with("secret-a-b-"), "{volumes:?}");
    assert!(volumes.iter().all(|name| crate::model::id::is_rfc1123_label(name)), "{volumes:?}");
    assert_eq!(texts_of(&pod["containers"][0]["volumeMounts"], "name"), volumes);
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "a.b");
}

#[test]
fn a_volume_has_a_folder_of_its_own() {
    assert_eq!(
        check_section(
            "    secrets: [{name: a, mountPath: //}, {name: b, mountPath: /x}, {name: c, mountPath: /./x/}]\n"
        ),
        [
            "8:36: `//` is not a folder in the container [volumes]",
            "8:88: `/./x/` is already the folder of `secrets[1].mountPath` [volumes]",
        ]
    );
}

#[test]
fn probes_are_those_that_kubernetes_takes() {
    assert_eq!(
        check_section(&format!(
            "{WEB}    probes:\n      liveness: {{command: [], path: null}}\n      readiness: {{path: '', successThreshold: 2}}\n      startup: {{port: http, successThreshold: 2}}\n"
        )),
        [
            "10:18: the liveness probe has an empty command [probes]",
            "11:25: the readiness probe has an empty path [probes]",
            "12:47: a startup probe passes with its first success [probes]",
        ]
    );
}

#[test]
fn a_disruption_has_one_number_and_no_more_than_all() {
    assert_eq!(
        check_section("    disruption: {minAvailable: 1, maxUnavailable: 1}\n"),
        ["8:51: a disruption has `minAvailable` or `maxUnavailable`, not both [disruption]"]
    );
    assert_eq!(
        check_section("    disruption: {maxUnavailable: 101%}\n"),
        ["8:34: 101% of the pods cannot be away [disruption]"]
    );
    assert_eq!(check_section("    disruption: {minAvailable: 1}\n"), Vec::<String>::new());
}

#[test]
fn numbers_fit_into_32_bits() {
    assert_eq!(
        check_section(
            "    disruption: {maxUnavailable: 2147483648}\n    scaling: {maxSurge: 2147483648}\n"
        ),
        [
            "8:34: `2147483648` is neither a number nor a percentage [disruption]",
            "9:25: `2147483648` is neither a number nor a percentage [scaling]",
        ]
    );
    assert_eq!(check_section("    scaling: {maxSurge: 2147483647}\n"), Vec::<String>::new());
}

#[test]
fn grpc_is_served_at_a_port_of_tcp() {
    let service = "    service: [{ports: [{name: api, number: 9000, targetPort: 9001}, {name: dns, number: 53, protocol: UDP}]}]\n";
    let grpc = |port: &str| check_section(&format!("{service}    grpc: {{port: {port}}}\n"));
    for port in ["api", "9000", "9001"] {
        assert_eq!(grpc(port), Vec::<String>::new(), "{port}");
    }
    for port in ["dns", "53", "nope", "''"] {
        let messages = grpc(port);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("9:18: no service has the TCP port "), "{messages:?}");
        assert!(messages[0].ends_with("that serves gRPC [grpc]"), "{messages:?}");
    }
}

#[test]
fn what_others_decide_is_not_set_in_silence() {
    let hpa = "    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n";
    assert_eq!(
        check_section(&format!("{hpa}    scaling: {{replicas: 4}}\n")),
        [
            "9:25: `scaling.replicas` does nothing: the number of replicas is the autoscaler's [ignored]"
        ]
    );
    // The template's own number stays without a word.
    assert_eq!(check_section(hpa), Vec::<String>::new());
    assert_eq!(
        check_section(
            "    service: [{port: 80, ports: [{name: a, number: 81}]}]\n    ingress: [{hostPrefix: a, port: 80, paths: [{servicePort: 81}]}]\n    image: {registry: ghcr.io, repository: quay.io/a/b}\n"
        ),
        [
            "8:22: `service[0].port` does nothing: every port has a `number` [ignored]",
            "9:37: `ingress[0].port` does nothing: every path has a `servicePort` [ignored]",
            "10:23: `image.registry` does nothing: `image.repository` names a registry itself [ignored]",
        ]
    );
}

#[test]
fn a_setting_that_every_target_has_otherwise_is_told() {
    let head = super::HEAD;
    let text = |deploy: &str| {
        format!(
            "{head}template: cronjob-default\ndefaults:\n- match: '*'\n  template: backend-default\n  scaling: {{replicas: 2}}\n  args: [a, b]\n  env: [{{name: A, value: 1}}, {{name: B, value: 2}}]\ndeploy:\n{deploy}"
        )
    };
    let said_of = |text: String| -> Vec<String> {
        super::planned(&text).iter().map(|v| v.to_string().replace(".weave.yaml:", "")).collect()
    };
    let t = "  t: {scaling: {replicas: 3}, args: [c], env: [{name: A, value: null}]}\n";
    let dead = |place: &str, path: &str| {
        format!(
            "{place}: `{path}` does nothing: every target that it is for has another value [ignored]"
        )
    };
    assert_eq!(
        said_of(text(t)),
        [
            dead("6:11", "template"),
            dead("10:23", "defaults[0].scaling.replicas"),
            dead("11:9", "defaults[0].args"),
            dead("12:26", "defaults[0].env[0].value"),
        ]
    );
    // One target that keeps them is enough.
    assert_eq!(said_of(text(&format!("{t}  other:\n"))), [dead("6:11", "template")]);
}

/// A `null` takes a list or a map away, so that what later layers set there does not merge with it.
#[test]
fn a_null_that_takes_something_away_has_an_effect_whatever_is_set_later() {
    let said_of = |body: &str| -> Vec<String> {
        let text = format!("{}{body}", super::HEAD);
        super::planned(&text).iter().map(|v| v.message.clone()).collect()
    };
    let lists = "defaults:\n- {match: '*', env: [{name: DEBUG, value: \"1\"}]}\n- {match: t, env: null}\ndeploy: {t: {env: [{name: A, value: x}]}, other: {}}\n";
    assert_eq!(said_of(lists), [""; 0]);
    let maps = "defaults:\n- {match: '*', labels: {team: a}}\n- {match: t, labels: ~}\ndeploy: {t: {labels: {tier: b}}, other: {}}\n";
    assert_eq!(said_of(maps), [""; 0]);
    let nested = "defaults:\n- {match: '*', service: [{ports: [{name: http, number: 80}]}]}\n- {match: t, service: [{ports: null}]}\ndeploy: {t: {service: [{ports: [{name: web, number: 81}]}]}, other: {}}\n";
    assert_eq!(said_of(nested), [""; 0]);
    // Where there was nothing to take away, it does nothing.
    let useless = "defaults:\n- {match: t, env: null}\ndeploy: {t: {env: [{name: A, value: x}]}}\n";
    assert_eq!(
        said_of(useless),
        ["`defaults[0].env` does nothing: every target that it is for has another value"]
    );
}

/// The consequences of a mistake are not reported as another one.
#[test]
fn a_mistake_has_no_echo() {
    let slo = "    slo: {requestClass: high}\n";
    let cases = [
        // The objective lacks no ingress: its port is wrong.
        format!("{WEB}    ingress: [{{hostPrefix: a, paths: [{{servicePort: 9}}]}}]\n{slo}"),
        // The ingress does not lead nowhere: the service cannot be read, or its key is misspelled.
        "    service: [{ports: [{name: http, number: eight}]}]\n    ingress: [{hostPrefix: a}]\n    probes: {liveness: {port: http}}\n    grpc: {port: http}\n".to_owned() + slo,
        "    sevrice: [{}]\n    ingress: [{hostPrefix: a}]\n    grpc: {port: http}\n".to_owned() + slo,
        // The request is there, in a part that cannot be read.
        "    resources: {requests: {cpu: [1]}}\n    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n".to_owned(),
    ];
    for case in cases {
        assert_eq!(check_section(&case).len(), 1, "{case}{:#?}", check_section(&case));
    }
}

#[test]
fn beside_a_bad_name_everything_else_is_told_at_once() {
    let said_of = |text: &str, target: &str| -> Vec<String> {
        let name = ".weave.yaml";
        let target = crate::model::id::TargetName::parse(target).unwrap();
        let clusters = crate::model::target::Clusters::any();
        let draft = crate::waml::Waml::parse_draft(
            name,
            text.as_bytes(),
            &crate::waml::yaml::Budget::default(),
        );
        let rejection = match crate::waml::Waml::parse(name, text.as_bytes()) {
            Err(rejection) => crate::pipeline::all_violations::of_unnamed(
                rejection,
                draft.as_ref(),
                Some(&target),
                &super::TEMPLATES,
                &clusters,
            ),
            Ok(_) => crate::model::violation::Rejection { violations: super::planned(text) },
        };
        rejection
            .violations
            .iter()
            .map(|v| format!("{} {}", v.position.as_ref().map_or(0, |p| p.line), v.rule))
            .collect()
    };
    let text = |head: &str, deploy: &str| {
        format!(
            "{head}{deploy}    env: [{{name: 1X, value: a}}]\n    vault: {{paths: [n/x]}}\n    autoscaling: {{horizontal: {{minReplicas: 9, maxReplicas: 2}}}}\n"
        )
    };
    let t = "deploy:\n  t:\n";
    let rest = ["8 env", "10 autoscaling", "10 autoscaling"];
    let with_rest = |first: &[&str]| -> Vec<String> {
        first.iter().chain(&rest).map(|message| (*message).to_owned()).collect()
    };
    let head = super::HEAD;
    let slug = head.replace("slug: a", "slug: My_App");
    assert_eq!((said_of(&text(&slug, t), "t")), with_rest(&["3 schema"]));
    let namespace = head.replace("namespace: n", "namespace: N!");
    assert_eq!((said_of(&text(&namespace, t), "t")), with_rest(&["5 schema"]));
    let template =
        text(head, "deploy:\n  t:\n").replace("    env:", "    template: nope\n    env:");
    assert_eq!(
        (said_of(&template, "t")),
        ["8 template", "9 env", "11 autoscaling", "11 autoscaling"]
    );
    // A target that is not there: what is wrong for each that is.
    let other = text(head, "deploy:\n  other:\n");
    assert_eq!((said_of(&other, "t")), ["6 target", "8 env", "10 autoscaling", "10 autoscaling"]);
    // The section under a name that no target can have is read all the same.
    let misnamed =
        format!("{head}deploy:\n  \"a b\":\n    scaling: {{replicas: many}}\n  t: {{}}\n");
    assert_eq!(said_of(&misnamed, "t"), ["7 schema", "8 schema"]);
}

/// Rules that go by a name do not check a placeholder for it.
#[test]
fn a_name_that_stands_in_for_another_has_no_echo() {
    use crate::model::target::{Clusters, Target};
    let prod = crate::model::id::TargetName::parse("prod").unwrap();
    let clusters = Clusters::from_targets([Target::unconfigured(prod)]);
    let facts = super::Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, clusters);
    let said_of = |text: &str| -> Vec<String> {
        let name = ".weave.yaml";
        let budget = crate::waml::yaml::Budget::default();
        let draft = crate::waml::Waml::parse_draft(name, text.as_bytes(), &budget).unwrap();
        let rejection = crate::model::violation::Rejection { violations: draft.violations.clone() };
        let rejection = crate::pipeline::all_violations::of_unnamed(
            rejection,
            Some(&draft),
            None,
            &super::TEMPLATES,
            &facts.clusters,
        );
        rejection.violations.iter().map(|v| format!("{} {}", v.rule, v.path)).collect()
    };
    let head = super::HEAD;
    let target = format!("{head}deploy:\n  \"prod eu\": {{}}\n  prod: {{}}\n");
    assert_eq!(said_of(&target), ["schema deploy.prod eu"]);
    // A name that happens to be that of a cluster is none that somebody wrote.
    let slug =
        head.replace("slug: a", "slug: Kubernetes").replace("namespace: n", "namespace: default");
    let slug = said_of(&format!("{slug}deploy:\n  prod: {{}}\n"));
    assert!(slug.iter().all(|line| line != "reserved slug"), "{slug:?}");
    let namespace = head.replace("namespace: n", "namespace: Kube-System");
    assert_eq!(said_of(&format!("{namespace}deploy:\n  prod: {{}}\n")), ["schema namespace"]);
}

#[test]
fn a_file_with_many_targets_costs_as_much_as_one_with_a_few() {
    let deploy: String = (0..200).map(|n| format!("  t{n}: {{template: none-{n}}}\n")).collect();
    let text = format!("{}deploy:\n{deploy}", super::HEAD);
    let waml = crate::waml::Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    let templates = super::TEMPLATES.iter().count();
    let tried_targets =
        crate::pipeline::all_violations::tried_targets(&waml, None, &super::TEMPLATES);
    assert!(
        !tried_targets.is_empty() && tried_targets.len() * templates <= 60,
        "{} {templates}",
        tried_targets.len()
    );
    // Each target's layers are merged for it: once for a file.
    let mut count = 0;
    for _ in 0..3 {
        waml.overridden(|_| {
            count += 1;
            Vec::new()
        });
    }
    assert_eq!(count, 1);
}

pub(super) fn with_severity(section: &str) -> Vec<(bool, String)> {
    let is_error = |v: &crate::model::violation::Violation| {
        (v.severity == crate::model::violation::Severity::Error, v.message.clone())
    };
    super::planned_section(section).iter().map(is_error).collect()
}

#[test]
fn a_budget_that_blocks_every_drain_is_refused_for_the_pods_at_hand() {
    let check_budget = |pods: &str, budget: &str| {
        with_severity(&format!("    scaling: {{replicas: {pods}}}\n    disruption: {{{budget}}}\n"))
    };
    for (pods, budget) in [
        ("1", "minAvailable: 50%"),
        ("1", "minAvailable: 1"),
        ("3", "minAvailable: 67%"),
        ("3", "minAvailable: 3"),
        ("3", "maxUnavailable: 0%"),
        ("2", "maxUnavailable: 0"),
    ] {
        let violations = check_budget(pods, budget);
        assert!(
            matches!(&violations[..], [(true, message)] if message.ends_with("so no node can be drained")),
            "{pods} {budget}: {violations:?}"
        );
    }
    for (pods, budget) in [
        ("3", "minAvailable: 66%"),
        ("3", "maxUnavailable: 1%"),
        ("0", "minAvailable: 1"),
        ("0", "maxUnavailable: 0"),
        ("2", "minAvailable: 1"),
    ] {
        assert_eq!(check_budget(pods, budget), [], "{pods} {budget}");
    }
    let hpa = "    autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 9, cpu: {averageUtilization: 75}}}\n    disruption: {minAvailable: 51%}\n";
    assert_eq!(
        with_severity(hpa),
        [(
            true,
            "no pod of the 2 that the app has at least may be away, so no node can be drained"
                .to_owned()
        )]
    );
}

#[test]
fn quantities_that_nobody_means_are_told() {
    let resources = |text: &str| with_severity(&format!("    resources: {{{text}}}\n"));
    let violation = |is_error, message: &str| vec![(is_error, message.to_owned())];
    assert_eq!(
        resources("requests: {memory: 128m}"),
        violation(true, "128m are 128 thousandths of a byte")
    );
    assert_eq!(
        resources("requests: {memory: 128}"),
        violation(true, "128 is less than a megabyte")
    );
    assert_eq!(
        resources("requests: {cpu: 200}, limits: {cpu: null}"),
        violation(false, "200 CPUs are more than a node has")
    );
    assert_eq!(resources("requests: {cpu: 64}, limits: {cpu: null}"), []);
    let disk = "    scaling: {replicas: 1}\n    volumes: [{name: a, mountPath: /a, size: 1m}]\n";
    assert_eq!(with_severity(disk), violation(true, "1m are 1 thousandths of a byte"));
    let nul = "    env: [{name: A, value: \"a\\0b\"}]\n";
    assert!(check_section(nul)[0].contains("has a NUL in it"), "{:?}", check_section(nul));
    assert_eq!(
        check_section("    service: [{}]\n    ingress: [{host: 10.0.0.1}]\n"),
        ["9:22: `10.0.0.1` is an address, not a host name [ingress]"]
    );
    assert_eq!(
        with_severity("    redis: {version: \"99.1\"}\n"),
        violation(true, "`99.1` is not a version of Redis that is available here")
    );
}

#[test]
fn an_autoscaler_can_reach_what_it_aims_for() {
    let check_cpu = |resources: &str, percent: u32| {
        with_severity(&format!(
            "    resources: {{{resources}}}\n    autoscaling: {{horizontal: {{maxReplicas: 9, cpu: {{averageUtilization: {percent}}}}}}}\n"
        ))
    };
    let twice = "requests: {cpu: 100m}, limits: {cpu: 200m}";
    assert_eq!(check_cpu(twice, 199), []);
    assert_eq!(
        check_cpu(twice, 200),
        [(true, "no pod is ever added: 200% of the requested 100m cpu is not less than the limit of 200m".to_owned())]
    );
    assert_eq!(check_cpu("limits: {cpu: null}", 300), []);
    assert_eq!(
        check_cpu("requests: {cpu: 0}", 75),
        [(true, "the autoscaler measures cpu against a request of 0".to_owned())]
    );
    let check_both = |resources: &str, cpu: u32| {
        with_severity(&format!(
            "    resources: {{{resources}}}\n    autoscaling: {{horizontal: {{maxReplicas: 9, cpu: {{averageUtilization: {cpu}}}, memory: {{averageUtilization: 100}}}}}}\n"
        ))
    };
    // As much memory as may be had is requested, which is usual: cpu adds the pods.
    let equal = "requests: {cpu: 100m, memory: 256Mi}, limits: {cpu: 200m, memory: 256Mi}";
    let violations = check_both(equal, 75);
    assert!(violations.len() == 1 && !violations[0].0, "{violations:?}");
    assert!(
        violations[0].1.starts_with("no pod is ever added because of its memory"),
        "{violations:?}"
    );
    assert!(check_both(equal, 200).iter().all(|(is_error, _)| *is_error), "nothing adds one");
}

#[test]
fn an_alert_that_compares_nothing_is_told() {
    let check_alert = |expr: &str| {
        with_severity(&format!("    alerts: {{own: {{expr: '{expr}', summary: x}}}}\n"))
    };
    for always in ["up", "sum(rate(a_total{x!=\"y\"}[5m]))", "1"] {
        assert_eq!(
            check_alert(always),
            [(false, "the alert `own` fires as long as anything is measured".to_owned())],
            "{always}"
        );
    }
    for fine in ["up == 0", "absent(up)", "a unless b", "rate(a[5m]) > 1", "a and on (x) b"] {
        assert_eq!(check_alert(fine), [], "{fine}");
    }
}

/// The consequences of a mistake are not reported beside it.
#[test]
fn an_amount_that_makes_no_sense_is_told_once_with_what_to_write() {
    use crate::model::violation::Severity::{Error, Warning};

    let only_violation = |section: &str| {
        let violations = super::planned_section(section);
        assert_eq!(violations.len(), 1, "{section}: {violations:?}");
        let violation = &violations[0];
        (violation.message.clone(), violation.severity, violation.help.clone().unwrap_or_default())
    };
    let limit = |memory: &str| format!("    resources: {{limits: {{memory: {memory}}}}}\n");
    for (section, message, severity, help) in [
        (limit("128m"), "128m are 128 thousandths of a byte", Error, "`128Mi`"),
        (limit("512"), "512 is less than a megabyte", Error, "`512Mi`"),
        (limit("1Ki"), "1Ki is less than a megabyte", Error, "`1Mi`"),
        (limit("9000Ti"), "9000Ti of memory is more than a node has", Warning, "`9000Mi`"),
        (
            "    disruption: {minAvailable: 101%}\n".to_owned(),
            "101% of the pods cannot stay",
            Error,
            "100% or less",
        ),
        (
            "    resources: {requests: {cpu: 200}}\n".to_owned(),
            "200 CPUs are more than a node has, and over the limit of 400m",
            Error,
            "`200m`",
        ),
        (
            "    resources: {requests: {memory: 800Gi}}\n".to_owned(),
            "800Gi of memory is more than a node has, and over the limit of 512Mi",
            Error,
            "`800Mi`",
        ),
        (
            "    autoscaling: {horizontal: {maxReplicas: 9, memory: {averageUtilization: 75}}}\n    resources: {limits: {memory: 300m}}\n".to_owned(),
            "300m are 300 thousandths of a byte",
            Error,
            "`300Mi`",
        ),
        (
            "    scaling: {replicas: 1}\n    disruption: {maxUnavailable: 1}\n    volumes: [{name: d, mountPath: /d, size: 100Pi}]\n".to_owned(),
            "100Pi is more than clouds offer in a disk",
            Warning,
            "`size: 100Gi`",
        ),
        (
            format!("{WEB}    ingress: [{{hostPrefix: 10.0.0.1}}]\n"),
            "`10.0.0.1` is an address, not the beginning of a host name",
            Error,
            "`hostPrefix: my-app`",
        ),
        (
            "    alerts: {slow: {expr: 'rate(x[5m]) > bool 1', summary: it is slow}}\n".to_owned(),
            "the alert `slow` fires as long as anything is measured",
            Warning,
            "write `rate(x[5m]) > 1`",
        ),
        (
            "    alerts: {nope: {threshold: 3}}\n".to_owned(),
            "there is no alert `nope`",
            Error,
            "`nope: {expr: \"queue_length > 100\", summary: the queue is too long}`",
        ),
    ] {
        let violation = only_violation(&section);
        assert!(violation.0.starts_with(message), "{violation:?}");
        assert_eq!(violation.1, severity, "{violation:?}");
        assert!(violation.2.contains(help), "{violation:?}");
    }
}

#[test]
fn the_same_value_once_more_takes_nothing_away() {
    let head = super::HEAD;
    let text = |target: &str| {
        format!(
            "{head}defaults:\n- match: '*'\n  scaling: {{replicas: 2}}\n  args: [a, b]\n  service: [{{ports: [{{name: http, number: 8000}}]}}]\ndeploy:\n  t: {{{target}}}\n"
        )
    };
    let count_violations = |target: &str| super::planned(&text(target)).len();
    let same_values =
        "scaling: {replicas: 2}, args: [a, b], service: [{ports: [{name: http, number: 8000}]}]";
    assert_eq!(count_violations(same_values), 0, "{:?}", super::planned(&text(same_values)));
    assert_eq!(count_violations("scaling: {replicas: 3}"), 1);
    assert_eq!(count_violations("args: [a]"), 1);
    assert_eq!(count_violations("service: [{ports: [{name: http, number: 8001}]}]"), 1);
}

#[test]
fn jobs_and_containers_are_few_because_each_has_all_variables() {
    let list = |key: &str, count: usize| {
        let entries: String = (0..count).map(|n| format!("{{name: x{n}, args: [a]}}, ")).collect();
        check_section(&format!("    {key}: [{entries}]\n"))
    };
    for key in ["jobs", "initContainers", "sidecars"] {
        assert_eq!(list(key, 16), Vec::<String>::new());
        let [message] = &list(key, 17)[..] else { panic!("{key}") };
        let expected = format!("an app has at most 16 `{key}`, and this has 17");
        assert!(message.contains(&expected), "{message}");
    }
}
