//! A canary's numbers, measurements and takeover, one fault at a time.

use super::facts::{check_with_facts, facts_on, known_fact, target};
use super::{HEAD, WEB, check_section, plan_on};
use crate::manifests::parse::live_app;
use crate::model::facts::{Fact, Facts, LiveApp};
use crate::model::platform::Platform;

const NONE: [&str; 0] = [];
const SCALED: &str = "    autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 4, cpu: {averageUtilization: 75}}}\n";
const ADDRESS: &str = "    ingress: [{hostPrefix: a}]\n";

/// Checks an app that Flagger can take over, with this canary in line 8.
fn canary(text: &str) -> Vec<String> {
    check_section(&format!("    canary: {{{text}}}\n{WEB}{SCALED}{ADDRESS}"))
}

/// Checks it on a target with this platform.
fn canary_on(platform: &str, section: &str) -> Vec<String> {
    let platform: Platform = serde_yaml::from_str(platform).unwrap();
    let text = format!("{HEAD}deploy:\n  t:\n{section}{WEB}{SCALED}");
    let violations = match plan_on(&text, platform) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    };
    violations.iter().map(|v| v.to_string().replace(".weave.yaml:", "")).collect()
}

#[test]
fn a_canary_gets_somewhere_in_a_sane_time() {
    assert_eq!(canary(""), NONE, "the template has defaults for everything");
    assert_eq!(canary("stepWeight: 10, maxWeight: 50, interval: 1m, threshold: 5"), NONE);
    assert_eq!(
        canary("stepWeight: 60, maxWeight: 50, interval: 5 minutes"),
        [
            "8:26: a step of 60 % is over the maximum of 50 % [canary]",
            "8:55: `5 minutes` is not a time [canary]",
        ]
    );
    assert_eq!(
        canary("interval: 1s"),
        ["8:24: 1s between steps is too short to measure anything [canary]"]
    );
    assert_eq!(
        canary("stepWeight: 1, maxWeight: 50, interval: 1h, progressDeadlineSeconds: 86400"),
        ["8:5: a release takes at least 50h: `interval` × `maxWeight` / `stepWeight` [canary]"]
    );
    // A last, smaller step takes its time, too.
    let fits =
        "stepWeight: 2, maxWeight: 48, interval: 1h, threshold: 24, progressDeadlineSeconds: 86400";
    assert_eq!(canary(fits), NONE);
    let over =
        fits.replace("maxWeight: 48", "maxWeight: 49").replace("threshold: 24", "threshold: 25");
    assert_eq!(
        canary(&over),
        [
            "8:5: a release takes at least 25h: `interval` × `maxWeight` / `stepWeight` [canary]",
            "8:5: a release that fails is rolled back after 25h: `interval` × `threshold` [canary]",
        ]
    );
    for interval in ["99999999999999h", "-5m", "1d", "''", "5", "1m1m"] {
        let messages = canary(&format!("stepWeight: 1, maxWeight: 100, interval: {interval}"));
        assert!(
            messages.iter().any(|message| message.contains("[canary]")),
            "{interval}: {messages:?}"
        );
    }
}

#[test]
fn pods_get_as_long_as_the_release_takes() {
    let document = "interval: 1m, threshold: 3, maxWeight: 60, stepWeight: 20";
    assert_eq!(canary(&format!("{document}, progressDeadlineSeconds: 180")), NONE);
    assert_eq!(
        canary(&format!("{document}, progressDeadlineSeconds: 60")),
        [
            "8:98: a release takes at least 3m, and a pod that is not ready for 1m of it takes it back [canary]"
        ]
    );
    let short = canary(&format!("{document}, progressDeadlineSeconds: 30"));
    assert!(short[0].contains("pods get 30s to be ready, and Flagger looks each 1m"), "{short:?}");
}

#[test]
fn keys_of_two_strategies_do_not_stand_beside_each_other() {
    for (text, fault) in [
        ("iterations: 10, stepWeight: 5", "`stepWeight` does nothing beside `iterations`"),
        ("stepWeights: [5, 50], maxWeight: 60", "`maxWeight` does nothing beside `stepWeights`"),
        ("match: [{headers: {a: {exact: b}}}]", "`match` does nothing without `iterations`"),
        ("mirrorWeight: 10", "`mirrorWeight` does nothing without `mirror: true`"),
        ("stepWeights: [5, 5]", "a step of 5 % is not more than the one before, 5 %"),
        ("stepWeights: [0, 5]", "a step of 0 % is no share of the traffic"),
        ("stepWeights: [5, 101]", "a step of 101 % is no share of the traffic"),
        ("stepWeights: []", "`stepWeights` has no step"),
    ] {
        let messages = canary(text);
        assert!(messages.iter().any(|message| message.contains(fault)), "{text}: {messages:?}");
    }
    assert_eq!(canary("stepWeights: [1, 5, 20, 50]"), NONE);
    assert_eq!(canary("iterations: 10"), NONE);
    assert_eq!(canary("maxWeight: 5, stepWeight: 5"), NONE);
    // The default step does not fit the maximum that is written.
    assert_eq!(
        canary("maxWeight: 5"),
        ["8:25: a step of 10 % is over the maximum of 5 % [canary]"]
    );
    for weight in ["101", "0", "-1", "ten"] {
        let messages = canary(&format!("stepWeight: {weight}"));
        assert!(messages[0].contains("[schema]"), "{weight}: {messages:?}");
    }
}

#[test]
fn a_measurement_says_what_is_good_and_something_measures_it() {
    let metric = |text: &str| canary(&format!("metrics: [{{{text}}}]"));
    let good = "name: request-success-rate, thresholdRange: {min: 99}";
    assert_eq!(metric(good), NONE);
    for (text, fault) in [
        (
            "name: request-succes-rate, thresholdRange: {min: 99}",
            "Flagger does not know the measurement `request-succes-rate`",
        ),
        (
            "name: request-duration, query: up, thresholdRange: {max: 5}",
            "Flagger measures `request-duration` itself",
        ),
        ("name: request-duration", "every value of `request-duration` would be good"),
        (
            "name: request-duration, thresholdRange: {}",
            "every value of `request-duration` would be good",
        ),
        (
            "name: request-duration, thresholdRange: {min: 9, max: 5}",
            "no value is at least 9 and at most 5",
        ),
        (
            "name: request-duration, thresholdRange: {max: 0.5}",
            "`max: 0.5` is less than a millisecond",
        ),
        (
            "name: request-success-rate, thresholdRange: {min: 999}",
            "999 is no percentage of requests",
        ),
        (
            "name: request-success-rate, thresholdRange: {min: 0.99}",
            "less than one percent of requests",
        ),
        (
            "name: request-success-rate, interval: 5m, thresholdRange: {min: 99}",
            "a check measures 5m, and checks are 1m apart",
        ),
        (
            "name: own, query: up, thresholdRange: {max: 5}",
            "`t` names no Prometheus for measurements of one's own",
        ),
        ("name: own, query: 'x{{ a }}', thresholdRange: {max: 5}", "Flagger fills in no `a`"),
        ("name: Own, query: up, thresholdRange: {max: 5}", "`Own` is no legal name"),
    ] {
        let messages = metric(text);
        assert!(messages.iter().any(|message| message.contains(fault)), "{text}: {messages:?}");
    }
    let own = "    canary: {metrics: [{name: own, query: 'x{n=\"{{ namespace }}\"}', thresholdRange: {max: 5}}]}\n";
    let with_prometheus = "canary: {prometheus: 'http://p:9090'}";
    assert_eq!(canary_on(with_prometheus, &format!("{own}{ADDRESS}")), NONE);
    let nothing = canary("metrics: null");
    assert!(nothing[0].contains("the canary measures nothing"), "{nothing:?}");
    // The Gateway API has no metrics of its own.
    let gateway = canary_on("ingress: {kind: gateway}", &format!("    canary: {{}}\n{ADDRESS}"));
    assert!(
        gateway.len() == 2
            && gateway.iter().all(|message| message.contains("what the app counts itself")),
        "{gateway:?}"
    );
}

#[test]
fn webhooks_and_headers_are_whole() {
    for (text, fault) in [
        ("webhooks: [{name: a}]", "the webhook has no address"),
        ("webhooks: [{name: a, url: x.io}]", "this is no address"),
        ("webhooks: [{name: a, url: 'http://user:pw@x.io/'}]", "this is no address"),
        ("webhooks: [{name: a, url: 'http://x/', timeout: 5}]", "`5` is not a time"),
        ("webhooks: [{name: a, url: 'http://x/', type: sometimes}]", "[schema]"),
        (
            "iterations: 3, match: [{headers: {a: {exact: b, regex: c}}}]",
            "a header is compared in one way",
        ),
        ("iterations: 3, match: [{}]", "this matches every request"),
    ] {
        let messages = canary(text);
        assert!(messages.iter().any(|message| message.contains(fault)), "{text}: {messages:?}");
    }
}

#[test]
fn flagger_can_take_the_app_over() {
    let section = |text: &str| check_section(&format!("    canary: {{}}\n{text}"));
    for (text, fault) in [
        (format!("{WEB}{ADDRESS}"), "only an autoscaler that it can copy keeps the number of pods"),
        (
            format!("{WEB}{ADDRESS}    scaling: {{replicas: 1}}\n"),
            "with `replicas: 1` there is no pod beside the one that serves",
        ),
        (
            format!(
                "{WEB}{ADDRESS}    autoscaling: {{horizontal: {{minReplicas: 1, maxReplicas: 1, cpu: {{averageUtilization: 75}}}}}}\n"
            ),
            "an autoscaler of one pod cannot hold the traffic",
        ),
        (
            format!(
                "{WEB}{ADDRESS}    autoscaling: {{horizontal: {{minReplicas: 1, maxReplicas: 3, cpu: {{averageUtilization: 75}}}}}}\n"
            ),
            "one pod may serve alone",
        ),
        (SCALED.to_owned(), "the app has no Service whose traffic could be shared"),
        (
            format!(
                "{SCALED}    service: [{{ports: [{{name: a, number: 1000}}]}}, {{name: b, ports: [{{name: b, number: 2000}}]}}]\n"
            ),
            "Flagger shifts the traffic of one Service",
        ),
        (
            format!(
                "{SCALED}    service: [{{ports: [{{name: a, number: 80, targetPort: 8000}}, {{name: b, number: 90, targetPort: 9000}}]}}]\n"
            ),
            "one another number than the container's",
        ),
        (
            format!(
                "{SCALED}    service: [{{ports: [{{name: a, number: 80}}, {{name: b, number: 53, protocol: UDP}}]}}]\n"
            ),
            "TCP ports only",
        ),
        (
            format!("{WEB}{SCALED}    volumes: [{{name: data, mountPath: /data, size: 1Gi}}]\n"),
            "would wait for a disk",
        ),
        (format!("{WEB}{SCALED}"), "nothing will send traffic to a new release"),
        (
            format!("{WEB}{SCALED}    cron: {{schedule: '0 3 * * *'}}\n"),
            "what runs on a schedule has no traffic",
        ),
        (
            format!("{WEB}{SCALED}    versions: [{{name: blue}}]\n"),
            "an app has a canary or versions, not both",
        ),
    ] {
        let messages = section(&text);
        assert!(messages.iter().any(|message| message.contains(fault)), "{text}: {messages:?}");
    }
    let jobs = check_section(
        "    template: cronjob-default\n    cron: {schedule: '0 3 * * *'}\n    canary: {stepWeight: 10}\n",
    );
    assert!(jobs.iter().any(|message| message.contains("what runs on a schedule")), "{jobs:?}");
    let load = "    canary: {webhooks: [{name: load, url: 'http://l/'}]}\n";
    assert_eq!(check_section(&format!("{load}{WEB}{SCALED}")), NONE, "a load test is traffic");
    let long = format!("{HEAD}deploy:\n  t:\n    canary: {{}}\n{WEB}{SCALED}{ADDRESS}")
        .replace("slug: a", &format!("slug: {}", "a".repeat(39)));
    let messages = super::planned(&long);
    assert!(messages[0].message.contains("which is too long for a workload"), "{messages:?}");
}

#[test]
fn each_provider_has_its_limits() {
    let ab = "iterations: 3, match: [{headers: {a: {exact: b}}}]";
    for (platform, text, fault) in [
        ("{}", format!("{ab}}}\n{ADDRESS}"), "Flagger cannot choose requests with Traefik"),
        ("{}", format!("mirror: true}}\n{ADDRESS}"), "Flagger cannot copy requests with Traefik"),
        ("{}", format!("}}\n{ADDRESS}    grpc: {{}}\n"), "speaks no HTTP/2, which gRPC needs"),
        ("ingress: {kind: kubernetes}", "}\n".to_owned(), "with ingress-nginx Flagger shares the traffic of an address"),
        ("ingress: {kind: kubernetes}", "}\n    ingress: [{hostPrefix: a}, {hostPrefix: b}]\n".to_owned(), "shares the traffic of one address"),
        ("ingress: {kind: gateway}", "}\n".to_owned(), "with the Gateway API Flagger shares the traffic of an address"),
        ("ingress: {kind: gateway}", format!("mirror: true, mirrorWeight: 5}}\n{ADDRESS}"), "a gateway copies all requests or none"),
        ("ingress: {kind: gateway}", "}\n    ingress: [{hostPrefix: a}, {hostPrefix: b, public: true}]\n".to_owned(), "the internet would reach the one that it must not"),
        ("ingress: {kind: gateway}", "}\n    ingress: [{hostPrefix: a}, {hostPrefix: b, paths: [{path: /b}]}]\n".to_owned(), "so each has the same paths"),
        ("ingress: {kind: gateway}", "}\n    ingress: [{hostPrefix: a, paths: [{path: /, cache: {maxAge: 5}}, {path: /b}]}]\n".to_owned(), "one `Cache-Control` for all paths"),
        ("canary: {provider: none}", format!("}}\n{ADDRESS}"), "`t` has no Flagger"),
        ("canary: {provider: istio}", "}\n".to_owned(), "only callers in the mesh will send traffic"),
    ] {
        let messages = canary_on(platform, &format!("    canary: {{{text}"));
        assert!(
            messages.iter().any(|message| message.contains(fault)),
            "{platform}, {text}: {messages:?}"
        );
    }
}

/// Returns the facts of a target on which this section is live.
fn after(section: &str) -> Facts {
    let text = format!("{HEAD}deploy:\n  t:\n{section}{WEB}{SCALED}{ADDRESS}");
    let rendered = plan_on(&text, Platform::default()).unwrap();
    Facts { live: known_fact(live_app(&rendered.files).0), ..facts_on(target()) }
}

#[test]
fn an_app_changes_over_by_a_handover_and_by_nothing_else() {
    let stages = ["", "    canary: {handover: true}\n", "    canary: {}\n"];
    let faults = |from: &str, to: &str| -> Vec<String> {
        let messages = check_with_facts(&format!("{to}{WEB}{SCALED}{ADDRESS}"), &after(from));
        let is_error =
            |message: &String| message.contains("[handover]") && !message.starts_with('?');
        messages.into_iter().filter(is_error).collect()
    };
    let [plain, handover, full] = stages;
    for (from, to) in [(plain, handover), (handover, full), (full, handover), (handover, plain)] {
        assert_eq!(faults(from, to), NONE, "{from} to {to}");
    }
    for stage in stages {
        assert_eq!(faults(stage, stage), NONE, "{stage}");
    }
    let removed = faults(plain, full);
    assert!(removed[0].contains("Argo CD would remove Service `a`"), "{removed:?}");
    assert!(removed[0].contains("deploy once with `canary: {handover: true}`"), "{removed:?}");
    let empty = faults(full, plain);
    assert!(empty[0].contains("pods that Flagger has scaled to 0"), "{empty:?}");
}

#[test]
fn a_new_app_begins_with_the_handover_by_itself() {
    let text = format!("{HEAD}deploy:\n  t:\n    canary: {{}}\n{WEB}{SCALED}{ADDRESS}");
    let files = |live: Fact<LiveApp>| -> Vec<String> {
        let facts = Facts { live, ..facts_on(target()) };
        let rendered = super::plan_with(&text, &facts).unwrap();
        rendered.files.into_iter().map(|file| file.name).collect()
    };
    let service = "service.yaml".to_owned();
    assert!(files(known_fact(LiveApp::default())).contains(&service));
    let next = after("    canary: {handover: true}\n");
    assert!(!files(next.live).contains(&service), "from then on it is Flagger's");
    assert!(!files(Fact::NotAsked).contains(&service));
    let unknown = check_with_facts(
        &format!("    canary: {{}}\n{WEB}{SCALED}{ADDRESS}"),
        &Facts { live: Fact::Missing { why: "m is away".to_owned() }, ..facts_on(target()) },
    );
    assert!(
        unknown.iter().any(|message| message.contains("whether the app is a canary already")),
        "{unknown:?}"
    );
}
