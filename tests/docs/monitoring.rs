//! `docs/metrics.md` has the metrics that the program registers, and the dashboard and the alerts under
//! `deploy/monitoring` ask for those alone, by labels that they have. A counter whose increase an alert looks for is there
//! from the start.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::Path;

use promql_parser::label::Labels;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::Value as Json;

use super::root;
use crate::harness::deployer::Deployer;
use crate::harness::folder;
use crate::harness::git::Bare;

const PREFIX: &str = "the_deployer_";

/// A metric as the page has it: its type and its labels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    labels: BTreeSet<String>,
}

/// The metrics of the page, by name.
pub(crate) fn documented() -> BTreeMap<String, Metric> {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let mut metrics = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, about, _] = cells[..] else { panic!("{line}") };
        assert!(!about.is_empty(), "{line}");
        let names = |text: &str| -> Vec<String> {
            text.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
        };
        let labels = if labels.is_empty() { Vec::new() } else { names(labels) };
        let metric = Metric { kind: kind.to_owned(), labels: labels.into_iter().collect() };
        let name = names(name).remove(0);
        assert!(metrics.insert(name.clone(), metric).is_none(), "{name} is there twice");
    }
    metrics
}

/// The names that the source registers, with the suffix of their unit and of counters as the page has them.
fn registered() -> BTreeSet<String> {
    let mut sources = String::new();
    collect(&root().join("src"), &mut sources);
    let mut names = BTreeSet::new();
    // How a name stands behind the call, and what the encoder puts behind the name.
    for (call, unit) in [
        (".register(", ""),
        (".register_with_unit(", "_seconds"),
        ("in_seconds(", "_seconds"),
        ("&mut encoder,", ""),
    ] {
        for (start, _) in sources.match_indices(call) {
            let rest =
                sources[start + call.len()..].trim_start().trim_start_matches('(').trim_start();
            let Some(rest) = rest.strip_prefix('"') else { continue };
            let name = rest.split('"').next().unwrap();
            names.insert(format!("{name}{unit}"));
        }
    }
    names
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            *sources += text.split("#[cfg(test)]\nmod tests").next().unwrap();
        }
    }
}

#[test]
fn the_page_has_every_metric_that_the_program_registers() {
    let documented = documented();
    let base = |name: &String| name.strip_suffix("_total").unwrap_or(name).to_owned();
    let named: BTreeSet<String> = documented.keys().map(base).collect();
    assert_eq!(named, registered());
    for (name, metric) in &documented {
        let is_counter = metric.kind == "counter";
        assert_eq!(is_counter, name.ends_with("_total"), "{name} is a {}", metric.kind);
        assert!(["counter", "gauge", "histogram"].contains(&metric.kind.as_str()), "{name}");
    }
}

/// Asks for nothing that is not there: each series of ours by its name, its type and its labels.
fn hold(text: &str, place: &str, metrics: &BTreeMap<String, Metric>) {
    // Grafana puts the interval of the panel there.
    let text = text.replace("$__rate_interval", "5m");
    let query = parser::parse(&text).unwrap_or_else(|error| panic!("{place}: {error}: {text}"));
    let mut labels = BTreeSet::new();
    visit(&query, place, metrics, &mut labels);
}

/// The labels that every series has where Prometheus finds its targets by Kubernetes.
const OF_THE_TARGET: [&str; 2] = ["job", "instance"];

fn visit(
    query: &Expr,
    place: &str,
    metrics: &BTreeMap<String, Metric>,
    labels: &mut BTreeSet<String>,
) {
    match query {
        Expr::VectorSelector(selector) => {
            let name = selector.name.clone().unwrap();
            let own: BTreeSet<String> = match name.strip_prefix(PREFIX) {
                Some(name) => labels_of(name, place, metrics),
                None => foreign(&name, place),
            };
            for matcher in &selector.matchers.matchers {
                assert!(own.contains(&matcher.name), "{place}: {name} has no {}", matcher.name);
            }
            let job = selector.matchers.matchers.iter().any(|matcher| matcher.name == "job");
            assert!(job || !own.contains("job"), "{place}: {name} of every job");
            labels.extend(own);
        }
        Expr::MatrixSelector(selector) => {
            visit(&Expr::VectorSelector(selector.vs.clone()), place, metrics, labels);
        }
        Expr::Aggregate(aggregate) => {
            let mut inside = BTreeSet::new();
            visit(&aggregate.expr, place, metrics, &mut inside);
            if let Some(LabelModifier::Include(Labels { labels: kept })) = &aggregate.modifier {
                for label in kept {
                    assert!(inside.contains(label), "{place}: there is no label {label}");
                }
                labels.extend(kept.iter().cloned());
            }
        }
        Expr::Call(call) => {
            call.args.args.iter().for_each(|argument| visit(argument, place, metrics, labels));
        }
        Expr::Binary(binary) => {
            visit(&binary.lhs, place, metrics, labels);
            visit(&binary.rhs, place, metrics, labels);
        }
        Expr::Paren(inner) => visit(&inner.expr, place, metrics, labels),
        Expr::Unary(inner) => visit(&inner.expr, place, metrics, labels),
        Expr::Subquery(inner) => visit(&inner.expr, place, metrics, labels),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

/// The labels of one of our series.
fn labels_of(series: &str, place: &str, metrics: &BTreeMap<String, Metric>) -> BTreeSet<String> {
    let parts = ["_bucket", "_sum", "_count"];
    let histogram = parts.iter().find_map(|part| {
        let name = series.strip_suffix(part)?;
        metrics.get(name).filter(|metric| metric.kind == "histogram")
    });
    let metric = histogram
        .or_else(|| metrics.get(series).filter(|metric| metric.kind != "histogram"))
        .unwrap_or_else(|| panic!("{place}: /metrics has no {PREFIX}{series}"));
    let mut labels = metric.labels.clone();
    labels.extend(OF_THE_TARGET.map(str::to_owned));
    if series.ends_with("_bucket") {
        labels.insert("le".to_owned());
    }
    labels
}

/// Prometheus' own series, and those of the kubelet.
fn foreign(name: &str, place: &str) -> BTreeSet<String> {
    let labels: &[&str] = match name {
        "up" => &["job", "instance"],
        "kubelet_volume_stats_available_bytes" | "kubelet_volume_stats_capacity_bytes" => {
            &["namespace", "persistentvolumeclaim"]
        }
        _ => panic!("{place}: whose is {name}?"),
    };
    labels.iter().map(|&label| label.to_owned()).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let text = fs::read_to_string(root().join("deploy/monitoring/dashboard.json")).unwrap();
    let dashboard: Json = serde_json::from_str(&text).unwrap();
    let metrics = documented();
    let (mut queries, mut ids) = (0, BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is there twice");
        for target in panel["targets"].as_array().into_iter().flatten() {
            hold(target["expr"].as_str().unwrap(), title, &metrics);
            queries += 1;
        }
    }
    assert!(queries >= 30, "{queries}");
}

/// The rules of `deploy/monitoring`.
fn alerts() -> Vec<Json> {
    let path = root().join("deploy/monitoring/prometheusrule.yaml");
    let rule: Json = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    rule["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

#[test]
fn each_alert_asks_for_metrics_that_there_are_and_has_its_runbook_and_its_test() {
    let metrics = documented();
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (page, tests) = (read("docs/runbooks.md"), read("deploy/monitoring/tests.yaml"));
    let runbooks: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut names = Vec::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap().to_owned();
        hold(alert["expr"].as_str().unwrap(), &name, &metrics);
        let address = alert["annotations"]["runbook_url"].as_str().unwrap();
        let anchor = format!("/docs/runbooks.md#{}", name.to_lowercase());
        assert!(address.ends_with(&anchor), "{address}");
        assert!(tests.contains(&format!("alertname=\"{name}\",")), "{name} never fires in a test");
        names.push(name);
    }
    assert!(names.len() >= 15, "{names:?}");
    // In the order of the rules, and none of an alert that is gone.
    assert_eq!(runbooks, names);
}

/// The selectors of counters whose increase a query looks for.
#[derive(Default)]
struct Increases(Vec<VectorSelector>);

impl ExprVisitor for Increases {
    type Error = Infallible;

    fn pre_visit(&mut self, query: &Expr) -> Result<bool, Infallible> {
        if let Expr::Call(call) = query
            && ["increase", "rate", "irate"].contains(&call.func.name)
        {
            let Expr::MatrixSelector(range) = &*call.args.args[0] else { panic!("{query}") };
            self.0.push(range.vs.clone());
        }
        Ok(true)
    }
}

/// Counters whose labels nothing knows at the start, each with the reason why its alert works all the same.
const LABELLED_LATER: [(&str, &str); 1] = [(
    "the_deployer_deploy_intervals_skewed_total",
    "a series for each interval of each target would be hundreds; the alert fires above 3, so the first is not missed",
)];

/// A counter of `/metrics`, as the selector of itself, and its value.
fn exported(line: &str) -> Option<(VectorSelector, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    let is_counter = series.split('{').next()?.ends_with("_total") && !line.starts_with('#');
    let Expr::VectorSelector(series) = parser::parse(series).ok().filter(|_| is_counter)? else {
        return None;
    };
    Some((series, value))
}

/// Whether a selector takes a series, apart from the labels that Prometheus adds.
fn takes(selector: &VectorSelector, series: &VectorSelector) -> bool {
    let label = |name: &str| {
        let mut labels = series.matchers.matchers.iter();
        labels.find(|label| label.name == name).map_or("", |label| label.value.as_str())
    };
    let mut own = selector
        .matchers
        .matchers
        .iter()
        .filter(|matcher| !OF_THE_TARGET.contains(&matcher.name.as_str()));
    selector.name == series.name && own.all(|matcher| matcher.is_match(label(&matcher.name)))
}

#[tokio::test]
async fn the_counter_of_each_alert_is_there_with_0_before_its_first_event() {
    let folder = folder::temporary();
    let templates = Bare::create(&folder.path().join("templates.git"));
    templates.somebody_writes("apps/backend-default/defaults.yaml", "{}");
    let configmap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    templates.somebody_writes("apps/backend-default/latest/configmap.yaml.tmpl", configmap);
    let mut deployer = Deployer::prepared().await;
    // With all that has counters of its own.
    deployer.acts_as_app();
    let repository = templates.0.display();
    deployer.configure(|config| {
        format!("{config}templates:\n  repository: {{url: \"{repository}\", refresh: 1h}}\n")
    });
    deployer.starts().await;
    let answer = reqwest::get(format!("{}/metrics", deployer.url())).await.unwrap();
    let text = answer.text().await.unwrap();
    deployer.github.settled();
    let counters: Vec<_> = text.lines().filter_map(exported).collect();

    let (mut increases, mut later) = (Increases::default(), BTreeSet::new());
    for alert in alerts() {
        let query = parser::parse(alert["expr"].as_str().unwrap()).unwrap();
        walk_expr(&mut increases, &query).unwrap();
    }
    assert!(increases.0.len() >= 10, "{:?}", increases.0);
    for selector in increases.0 {
        let taken: Vec<_> =
            counters.iter().filter(|(series, _)| takes(&selector, series)).collect();
        let reason = LABELLED_LATER.iter().find(|(name, _)| selector.name.as_deref() == Some(name));
        if let Some((name, _reason)) = reason {
            assert!(taken.is_empty(), "{name} is there: strike it from the list");
            later.insert(*name);
            continue;
        }
        assert!(
            !taken.is_empty(),
            "{selector} begins with its first event, which is missed\n{text}"
        );
        assert!(taken.iter().all(|(_, value)| *value == "0"), "{selector}: {taken:?}");
    }
    assert_eq!(later.len(), LABELLED_LATER.len(), "one is in no alert: strike it from the list");
}
