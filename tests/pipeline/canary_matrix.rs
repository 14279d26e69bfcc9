//! Each feature of `canary` with each provider: the Canary and its measurements, the app's own Service and routes where it
//! has them beside Flagger's, or the reason why there is none.
//!
//! Records are in `canary-matrix/`; with `UPDATE_EXPECTED=1` they are written anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{planned_on_platform, said};

const PROVIDERS: [(&str, &str); 4] = [
    (
        "istio",
        "{ingress: {kind: gateway}, canary: {provider: istio, prometheus: 'http://prometheus.monitoring:9090'}}",
    ),
    ("traefik", "{canary: {prometheus: 'http://prometheus.monitoring:9090'}}"),
    (
        "nginx",
        "{ingress: {kind: kubernetes}, canary: {prometheus: 'http://prometheus.monitoring:9090'}}",
    ),
    (
        "gateway",
        "{ingress: {kind: gateway}, canary: {prometheus: 'http://prometheus.monitoring:9090'}}",
    ),
];

const FEATURES: [(&str, &str); 11] = [
    ("weights", "{stepWeight: 20, maxWeight: 60}"),
    ("step-weights", "{stepWeights: [1, 5, 20, 50]}"),
    ("ab-test", "{iterations: 10, match: [{headers: {x-canary: {exact: insider}}}]}"),
    ("blue-green", "{iterations: 10}"),
    ("step-weight-promotion", "{stepWeightPromotion: 25}"),
    ("mirror", "{mirror: true}"),
    ("mirror-weight", "{mirror: true, mirrorWeight: 30}"),
    ("handover", "{handover: true}"),
    (
        "own-metric",
        "{metrics: [{name: queue-length, thresholdRange: {min: 1, max: 100}, query: 'max(queue_length{namespace=\"{{ namespace }}\"})'}]}",
    ),
    (
        "webhooks",
        "{webhooks: [{name: load-test, url: 'http://flagger-loadtester.flagger/', metadata: {cmd: 'hey -z 1m http://shop-canary.devx/'}}, {name: gate, type: confirm-promotion, url: 'https://gate.example.com/'}]}",
    ),
    ("skip-analysis", "{skipAnalysis: true, metrics: null}"),
];

fn waml(canary: &str) -> String {
    format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: a@b.c\nnamespace: devx\ndeploy:\n  prod:\n    \
         service: [{{ports: [{{name: http, number: 80, targetPort: 8000}}]}}]\n    \
         ingress: [{{hostPrefix: shop, public: true, port: 80}}]\n    \
         autoscaling: {{horizontal: {{minReplicas: 2, maxReplicas: 6, cpu: {{averageUtilization: 75}}}}}}\n    \
         canary: {canary}\n"
    )
}

/// The kinds of what has to do with a canary's traffic, as file names begin.
const KINDS: [&str; 9] = [
    "canary",
    "metrictemplate",
    "service",
    "ingress",
    "ingressroute",
    "traefikservice",
    "httproute",
    "virtualservice",
    "destinationrule",
];

/// Checks that a file is of one of these kinds.
fn is_about_traffic(name: &str) -> bool {
    KINDS
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(['.', '-'])))
}

/// The Canaries, measurements, Services and routes of all that is rendered, and what is refused of the rest.
fn outcome() -> BTreeMap<PathBuf, String> {
    let (mut files, mut refused) = (BTreeMap::new(), String::new());
    for (provider, platform) in PROVIDERS {
        for (feature, canary) in FEATURES {
            let platform = serde_yaml::from_str(platform).unwrap();
            let rendered = match planned_on_platform(waml(canary).as_bytes(), platform) {
                Ok(rendered) => rendered,
                Err(rejection) => {
                    refused += &format!("{provider}, {feature}:\n{}", said(&rejection.violations));
                    continue;
                }
            };
            let ours = rendered.files.into_iter().filter(|file| is_about_traffic(&file.name));
            files.extend(ours.map(|file| {
                let path =
                    Path::new("expected").join(format!("{provider}-{feature}")).join(file.name);
                (path, String::from_utf8(file.bytes).unwrap())
            }));
        }
    }
    files.insert("refused.txt".into(), refused);
    files
}

fn recorded(folder: &Path) -> BTreeMap<PathBuf, String> {
    let list =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().map(|one| one.unwrap().path());
    let files = list(&folder.join("expected")).flat_map(|case| list(&case).collect::<Vec<_>>());
    let files = files.chain([folder.join("refused.txt")]);
    let text = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        Some((path.strip_prefix(folder).unwrap().to_owned(), text))
    };
    files.filter_map(text).collect()
}

#[test]
fn each_feature_is_rendered_for_each_provider_or_refused_with_the_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/canary-matrix");
    let outcome = outcome();
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let _ = fs::remove_dir_all(&folder);
        for (path, text) in &outcome {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    assert_eq!(recorded(&folder), outcome);
}
