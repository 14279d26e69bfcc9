//! The Argo CD `AppProject` of a cluster: the bounds within which its apps may be anything.

use serde_json::json;

use crate::model::target::Target;
use crate::pipeline::application::{Source, metadata};
use crate::waml::emit;

/// `apps/<cluster>/project.yaml`: what the cluster's apps may be. `None` where the operator has a
/// project of their own.
///
/// It is in the parent's folder, so the parent brings it about, before the Applications that name it
/// (an earlier sync wave), and the folder is never empty: Argo CD does not prune the last object of
/// an app by itself.
pub fn of_cluster(target: &Target, source: &Source) -> Option<Vec<u8>> {
    if target.argocd.project.is_some() {
        return None;
    }
    // The rule `reserved` says no by the same list. A pod beside Argo CD could read the credentials of
    // every cluster, and one in kube-system has rights that no app is given.
    let allowed = target.policies.namespaces.allow.clone();
    let allowed = allowed.unwrap_or_else(|| vec!["*".to_owned()]).into_iter();
    let denied = target.denied_namespaces().into_iter().map(|one| format!("!{}", one.glob));
    let destination = |namespace: String| json!({"server": target.server, "namespace": namespace});
    let destinations: Vec<_> = allowed.chain(denied).map(destination).collect();
    // An app that makes Applications would leave these bounds.
    let denied = ["Application", "ApplicationSet", "AppProject"]
        .map(|kind| json!({"group": "argoproj.io", "kind": kind}));
    // Of what belongs to the whole cluster an app brings its namespace, and nothing else: Argo CD
    // asks the project also for a namespace that it makes itself.
    let cluster_wide = json!([{"group": "", "kind": "Namespace"}]);
    let mut metadata = metadata(&target.project(), target);
    metadata.insert("annotations".to_owned(), json!({"argocd.argoproj.io/sync-wave": "-1"}));
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": metadata,
        "spec": {
            "description": format!("The apps that the-deployer deploys to {}", target.name),
            "sourceRepos": [source.url],
            "destinations": destinations,
            "clusterResourceWhitelist": cluster_wide,
            "namespaceResourceBlacklist": denied,
        },
    });
    Some(emit::document(&project).into_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::model::id::TargetName;

    fn project(change: impl Fn(&mut Target)) -> Option<Json> {
        let mut target = Target::unconfigured(TargetName::parse("prod-1").unwrap());
        change(&mut target);
        let source = Source { url: "https://git/m".to_owned(), branch: "main".to_owned() };
        let bytes = of_cluster(&target, &source)?;
        Some(serde_yaml::from_slice(&bytes).unwrap())
    }

    #[test]
    fn it_takes_only_this_repository_and_this_cluster_and_namespaces_of_the_whole_cluster() {
        let project = project(|target| "https://10.0.0.1:6443".clone_into(&mut target.server));
        let spec = &project.unwrap()["spec"];
        assert_eq!(spec["sourceRepos"], json!(["https://git/m"]));
        let namespaces: Vec<&str> = spec["destinations"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["server"] == "https://10.0.0.1:6443")
            .map(|one| one["namespace"].as_str().unwrap())
            .collect();
        assert_eq!(namespaces, ["*", "!kube-*", "!argocd"]);
        let namespaces = json!([{"group": "", "kind": "Namespace"}]);
        assert_eq!(spec["clusterResourceWhitelist"], namespaces);
    }

    #[test]
    fn nothing_goes_beside_argo_cd_where_it_runs() {
        let project = project(|target| target.argocd.namespace = "gitops".parse().unwrap());
        let project = project.unwrap();
        assert_eq!(project["metadata"]["namespace"], "gitops");
        assert_eq!(project["spec"]["destinations"][2]["namespace"], "!gitops");
    }

    #[test]
    fn the_operators_list_bounds_it() {
        let project = project(|target| {
            let policy = &mut target.policies.namespaces;
            policy.allow = Some(vec!["team-*".to_owned(), "shop".to_owned()]);
            policy.deny = vec!["team-infra".to_owned()];
        });
        let project = project.unwrap();
        let destinations = project["spec"]["destinations"].as_array().unwrap();
        let namespaces: Vec<_> = destinations.iter().map(|one| one["namespace"].clone()).collect();
        assert_eq!(namespaces, ["team-*", "shop", "!kube-*", "!argocd", "!team-infra"]);
    }

    #[test]
    fn where_the_operator_has_one_none_is_written() {
        assert_eq!(project(|target| target.argocd.project = Some("platform".to_owned())), None);
    }
}
