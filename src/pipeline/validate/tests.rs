//! One section at a time, and its violations.

mod refused;
mod processes;
mod pods;
mod traffic;
mod shares;
mod canary;
mod workloads;
mod facts;
mod live;
mod deployer;
mod reserved;
mod hold;
mod rollouts;

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};

use crate::model::facts::Facts;
use crate::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use crate::model::platform::Platform;
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::{Input, plan};
use crate::templates::set::TemplateSet;
use crate::waml::Waml;

static TEMPLATES: LazyLock<Arc<TemplateSet>> =
    LazyLock::new(|| TemplateSet::compile(&crate::templates::sources::built_in()).unwrap().into());

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

fn planned(text: &str) -> Vec<Violation> {
    match plan_of(text) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    }
}

/// Returns the Deployment of a section for the target `t`.
fn rendered(section: &str) -> Json {
    let rendered = plan_of(&format!("{HEAD}deploy:\n  t:\n{section}")).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "deployment.yaml").unwrap();
    serde_yaml::from_slice(&file.bytes).unwrap()
}

fn plan_of(text: &str) -> Result<RenderedManifests, Rejection> {
    plan_on(text, Platform::default())
}

/// Plans it on a target with this platform.
fn plan_on(text: &str, platform: Platform) -> Result<RenderedManifests, Rejection> {
    let clusters = Clusters::Any(Box::new(platform));
    plan_with(text, &Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, clusters))
}

fn plan_with(text: &str, facts: &Facts) -> Result<RenderedManifests, Rejection> {
    let waml = Waml::parse(".weave.yaml", text.as_bytes())?;
    let input = Input {
        waml: waml.into(),
        target: TargetName::parse("t").unwrap(),
        fleet: None,
        release: Release {
            repository: RepoName::parse("o/a").unwrap(),
            app: None,
            commit: CommitSha::parse("0".repeat(40)).unwrap(),
            tag: ImageTag::parse("1").unwrap(),
        },
        templates: TEMPLATES.clone(),
    };
    plan(&input, facts)
}

/// Returns all violations of a section for the target `t`.
pub(super) fn planned_section(section: &str) -> Vec<Violation> {
    planned(&format!("{HEAD}deploy:\n  t:\n{section}"))
}

/// Checks a section for the target `t`: its violations, without the file's name.
fn check_section(section: &str) -> Vec<String> {
    let violations = planned(&format!("{HEAD}deploy:\n  t:\n{section}"));
    violations.iter().map(|v| v.to_string().replace(".weave.yaml:", "")).collect()
}

pub(super) const WEB: &str = "    service: [{ports: [{name: http, number: 8000}]}]\n";

#[test]
fn a_small_section_breaks_no_rule() {
    assert_eq!(check_section(WEB), Vec::<String>::new());
    assert_eq!(check_section("    {}\n"), Vec::<String>::new());
}

#[test]
fn ports_lead_from_ingress_to_service_to_pod() {
    assert_eq!(
        check_section(&format!(
            "{WEB}    ingress:\n    - hostPrefix: a\n      paths: [{{path: /, servicePort: 9000}}]\n    - {{hostPrefix: b, paths: [{{path: /x, service: c}}]}}\n"
        )),
        [
            "11:38: no service has the port 9000 [ingress]",
            "12:31: the service `c` has no port 8000 (the default of `backend-default`) [ingress]",
        ]
    );
    assert_eq!(
        check_section(
            "    service:\n    - ports: [{name: a, number: 1}, {name: b, number: 1}]\n    - {name: c, ports: [{name: a, number: 2}]}\n    - {name: d, ports: []}\n"
        ),
        [
            "9:55: the ports `a` and `b` have the same number 1 [ports]",
            "10:25: the port `a` leads to 2 of the container, and to 1 in `service[0].ports[0]` [ports]",
        ]
    );
    assert_eq!(
        check_section("    ingress: [{hostPrefix: a}]\n")[0],
        "8:15: no service has the port 8000 (the default of `backend-default`) [ingress]"
    );
}

#[test]
fn a_port_is_a_number_and_a_protocol() {
    let dns = "    service: [{ports: [{name: dns, number: 53, protocol: UDP}, {name: dns-tcp, number: 53}]}]\n";
    assert_eq!(check_section(dns), Vec::<String>::new());
    assert_eq!(
        check_section(
            "    service:\n    - ports: [{name: dns, number: 53, protocol: UDP}]\n    - {name: b, ports: [{name: dns, number: 53}]}\n    probes: null\n"
        ),
        [
            "10:25: the port `dns` leads to 53 of the container, and to 53/UDP in `service[0].ports[0]` [ports]"
        ]
    );
    assert_eq!(
        check_section(
            "    service:\n    - {name: a}\n    - {name: b, ports: [{name: http, number: 9000}]}\n"
        ),
        [
            "10:25: the port `http` leads to 9000 of the container, and to 8000 in `service[0]` [ports]"
        ]
    );
}

/// Returns the readiness probe's port, and the names of the container's ports.
fn readiness(section: &str) -> (Json, Vec<String>) {
    let rendered = rendered(section);
    let container = &rendered["spec"]["template"]["spec"]["containers"][0];
    let probe = &container["readinessProbe"];
    let check = if probe["httpGet"].is_null() { &probe["tcpSocket"] } else { &probe["httpGet"] };
    let ports = container["ports"].as_array().into_iter().flatten();
    (check["port"].clone(), ports.map(|port| port["name"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn probes_ask_what_the_container_has() {
    let merged = "    service: [{name: x, ports: [{name: http, number: 8000}]}, {name: y, ports: [{name: web, number: 8000}]}]\n";
    for (probes, port) in [
        ("", json!("http")),
        ("    probes: {readiness: {port: web}}\n", json!(8000)),
        ("    probes: {readiness: {port: http}}\n", json!("http")),
        ("    probes: {readiness: {port: 8000}}\n", json!(8000)),
    ] {
        let actual = readiness(&format!("{merged}{probes}"));
        assert_eq!(actual, (port, vec!["http".to_owned()]), "{probes}");
    }
    let dns = "    service: [{ports: [{name: dns, number: 53, protocol: UDP}, {name: up, number: 53}]}]\n";
    assert_eq!(readiness(dns).0, json!("up"));
    let udp = "    service: [{ports: [{name: dns, number: 53, protocol: UDP}]}]\n";
    assert_eq!(readiness(udp).0, Json::Null);
    assert_eq!(
        check_section(&format!("{udp}    probes: {{readiness: {{port: dns}}}}\n")),
        [
            "9:32: the readiness probe uses the TCP port `dns`, which the container does not have [probes]"
        ]
    );
}

#[test]
fn hosts_and_paths_are_legal() {
    let section = format!(
        "{WEB}    ingress:\n    - {{host: 'a`b.c'}}\n    - {{hostPrefix: A}}\n    - {{hostPrefix: c, paths: [{{path: 'x'}}, {{path: '/`'}}]}}\n    - {{host: a.b, hostPrefix: a}}\n"
    );
    assert_eq!(
        check_section(&section),
        [
            "10:14: `a`b.c` is not a legal host name [ingress]",
            "11:20: `A.t.internal` is not a legal host name [ingress]",
            "12:38: `x` is not a legal path [ingress]",
            "12:51: `/`` is not a legal path [ingress]",
            "13:14: an ingress has a `host` or a `hostPrefix`, not both [ingress]",
        ]
    );
}

#[test]
fn probes_use_ports_that_the_app_has() {
    assert_eq!(
        check_section(&format!(
            "{WEB}    probes: {{liveness: {{port: grpc}}, readiness: {{port: 8000}}, startup: {{port: 70000}}}}\n"
        )),
        [
            "9:31: the liveness probe uses the TCP port `grpc`, which the container does not have [probes]",
            "9:79: the startup probe uses the TCP port `70000`, which the container does not have [probes]",
        ]
    );
    assert_eq!(
        check_section("    probes: {liveness: {path: /up}}\n"),
        ["8:14: the liveness probe has no port, and the app has none of TCP [probes]"]
    );
    assert_eq!(
        check_section("    probes: {liveness: {command: [\"true\"], path: null}}\n"),
        Vec::<String>::new()
    );
}

#[test]
fn a_probe_on_a_services_number_asks_the_container_and_a_number_of_no_service_is_doubted() {
    let web = "    service: [{ports: [{name: web, number: 80, targetPort: 8000}]}]\n";
    let probe = |kind: &str, probe: &str| {
        let section = format!("{web}    probes: {{readiness: {{{probe}}}}}\n");
        assert_eq!(check_section(&section), Vec::<String>::new(), "{probe}");
        let container = &rendered(&section)["spec"]["template"]["spec"]["containers"][0];
        container["readinessProbe"][kind]["port"].clone()
    };
    assert_eq!(probe("httpGet", "port: 80, path: /up"), 8000);
    assert_eq!(probe("httpGet", "port: 8000, path: /up"), 8000);
    assert_eq!(probe("httpGet", "port: web, path: /up"), "web");
    assert_eq!(probe("grpc", "type: grpc, port: 80, path: null"), 8000);
    let doubtful = format!("{HEAD}deploy:\n  t:\n{web}    probes: {{readiness: {{port: 8800}}}}\n");
    let warnings = planned(&doubtful);
    assert!(plan_of(&doubtful).is_ok(), "{warnings:?}");
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            ".weave.yaml:9:32: the readiness probe uses the port `8800`, to which no service leads [probes]"
        ]
    );
    assert_eq!(
        warnings[0].help.as_deref(),
        Some("write it only if the container listens there; services lead to `web` (8000)")
    );
}

#[test]
fn requests_are_within_limits_and_quantities_parse() {
    assert_eq!(
        check_section(
            "    resources: {requests: {cpu: 1, memory: 1GB}, limits: {memory: 128 MB}}\n"
        ),
        [
            "8:33: the request of 1 cpu is over the limit of 400m (the default of `backend-default`) [resources]",
            "8:44: `1GB` is not a quantity [resources]",
            "8:67: `128 MB` is not a quantity [resources]",
        ]
    );
}

#[test]
fn a_rolling_update_can_make_progress() {
    assert_eq!(
        check_section("    scaling: {maxSurge: 0}\n"),
        [
            "8:25: a rolling update may neither take a pod away nor add one, so it never ends [scaling]"
        ]
    );
    assert_eq!(
        check_section("    scaling: {maxUnavailable: 120%, maxSurge: many}\n"),
        [
            "8:31: 120% of the pods cannot be missing [scaling]",
            "8:47: `many` is neither a number nor a percentage [scaling]",
        ]
    );
}

#[test]
fn what_null_takes_away_is_not_in_the_manifest() {
    let strategy = |section: &str| rendered(section)["spec"]["strategy"].clone();
    assert_eq!(
        strategy("    scaling: {maxSurge: null}\n"),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}})
    );
    assert_eq!(
        strategy("    scaling: {maxUnavailable: null}\n"),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}})
    );
    for section in ["    scaling: null\n", "    scaling: {maxUnavailable: null, maxSurge: null}\n"]
    {
        assert_eq!(strategy(section), json!({"type": "RollingUpdate"}), "{section}");
    }
}

#[test]
fn the_autoscalers_numbers_fit() {
    assert_eq!(
        check_section("    autoscaling: {horizontal: {minReplicas: 5, maxReplicas: 2}}\n"),
        [
            "8:19: the autoscaler measures nothing [autoscaling]",
            "8:45: at least 5 and at most 2 replicas cannot both be [autoscaling]",
        ]
    );
    assert_eq!(
        check_section(
            "    autoscaling: {horizontal: {cpu: {averageUtilization: 75}}}\n    resources: {requests: {cpu: null}, limits: {cpu: null}}\n"
        ),
        [
            "8:19: the autoscaler has no upper bound [autoscaling]",
            "8:32: the autoscaler measures cpu against a request that is not set [autoscaling]",
        ]
    );
}

#[test]
fn environment_variables_have_legal_names_and_one_source() {
    assert_eq!(
        check_section(
            "    env: [{name: 1A, value: x}, {name: KUBERNETES_PORT, value: x}, {name: B}, {name: C, value: x, secret: {name: s, key: k}}]\n"
        ),
        [
            "8:18: `1A` is not a legal name of an environment variable [env]",
            "8:40: `KUBERNETES_PORT` is set by Kubernetes [env]",
            "8:68: `B` has neither a value nor a secret [env]",
            "8:79: `C` has a value and a secret [env]",
        ]
    );
}

#[test]
fn names_and_labels_are_legal() {
    assert_eq!(
        check_section(
            "    service: [{name: 1st, ports: [{name: way-too-long-a-name, number: 1}]}]\n    labels: {app.kubernetes.io/name: x, 'a b': c, d: 'e f'}\n"
        ),
        [
            "8:22: `1st` is not a legal service name [names]",
            "8:42: `way-too-long-a-name` is not a legal port name [names]",
            "9:38: `app.kubernetes.io/name` is set by the-deployer [labels]",
            "9:48: `a b` is not a legal key [labels]",
            "9:54: `e f` is not a legal label value [labels]",
        ]
    );
}

/// Values that Kubernetes accepts are not refused.
#[test]
fn what_kubernetes_takes_is_taken() {
    let hpa = "    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n";
    assert_eq!(
        check_section(&format!("{hpa}    resources: {{requests: {{cpu: null}}}}\n")),
        Vec::<String>::new(),
        "a limit is a request where there is none"
    );
    assert_eq!(
        check_section(
            "    env: [{name: spring.profiles.active, value: x}, {name: a-b, value: y}]\n"
        ),
        Vec::<String>::new()
    );
    let probe = "    probes: {readiness: {port: 9999}, liveness: null}\n";
    assert_eq!(check_section(probe), Vec::<String>::new());
    let container = &rendered(probe)["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], 9999);
}

#[test]
fn a_long_slug_is_taken_and_what_is_made_of_it_is_short_enough() {
    let slug = "a".repeat(63);
    let head = HEAD.replace("slug: a", &format!("slug: {slug}"));
    let section = "    service: [{}]\n    redis: {}\n    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n";
    let platform = serde_json::from_str(r#"{"cloud": {"redis": "in-cluster"}}"#).unwrap();
    let rendered = plan_on(&format!("{head}deploy:\n  t:\n{section}"), platform);
    let rendered = rendered.unwrap();
    let objects: Vec<Json> =
        rendered.files.iter().map(|file| serde_yaml::from_slice(&file.bytes).unwrap()).collect();
    let objects_of =
        |kind: &str| objects.iter().filter(|object| object["kind"] == *kind).collect::<Vec<_>>();
    let workload = objects_of("Deployment")[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(workload.len(), 46);
    assert_eq!(
        objects_of("HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]["name"],
        workload
    );
    let rules = objects_of("PrometheusRule")[0].to_string();
    assert!(rules.contains(&format!("pod=~\\\"{workload}-.+")), "{rules}");
    assert!(objects_of("StatefulSet")[0]["metadata"]["name"].as_str().unwrap().len() <= 52);
    for service in objects_of("Service") {
        assert!(service["metadata"]["name"].as_str().unwrap().len() <= 63);
    }
}

#[test]
fn a_wildcard_host_is_taken_and_asked_behind_all_others() {
    let section = format!(
        "{WEB}    ingress: [{{hostPrefix: '*', paths: [{{path: /}}, {{path: /api}}]}}, {{host: '*.example.com'}}]\n"
    );
    assert_eq!(check_section(&section), Vec::<String>::new());
    let rendered = plan_of(&format!("{HEAD}deploy:\n  t:\n{section}")).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "ingressroute.yaml").unwrap();
    let route: Json = serde_yaml::from_slice(&file.bytes).unwrap();
    let field_of = |n: usize, key: &str| route["spec"]["routes"][n][key].clone();
    assert_eq!(field_of(0, "match"), r"HostRegexp(`^[^.]+\.t\.internal$`) && PathPrefix(`/`)");
    // Behind the shortest rule of a host that stands for itself, before an operator's route for everything.
    let [catch_all, shortest] =
        ["PathPrefix(`/`)", "Host(`a.b`) && PathPrefix(`/`)"].map(|rule| rule.len() as u64);
    let priorities = [field_of(0, "priority"), field_of(1, "priority")]
        .map(|priority| priority.as_u64().unwrap());
    assert!(catch_all < priorities[0] && priorities[0] < priorities[1], "{priorities:?}");
    assert!(priorities[1] < shortest, "{priorities:?}");
    // It is read back as the same host.
    let app =
        crate::model::id::AppKey { namespace: "n".parse().unwrap(), slug: "a".parse().unwrap() };
    let routes = crate::manifests::parse::routes::read_routes(&app, &rendered.files).found;
    let hosts: Vec<&str> = routes.iter().map(|route| route.host.as_str()).collect();
    assert_eq!(hosts, ["*.example.com", "*.t.internal", "*.t.internal"]);
    assert_eq!(
        check_section(
            "    service: [{}]\n    ingress: [{host: '*.a'}, {host: 'a.*.b'}, {host: '*'}]\n"
        )
        .len(),
        3
    );
}

#[test]
fn one_mistake_is_told_once() {
    assert_eq!(
        check_section("    service: [{ports: [{name: http, number: eight}]}]\n"),
        [
            "8:45: `deploy.t.service[0].ports[0].number` must be a whole number from 1 to 65535, but `eight` is not a whole number [schema]"
        ]
    );
}

#[test]
fn a_template_that_is_not_there_is_refused_with_those_that_are() {
    assert_eq!(
        check_section("    template: backend-defualt\n"),
        ["8:15: there is no template `backend-defualt` [template]"]
    );
    assert_eq!(
        check_section("    template: backend-default@7\n"),
        ["8:15: the template `backend-default` has no version `7` [template]"]
    );
}

#[test]
fn what_the_template_does_not_use_is_a_warning() {
    assert_eq!(
        check_section("    cron: {schedule: '0 3 * * *'}\n"),
        ["8:5: the template `backend-default@latest` does not use `cron` [unused]"]
    );
}

#[test]
fn a_broken_element_neither_shifts_nor_hides_the_others() {
    assert_eq!(
        check_section(
            "    env: [foo, {name: OK, value: x}, {name: 1B, value: x}, {value: y}]\n    scaling: {maxSurge: 0}\n"
        ),
        [
            "8:11: `deploy.t.env[0]` must be a map, but this is a single value [schema]",
            "8:45: `1B` is not a legal name of an environment variable [env]",
            "8:60: `name` is missing from `deploy.t.env[3]` [schema]",
            "9:25: a rolling update may neither take a pod away nor add one, so it never ends [scaling]",
        ]
    );
}

#[test]
fn an_address_that_names_no_port_leads_to_the_only_one() {
    let one_port = "    service: [{ports: [{name: web, number: 9000}, {name: dns, number: 53, protocol: UDP}]}]\n";
    for ingress in ["{hostPrefix: a}", "{hostPrefix: a, paths: [{path: /}]}"] {
        let section = format!("{one_port}    ingress: [{ingress}]\n");
        assert_eq!(check_section(&section), Vec::<String>::new());
        let rendered = plan_of(&format!("{HEAD}deploy:\n  t:\n{section}")).unwrap();
        let file = rendered.files.iter().find(|file| file.name == "ingressroute.yaml").unwrap();
        let route: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        assert_eq!(route["spec"]["routes"][0]["services"][0]["port"], 9000, "{ingress}");
    }
    let two_ports =
        "    service: [{ports: [{name: web, number: 9000}, {name: admin, number: 9001}]}]\n";
    assert_eq!(
        check_section(&format!("{two_ports}    ingress: [{{hostPrefix: a}}]\n")),
        ["9:15: no service has the port 8000 (the default of `backend-default`) [ingress]"]
    );
    // A port that the WAML names is not passed over.
    assert_eq!(
        check_section(&format!("{one_port}    ingress: [{{hostPrefix: a, port: 80}}]\n")),
        ["9:37: no service has the port 80 [ingress]"]
    );
}

#[test]
fn a_value_that_nobody_wrote_is_told_as_the_templates() {
    assert_eq!(
        check_section("    resources: {requests: {cpu: 2}}\n"),
        [
            "8:33: the request of 2 cpu is over the limit of 400m (the default of `backend-default`) [resources]"
        ]
    );
    assert_eq!(
        check_section("    resources: {limits: {memory: 64Mi}}\n"),
        [
            "8:34: the request of 256Mi memory (the default of `backend-default`) is over the limit of 64Mi [resources]"
        ]
    );
    assert_eq!(
        check_section(
            "    autoscaling: {horizontal: {maxReplicas: 2, cpu: {averageUtilization: 75}}}\n"
        ),
        [
            "8:19: at least 3 (the default of `backend-default`) and at most 2 replicas cannot both be [autoscaling]"
        ]
    );
}

#[test]
fn an_operators_word_on_how_ingress_nginx_speaks_counts() {
    let section = "    service: [{ports: [{name: grpc, number: 9000}]}]\n    grpc: {}\n    probes: {liveness: null}\n    ingress: [{hostPrefix: a}]\n";
    let protocol = |annotations: &str| {
        let platform = format!(
            "{{\"ingress\": {{\"kind\": \"kubernetes\", \"annotations\": {annotations}}}}}"
        );
        let platform = serde_json::from_str(&platform).unwrap();
        let rendered = plan_on(&format!("{HEAD}deploy:\n  t:\n{section}"), platform).unwrap();
        let file = rendered.files.iter().find(|file| file.name == "ingress.yaml").unwrap();
        let ingress: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/backend-protocol"].clone()
    };
    assert_eq!(protocol("{}"), "GRPC");
    let own_annotations =
        r#"{"internal": {"nginx.ingress.kubernetes.io/backend-protocol": "GRPCS"}}"#;
    assert_eq!(protocol(own_annotations), "GRPCS");
}

#[test]
fn help_about_a_number_or_an_expression_is_a_line_to_write() {
    let help = |section: &str| {
        let violations = planned(&format!("{HEAD}deploy:\n  t:\n{section}"));
        violations.iter().filter_map(|violation| violation.help.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        help("    resources: {requests: {cpu: 200k}, limits: {cpu: null}}\n"),
        ["write `200m` for 200 thousandths of a CPU, if that was meant"]
    );
    let long = "a".repeat(200);
    let alert = |expression: &str| {
        help(&format!("    alerts: {{queue: {{expr: {expression}, summary: it is full}}}}\n"))
    };
    assert_eq!(alert("up"), ["say what is wrong: `up == 0`, `up > 100`"]);
    assert_eq!(alert(&long), ["say what is wrong: `… == 0`, `… > 100`"]);
}
