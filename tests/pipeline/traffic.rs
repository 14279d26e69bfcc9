//! Versions over the clusters of a fleet: what each cluster gets, and the steps that lead there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use the_deployer::model::facts::Facts;
use the_deployer::model::fleet::{FleetCluster, FleetPlace};
use the_deployer::model::id::TargetName;
use the_deployer::model::platform::Platform;
use the_deployer::model::revision::ManifestFile;
use the_deployer::model::target::{Clusters, Environment, Target};
use the_deployer::model::violation::Rejection;
use the_deployer::pipeline::dry_run::plan_dry_run;
use the_deployer::pipeline::render::RenderedManifests;
use the_deployer::pipeline::{Input, plan};
use the_deployer::waml::Waml;

use super::{facts, release, templates};

const PLATFORMS: [&str; 4] = ["istio", "traefik", "gateway", "kubernetes"];

fn name(text: &str) -> TargetName {
    TargetName::parse(text).unwrap()
}

/// Three clusters, two of them for production.
fn clusters(kind: &str) -> Clusters {
    let platform: Platform =
        serde_json::from_str(&format!(r#"{{"ingress": {{"kind": "{kind}"}}}}"#)).unwrap();
    let target = |(text, usage): (&str, &str)| {
        let labels = [("usage".to_owned(), usage.to_owned())].into();
        let is_production = usage == "production";
        let environment =
            if is_production { Environment::Production } else { Environment::Development };
        Target {
            labels,
            environment,
            platform: platform.clone(),
            ..Target::unconfigured(name(text))
        }
    };
    let clusters = [("prod-1", "production"), ("prod-2", "production"), ("trial-1", "trial")];
    Clusters::from_targets(clusters.map(target))
}

fn waml(versions: &str) -> String {
    format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: a@b.c\nnamespace: devx\ndeploy:\n  prod:\n    service: [{{ports: [{{name: http, number: 80}}]}}]\n    ingress: [{{hostPrefix: shop}}]\n{versions}"
    )
}

fn input(text: &str, cluster: &str, kind: &str) -> (Input, Facts) {
    let clusters = clusters(kind);
    let Clusters::Known(targets) = &clusters else { panic!() };
    let fleet = targets.values().map(FleetCluster::of).collect();
    let input = Input {
        waml: Waml::parse(".weave.yaml", text.as_bytes()).unwrap().into(),
        target: name("prod"),
        fleet: Some(FleetPlace { cluster: name(cluster), clusters: fleet }),
        release: release(),
        templates: templates(),
    };
    (input, Facts { clusters, ..facts() })
}

fn planned(text: &str, cluster: &str, kind: &str) -> Result<RenderedManifests, Rejection> {
    let (input, facts) = input(text, cluster, kind);
    plan(&input, &facts)
}

fn objects(files: &[ManifestFile]) -> Vec<Json> {
    files.iter().map(|file| serde_yaml::from_slice(&file.bytes).unwrap()).collect()
}

/// The pods of each Deployment, as their manifests say.
fn pods(files: &[ManifestFile]) -> BTreeMap<String, u64> {
    let objects = objects(files).into_iter().filter(|object| object["kind"] == "Deployment");
    let pods = objects.map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        (name, object["spec"]["replicas"].as_u64().unwrap())
    });
    pods.collect()
}

fn counts(pods: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pods.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

const SPREAD: &str = "    versions:
    - {name: v1, tag: \"1.0\", weight: 90, placement: [{labels: {usage: production}, replicas: 5}, {cluster: trial-1, replicas: 1}]}
    - {name: v2, weight: 10, placement: [{cluster: trial-1, replicas: 2}]}
    - {name: v3, weight: 0, replicas: 1}
";

#[test]
fn each_cluster_of_a_fleet_gets_the_versions_that_are_placed_there() {
    for kind in ["istio", "traefik", "gateway"] {
        let text = waml(SPREAD);
        let of = |cluster: &str| planned(&text, cluster, kind).unwrap();
        let trial = pods(&of("trial-1").files);
        assert_eq!(trial, counts(&[("shop-v1", 1), ("shop-v2", 2), ("shop-v3", 1)]));
        let production = ["prod-1", "prod-2"].map(|cluster| pods(&of(cluster).files));
        for expected in [counts(&[("shop-v1", 5), ("shop-v3", 1)]), counts(&[("shop-v3", 1)])] {
            assert!(production.contains(&expected), "{production:?}");
        }
        assert_eq!(of("prod-1").target.name.as_str(), "prod-1");
    }
}

/// A placement without a number has that of the version or of the app, and counts beside the others.
#[test]
fn placements_on_one_cluster_add_up_with_and_without_a_number() {
    for (versions, expected) in [
        ("{name: v1, placement: [{cluster: prod-1}, {cluster: prod-1, replicas: 2}]}", 7),
        ("{name: v1, placement: [{cluster: prod-1, replicas: 2}, {}]}", 7),
        ("{name: v1, placement: [{cluster: prod-1}, {}]}", 10),
        (
            "{name: v1, replicas: 1, placement: [{cluster: prod-1}, {cluster: prod-1, replicas: 2}]}",
            3,
        ),
        ("{name: v1}", 5),
    ] {
        let text = waml(&format!("    scaling: {{replicas: 5}}\n    versions: [{versions}]\n"));
        let rendered = planned(&text, "prod-1", "traefik").unwrap();
        assert_eq!(pods(&rendered.files), counts(&[("shop-v1", expected)]), "{versions}");
        let steps = plan_dry_run_steps(&text, "prod-1");
        assert_eq!(steps.last().unwrap(), &format!("v1 on prod-1: 0 → {expected} pods"));
    }
}

fn plan_dry_run_steps(text: &str, cluster: &str) -> Vec<String> {
    let (input, facts) = input(text, cluster, "traefik");
    plan_dry_run(&input, &facts, &[]).steps
}

#[test]
fn a_version_is_placed_by_the_environment_of_clusters_as_by_a_label() {
    let text = waml(
        "    versions: [{name: v1, placement: [{labels: {environment: development}, replicas: 2}]}]\n",
    );
    assert_eq!(
        pods(&planned(&text, "trial-1", "traefik").unwrap().files),
        counts(&[("shop-v1", 2)])
    );
    assert_eq!(pods(&planned(&text, "prod-1", "traefik").unwrap().files), counts(&[]));
    let text = waml("    versions: [{name: v1, placement: [{labels: {environment: staging}}]}]\n");
    let rejection = planned(&text, "prod-1", "traefik").unwrap_err().to_string();
    assert!(rejection.contains("no cluster has these labels"), "{rejection}");
}

/// A match of a rule: its path, true if that is the whole one, and the headers, each with the value `1`.
type Match = (&'static str, bool, &'static [&'static str]);

const MATCHES: [Match; 8] = [
    ("/", false, &["a", "b", "c"]),
    ("/ab", false, &[]),
    ("/", false, &[]),
    ("/ab", true, &[]),
    ("/abc", false, &["b"]),
    ("/ab", false, &["c"]),
    ("/ab", false, &["a"]),
    ("/ac", false, &["a"]),
];

/// Traefik takes the route of the highest priority: for each request that is the one that the page promises.
#[test]
fn traefik_takes_the_most_specific_route_however_long_its_rule_is() {
    let rule = |(path, exact, headers): &Match| {
        let key = if *exact { "exact" } else { "prefix" };
        let headers: Vec<String> = headers.iter().map(|name| format!("{name}: \"1\"")).collect();
        let headers = match headers.as_slice() {
            [] => String::new(),
            list => format!(", headers: {{{}}}", list.join(", ")),
        };
        format!("      - {{match: [{{{key}: {path}{headers}}}], targets: [{{version: v1}}]}}\n")
    };
    let rules: String = MATCHES.iter().map(rule).collect();
    let text = waml(&format!("    versions: [{{name: v1}}]\n    traffic:\n      http:\n{rules}"));
    let rendered = planned(&text, "prod-1", "traefik").unwrap();
    let objects = objects(&rendered.files);
    let route = objects.iter().find(|object| object["kind"] == "IngressRoute").unwrap();
    let routes = route["spec"]["routes"].as_array().unwrap();
    let priority = |index: usize| routes[index]["priority"].as_u64().unwrap();
    assert_eq!(routes.len(), MATCHES.len());
    for path in ["/", "/x", "/ab", "/abc", "/abcd", "/ac"] {
        for sent in [&["a", "b", "c"][..], &["a", "c"], &["b"], &["a"], &["c"], &[]] {
            let takes = |index: &usize| {
                let (own, exact, headers) = MATCHES[*index];
                let path = if exact { path == own } else { path.starts_with(own) };
                path && headers.iter().all(|name| sent.contains(name))
            };
            let matching: Vec<usize> = (0..MATCHES.len()).filter(takes).collect();
            let expected = matching.iter().max_by_key(|index| {
                let (path, exact, headers) = MATCHES[**index];
                (exact, path.len(), headers.len(), std::cmp::Reverse(**index))
            });
            let highest = matching.iter().max_by_key(|index| priority(**index));
            assert_eq!(highest, expected, "{path} with {sent:?}");
            let ties = matching
                .iter()
                .filter(|one| Some(priority(**one)) == highest.map(|i| priority(*i)));
            assert!(ties.count() <= 1, "{path} with {sent:?}: {routes:#?}");
        }
    }
    // Prefixes alone keep the length of their rule, by which other apps of the host are ranked.
    for (index, length) in [(2, "/"), (1, "/ab")] {
        let rule = format!("Host(`shop.prod-1.internal`) && PathPrefix(`{length}`)");
        assert_eq!(routes[index]["match"], rule);
        assert!(priority(index) >= rule.len() as u64, "{routes:#?}");
    }
}

/// A cluster without a version gives its requests to the others there; one that has only a version without any has no
/// route.
#[test]
fn requests_of_a_cluster_are_shared_by_what_is_there() {
    let text = waml(SPREAD);
    let routes = |cluster: &str| {
        let rendered = planned(&text, cluster, "istio").unwrap();
        let services = objects(&rendered.files);
        let routes = services.iter().filter(|object| object["kind"] == "VirtualService");
        let shares = routes
            .flat_map(|object| object["spec"]["http"][0]["route"].as_array().unwrap().clone());
        let share = |route: Json| {
            let host = route["destination"]["host"].as_str().unwrap().to_owned();
            (host, route["weight"].as_u64())
        };
        shares.map(share).collect::<Vec<_>>()
    };
    let share = |name: &str, weight| (name.to_owned(), Some(weight));
    assert_eq!(
        routes("trial-1"),
        [share("shop-v1", 90), share("shop-v2", 10), share("shop-v3", 0)]
    );
    let production = ["prod-1", "prod-2"].map(routes);
    assert!(
        production.contains(&vec![share("shop-v1", 100), share("shop-v3", 0)]),
        "{production:?}"
    );
    assert!(production.contains(&Vec::new()), "{production:?}");
}

/// In whatever cluster: no pod is of two versions, or of two budgets, and each name is one object.
#[test]
fn what_selects_the_pods_of_versions_does_not_overlap() {
    let waml = waml(
        "    autoscaling: {horizontal: {maxReplicas: 5, cpu: {averageUtilization: 75}}}\n    versions: [{name: v1, tag: \"1.0\"}, {name: v1-b, tag: \"1.0\"}, {name: v2}]\n    traffic: {http: [{targets: [{version: v1-b, port: 80, weight: 100}]}]}\n",
    );
    for kind in ["istio", "traefik", "gateway"] {
        let rendered = planned(&waml, "prod-1", kind).unwrap();
        let objects = objects(&rendered.files);
        let mut names = BTreeSet::new();
        for object in &objects {
            let name = &object["metadata"]["name"];
            assert!(names.insert(format!("{} {name}", object["kind"])), "{kind}: {name} twice");
        }
        for of_kind in ["Deployment", "PodDisruptionBudget"] {
            let selectors = objects.iter().filter(|object| object["kind"] == of_kind);
            let selectors: BTreeSet<String> = selectors
                .map(|object| {
                    let labels = &object["spec"]["selector"]["matchLabels"];
                    assert_eq!(labels["app.kubernetes.io/name"], "shop");
                    labels["the-deployer.dev/version"].as_str().unwrap().to_owned()
                })
                .collect();
            let expected = BTreeSet::from(["v1", "v1-b", "v2"].map(str::to_owned));
            assert_eq!(selectors, expected, "{of_kind}");
        }
        for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
            let spec = &deployment["spec"];
            let pod = &spec["template"]["metadata"]["labels"];
            for (key, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
                assert_eq!(&pod[key], value);
            }
            assert_eq!(spec["template"]["spec"]["serviceAccountName"], "shop");
            let scaler = objects.iter().find(|object| {
                object["kind"] == "HorizontalPodAutoscaler"
                    && object["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
            });
            assert!(scaler.is_some() && spec["replicas"].is_null());
        }
    }
}

#[test]
fn a_plan_shows_the_steps_from_the_live_versions() {
    let before = waml(
        "    versions: [{name: v1, tag: \"1\", weight: 50, replicas: 8}, {name: v2, tag: \"2\", weight: 50, replicas: 0}]\n",
    );
    let before = before.replace("weight: 50, replicas: 0", "weight: 0, replicas: 0");
    let before = before.replace("weight: 50, replicas: 8", "weight: 100, replicas: 8");
    let live = planned(&before, "trial-1", "istio").unwrap().files;
    let steps = |text: &str| {
        let (input, facts) = input(text, "trial-1", "istio");
        let run = plan_dry_run(&input, &facts, &live);
        assert_eq!(run.violations.len(), 0, "{:?}", run.violations);
        run.steps
    };
    assert_eq!(steps(&before), [""; 0]);
    let after = waml(
        "    versions: [{name: v1, tag: \"1\", weight: 50, replicas: 4}, {name: v2, tag: \"2\", weight: 50, replicas: 4}]\n",
    );
    assert_eq!(
        steps(&after),
        [
            "v2 on trial-1: 0 → 2 pods",
            "v1 on trial-1: 8 → 6 pods",
            "v2 on trial-1: 2 → 4 pods",
            "v1 on trial-1: 6 → 4 pods",
        ]
    );
    let gone = waml("    versions: [{name: v2, tag: \"2b\", weight: 100, replicas: 4}]\n");
    assert_eq!(
        steps(&gone),
        [
            "v1 on trial-1: 8 → 0 pods",
            "v1 on trial-1: removed",
            "v2 on trial-1: ghcr.io/weave-lab/my-app:2 → ghcr.io/weave-lab/my-app:2b",
            "v2 on trial-1: 0 → 4 pods",
        ]
    );
}

#[test]
fn bad_versions_are_refused_on_every_platform() {
    let many: String = (0..100).map(|n| format!("{{name: v{n}, weight: 1}}, ")).collect();
    for kind in PLATFORMS {
        let refused = |section: &str| {
            let rejection = planned(&waml(section), "prod-1", kind).unwrap_err();
            let rules = rejection.violations.iter().filter(|one| one.is_error());
            rules.map(ToString::to_string).collect::<Vec<_>>()
        };
        for (section, part) in [
            (format!("    versions: [{many}]\n"), "at most 16 live versions, and this has 100"),
            (
                "    versions: [{name: v1, placement: [{cluster: prod-3}]}]\n".to_owned(),
                "`prod-3` is no cluster of this target",
            ),
            (
                "    versions: [{name: v1, placement: [{labels: {usage: none}}]}]\n".to_owned(),
                "no cluster has these labels",
            ),
            (
                "    versions: [{name: v1}, {name: v1}]\n".to_owned(),
                "`versions[0]` has this name already",
            ),
            (
                "    traffic: {http: [{targets: [{version: v1}]}]}\n".to_owned(),
                "`traffic` shares requests between `versions`, and there are none",
            ),
        ] {
            let violations = refused(&section);
            assert!(violations.iter().any(|one| one.contains(part)), "{kind}: {violations:#?}");
        }
    }
}

#[test]
fn the_examples_of_the_page_are_planned_without_a_warning() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/traffic.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        for kind in ["istio", "traefik", "gateway"] {
            let rendered = planned(example, "prod-2", kind).unwrap_or_else(|one| panic!("{one}"));
            let warnings: Vec<String> = rendered.warnings.iter().map(ToString::to_string).collect();
            assert_eq!(warnings, [""; 0], "{kind}: {example}");
        }
    }
}
