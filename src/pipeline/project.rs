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
    let mut destinations = vec![json!({"server": target.server, "namespace": "*"})];
    if target.server == Target::IN_CLUSTER {
        // A pod beside Argo CD could read the credentials of every cluster.
        let argo_cd = format!("!{}", target.argocd.namespace);
        destinations.push(json!({"server": target.server, "namespace": argo_cd}));
    }
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
        let everywhere = json!([{"server": "https://10.0.0.1:6443", "namespace": "*"}]);
        assert_eq!(spec["destinations"], everywhere);
        let namespaces = json!([{"group": "", "kind": "Namespace"}]);
        assert_eq!(spec["clusterResourceWhitelist"], namespaces);
    }

    #[test]
    fn nothing_goes_beside_argo_cd_where_it_runs() {
        let project = project(|target| target.argocd.namespace = "gitops".parse().unwrap());
        let project = project.unwrap();
        assert_eq!(project["metadata"]["namespace"], "gitops");
        assert_eq!(project["spec"]["destinations"][1]["namespace"], "!gitops");
    }

    #[test]
    fn where_the_operator_has_one_none_is_written() {
        assert_eq!(project(|target| target.argocd.project = Some("platform".to_owned())), None);
    }
}
