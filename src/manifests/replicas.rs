//! The number of pods of a workload that an autoscaler takes over.
//!
//! With an autoscaler `spec.replicas` is left out, so that only the autoscaler sets the number. The deployment that
//! brings the autoscaler would remove the number from a live workload, which Kubernetes reads as 1: of ten pods, nine
//! would go before the autoscaler counts again. So this one deployment keeps the live number. From the same commit on
//! the Application tells Argo CD that the number is not its own (`manifests/argocd/application.rs`), and later
//! deployments leave it out.
//!
//! A workload with no pods is another matter: Kubernetes switches an autoscaler off while its workload has `replicas:
//! 0`. Its number is not kept, and Argo CD leaves the number alone only once it is above zero.

use serde_json::{Map, Value as Json};

use crate::manifests::object::Object;
use crate::model::facts::{LiveApp, LiveReplicas};

/// Kinds of objects that set another object's number of pods. Flagger scales a canary's workload to 0 between releases.
const AUTOSCALERS: [&str; 3] = ["HorizontalPodAutoscaler", "ScaledObject", "Canary"];
/// Kinds of objects whose number of pods can be set.
const SCALED: [&str; 2] = ["Deployment", "StatefulSet"];

/// Returns true if an object of a kind may have a number of pods, or set one.
pub(crate) fn counts(kind: &str) -> bool {
    AUTOSCALERS.contains(&kind) || SCALED.contains(&kind)
}

/// A workload, by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload {
    /// `Deployment`
    pub kind: String,
    /// The name of the workload.
    pub name: String,
    /// True if its live manifest has no pods, and no autoscaler has had it yet.
    pub parked: bool,
}

/// Returns the workload that an autoscaler scales; `None` for every other object.
pub(crate) fn scaled_by(json: &Map<String, Json>) -> Option<Workload> {
    let kind = json.get("kind")?.as_str()?;
    if !AUTOSCALERS.contains(&kind) {
        return None;
    }
    let spec = json.get("spec")?;
    let target = spec.get("scaleTargetRef").or_else(|| spec.get("targetRef"))?;
    // KEDA leaves the kind out for a Deployment.
    let kind = target.get("kind").and_then(Json::as_str).unwrap_or("Deployment");
    let name = target.get("name")?.as_str()?;
    Some(Workload { kind: kind.to_owned(), name: name.to_owned(), parked: false })
}

/// Lists the workloads that autoscalers of an app scale, as its files say.
pub fn workloads(app: &LiveApp) -> impl Iterator<Item = Workload> {
    let workload = |(kind, name): &(String, String)| Workload {
        kind: kind.clone(),
        name: name.clone(),
        parked: false,
    };
    app.autoscaled.iter().map(workload)
}

/// Completes the workloads with their live numbers.
pub fn beside_live(workloads: impl Iterator<Item = Workload>, live: &LiveApp) -> Vec<Workload> {
    let with_live = |workload: Workload| {
        let Workload { kind, name, parked: _ } = &workload;
        let is_it = |live_replicas: &&LiveReplicas| {
            (&live_replicas.kind, &live_replicas.name) == (kind, name)
        };
        let number = live.replicas.iter().find(is_it).map(|live_replicas| live_replicas.number);
        let was_scaled =
            live.autoscaled.iter().any(|workload| (&workload.0, &workload.1) == (kind, name));
        Workload { parked: number == Some(0) && !was_scaled, ..workload }
    };
    let mut workloads: Vec<Workload> = workloads.map(with_live).collect();
    // An autoscaler's and a canary's may be one.
    workloads.sort();
    workloads.dedup();
    workloads
}

/// Reads the number that a workload's manifest has; `None` of every other object, and where it has
/// none.
pub(crate) fn number_of(json: &Map<String, Json>) -> Option<LiveReplicas> {
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    let kind = text("kind").filter(|kind| SCALED.contains(kind))?;
    let name = json.get("metadata")?.get("name")?.as_str()?;
    let number = json.get("spec")?.get("replicas")?.as_u64()?;
    Some(LiveReplicas { kind: kind.to_owned(), name: name.to_owned(), number })
}

/// Puts the live number into workloads whose autoscaler is new; these workloads, with the number.
pub(crate) fn keep_live_replicas(objects: &mut [Object], live: &LiveApp) -> Vec<LiveReplicas> {
    let scaled: Vec<Workload> =
        objects.iter().filter_map(|object| scaled_by(&object.json)).collect();
    let mut kept_numbers = Vec::new();
    for object in objects {
        let is_it = |kind: &str, name: &str| object.kind() == kind && object.name() == name;
        let is_scaled = scaled.iter().any(|workload| is_it(&workload.kind, &workload.name));
        let was_scaled = live.autoscaled.iter().any(|(kind, name)| is_it(kind, name));
        let number = live
            .replicas
            .iter()
            .find(|live_replicas| is_it(&live_replicas.kind, &live_replicas.name));
        let is_kept =
            |live_replicas: &&LiveReplicas| live_replicas.number > 0 && is_scaled && !was_scaled;
        let Some(number) = number.filter(is_kept).cloned() else { continue };
        let Some(spec) = object.json.get_mut("spec").and_then(Json::as_object_mut) else {
            continue;
        };
        if spec.contains_key("replicas") {
            continue;
        }
        spec.shift_insert(0, "replicas".to_owned(), number.number.into());
        kept_numbers.push(number);
    }
    kept_numbers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: &Json) -> Object {
        Object::of_template("f", json.as_object().unwrap().clone())
    }

    fn deployment(replicas: Option<u64>) -> Object {
        let mut json = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"x": 1}});
        if let Some(replicas) = replicas {
            json["spec"]["replicas"] = replicas.into();
        }
        object(&json)
    }

    fn autoscaler() -> Object {
        object(&json!({
            "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}},
        }))
    }

    fn live(number: u64, autoscaled: bool) -> LiveApp {
        let (kind, name) = ("Deployment".to_owned(), "a".to_owned());
        LiveApp {
            replicas: vec![LiveReplicas { kind: kind.clone(), name: name.clone(), number }],
            autoscaled: autoscaled.then_some((kind, name)).into_iter().collect(),
            ..LiveApp::default()
        }
    }

    #[test]
    fn only_the_deployment_that_brings_the_autoscaler_keeps_the_number() {
        let mut first = [deployment(None), autoscaler()];
        assert_eq!(keep_live_replicas(&mut first, &live(10, false))[0].number, 10);
        assert_eq!(first[0].json["spec"], json!({"replicas": 10, "x": 1}));
        let mut next = [deployment(None), autoscaler()];
        assert!(keep_live_replicas(&mut next, &live(10, true)).is_empty());
        assert_eq!(next[0].json["spec"], json!({"x": 1}));
        let mut without_autoscaler = [deployment(None)];
        assert!(
            keep_live_replicas(&mut without_autoscaler, &live(10, false)).is_empty(),
            "nobody scales it"
        );
        let mut new = [deployment(None), autoscaler()];
        assert!(keep_live_replicas(&mut new, &LiveApp::default()).is_empty(), "nothing is live");
        let mut with_number = [deployment(Some(3)), autoscaler()];
        assert!(
            keep_live_replicas(&mut with_number, &live(10, false)).is_empty(),
            "a template says it"
        );
    }

    #[test]
    fn no_pods_are_no_number_to_keep() {
        let mut first = [deployment(None), autoscaler()];
        assert!(keep_live_replicas(&mut first, &live(0, false)).is_empty());
        assert_eq!(first[0].json["spec"], json!({"x": 1}), "0 would switch the autoscaler off");
        let scaled = || first.iter().filter_map(|object| scaled_by(&object.json));
        let parked = |live: &LiveApp| beside_live(scaled(), live)[0].parked;
        assert!(parked(&live(0, false)));
        assert!(!parked(&live(0, true)), "what is not its manifest's is the autoscaler's");
        assert!(!parked(&live(3, false)));
        assert!(!parked(&LiveApp::default()));
    }
}
