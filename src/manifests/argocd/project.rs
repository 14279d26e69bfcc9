//! The Argo CD `AppProject` of a cluster: the bounds for its apps.

use serde_json::{Value as Json, json};

use crate::manifests::argocd::application::{Source, metadata};
use crate::manifests::untyped::parse_document;
use crate::model::namespaces::is_of_platform;
use crate::model::target::Target;
use crate::waml::emit;

/// Writes `apps/<cluster>/project.yaml`, the bounds of the cluster's apps. `None` where the operator has a project of
/// their own.
///
/// It is in the parent's folder, so the parent creates it, before the Applications that name it (an earlier sync wave),
/// and the folder is never empty: Argo CD does not prune the last object of an app by itself.
pub fn of_cluster(target: &Target, source: &Source) -> Option<Vec<u8>> {
    if target.argocd.project.is_some() {
        return None;
    }
    // The rule `reserved` says no by the same list. A pod beside Argo CD could read the credentials of
    // every cluster, and one in kube-system has rights that no app is given.
    let allowed_globs = target.policies.namespaces.allow.clone();
    let allowed_globs = allowed_globs.unwrap_or_else(|| vec!["*".to_owned()]).into_iter();
    let denied = target.denied_namespaces().into_iter().map(|rule| format!("!{}", rule.glob));
    let destination = |namespace: String| json!({"server": target.server, "namespace": namespace});
    let destinations: Vec<_> = allowed_globs.chain(denied).map(destination).collect();
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

/// Gives the existing project the destinations of a fresh one; `None` where it has them, or cannot be read. Where the
/// configuration allows every namespace, those that people wrote into the file stay, and the denied ones are added.
/// Everything else of it belongs to its editors: sync windows, roles, keys of signatures. It stays byte for byte where
/// the destinations are a block of lines.
pub fn with_destinations(present: &[u8], fresh: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(present).ok()?;
    let before = parse_document(text.as_bytes())?;
    let destinations = |project: &Json| project.pointer("/spec/destinations").cloned();
    let merged = destinations(&parse_document(fresh)?)?;
    let merged = merge_destinations(destinations(&before), merged);
    let is_project = before.get("kind").is_some_and(|kind| kind == "AppProject");
    if !is_project || destinations(&before).as_ref() == Some(&merged) {
        return None;
    }
    let mut after = before;
    after.get_mut("spec")?.as_object_mut()?.insert("destinations".to_owned(), merged.clone());
    let spliced = splice(text, &merged)
        .filter(|text| parse_document(text.as_bytes()).as_ref() == Some(&after));
    Some(spliced.unwrap_or_else(|| emit::document(&after)).into_bytes())
}

fn merge_destinations(present: Option<Json>, fresh: Json) -> Json {
    let namespace =
        |destination: &Json| destination.get("namespace").and_then(Json::as_str).map(str::to_owned);
    let is_denied =
        |destination: &Json| namespace(destination).is_some_and(|name| name.starts_with('!'));
    let (Some(Json::Array(mut merged)), Json::Array(fresh_list)) = (present, &fresh) else {
        return fresh;
    };
    let is_bounded =
        !fresh_list.iter().any(|destination| namespace(destination).as_deref() == Some("*"));
    // Those of an address that the cluster had are of no use.
    let server = fresh_list.first().and_then(|destination| destination.get("server"));
    let is_ours = |destination: &Json| {
        destination.get("server").is_none_or(|own_server| Some(own_server) == server)
    };
    if is_bounded
        || !merged.iter().any(|destination| !is_denied(destination) && is_ours(destination))
    {
        return fresh;
    }
    // A namespace that the list names is denied to apps no longer.
    let fresh_names: Vec<String> = fresh_list.iter().filter_map(namespace).collect();
    let denies = |destination: &Json| namespace(destination)?.strip_prefix('!').map(str::to_owned);
    merged
        .retain(|destination| denies(destination).is_none_or(|name| !fresh_names.contains(&name)));
    // Apps may be live in a namespace that is reserved by its name alone: Argo CD goes on with them, and the rule
    // `reserved` lets no new one in.
    let by_name =
        |destination: &Json| denies(destination).is_some_and(|name| is_of_platform(&name));
    let missing = fresh_list.iter().filter(|destination| {
        is_denied(destination) && !by_name(destination) && !merged.contains(destination)
    });
    let missing: Vec<Json> = missing.cloned().collect();
    merged.extend(missing);
    Json::Array(merged)
}

/// Puts other lines into the text below the first indented key `destinations`; `None` without such
/// a key. Whether that is the right key, the caller finds out.
fn splice(text: &str, destinations: &Json) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key = |line: &&str| {
        let rest = line.trim_start_matches(' ').strip_prefix("destinations:").map(str::trim);
        indent(line) > 0 && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let key = lines.iter().position(is_key)?;
    let (head, tail) = lines.split_at_checked(key + 1)?;
    let depth = indent(lines.get(key)?);
    let is_below = |line: &&&str| {
        let rest = line.trim_start_matches(' ');
        indent(line) > depth && !rest.trim().is_empty()
            || indent(line) == depth && rest.starts_with("- ")
    };
    let lines_below = tail.iter().take_while(is_below).count();
    let block = emit::document(&json!({ "destinations": destinations }));
    let block = block.lines().skip(1).map(|line| format!("{}{line}\n", " ".repeat(depth)));
    let (head, rest) = (head.concat(), tail.get(lines_below..)?.concat());
    Some(head + &block.collect::<String>() + &rest)
}

#[cfg(test)]
mod tests {
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
            .filter(|destination| destination["server"] == "https://10.0.0.1:6443")
            .map(|destination| destination["namespace"].as_str().unwrap())
            .collect();
        assert_eq!(namespaces[..3], ["*", "!kube-*", "!argocd"]);
        assert!(namespaces[3..].contains(&"!monitoring"), "{namespaces:?}");
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
        let namespaces: Vec<_> =
            destinations.iter().map(|destination| destination["namespace"].clone()).collect();
        assert_eq!(namespaces, ["team-*", "shop", "!kube-*", "!argocd", "!team-infra"]);
    }

    /// Writes a project for that list.
    fn write_project(allow: Option<&[&str]>) -> String {
        let mut target = Target::unconfigured(TargetName::parse("prod-1").unwrap());
        target.policies.namespaces.allow =
            allow.map(|globs| globs.iter().map(|glob| (*glob).to_owned()).collect());
        let source = Source { url: "https://git/m".to_owned(), branch: "main".to_owned() };
        String::from_utf8(of_cluster(&target, &source).unwrap()).unwrap()
    }

    fn follow_list(there: &str, fresh: &str) -> Option<String> {
        let bytes = with_destinations(there.as_bytes(), fresh.as_bytes())?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn the_destinations_of_a_project_follow_the_list_and_nothing_else_does() {
        let (old, new) = (write_project(None), write_project(Some(&["team-*", "shop"])));
        assert_eq!(follow_list(&old, &old), None);
        assert_eq!(follow_list(&old, &new).as_deref(), Some(new.as_str()));
        assert_eq!(follow_list(&new, &old), None, "the bounds of the file stay");
        // A namespace that an operator names is given to apps, and the file follows.
        let freed = write_project(Some(&["*", "monitoring"]));
        let after = follow_list(&old, &freed).unwrap();
        assert!(!after.contains("!monitoring") && after.contains("!vault"), "{after}");
        // The file has lines that people wrote, and a form that an older version of the service wrote.
        let windows = "  # no one syncs on Sundays\n  syncWindows:\n  - {kind: deny, schedule: '0 0 * * 0'}\n";
        let edited = |text: &str| {
            let text = text.replace("  clusterResource", &format!("{windows}\n  clusterResource"));
            format!("# ours\n{text}  signatureKeys: [{{keyID: ABCD}}] # keep\n")
        };
        assert_eq!(follow_list(&edited(&old), &new), Some(edited(&new)));
        let deeper = "kind: AppProject\nspec:\n    destinations:   # all\n        -   server: x\n            namespace: '*'\n    syncWindows: []\n";
        let updated = follow_list(deeper, &new).unwrap();
        assert!(
            updated
                .starts_with("kind: AppProject\nspec:\n    destinations:   # all\n    - server: ")
        );
        assert!(updated.ends_with("    syncWindows: []\n"), "{updated}");
    }

    #[test]
    fn a_project_of_another_form_is_written_anew_and_what_is_none_is_left_alone() {
        let new = write_project(Some(&["team-*"]));
        let expected = parse_document(new.as_bytes()).unwrap()["spec"]["destinations"].clone();
        for text in [
            "kind: AppProject\nspec: {destinations: [{server: x, namespace: '*'}], a: 1}\n",
            "kind: AppProject\nspec:\n  a: 1\n",
            "kind: AppProject\nmetadata:\n  destinations:\n  - x\nspec:\n  a: 1\n  destinations: []\n",
        ] {
            let updated = parse_document(follow_list(text, &new).unwrap().as_bytes()).unwrap();
            assert_eq!(
                (&updated["spec"]["destinations"], &updated["spec"]["a"]),
                (&expected, &json!(1))
            );
        }
        for text in [
            "",
            "a: [",
            "kind: AppProject\nspec: 1\n",
            "kind: Secret\nspec: {}\n",
            "a: 1\n---\nb: 1\n",
        ] {
            assert_eq!(follow_list(text, &new), None, "{text}");
        }
        assert_eq!(with_destinations(&[0xff], new.as_bytes()), None);
    }

    #[test]
    fn where_the_operator_has_one_none_is_written() {
        assert_eq!(project(|target| target.argocd.project = Some("platform".to_owned())), None);
    }

    #[test]
    fn what_somebody_allowed_in_the_file_stays_where_the_configuration_bounds_nothing() {
        let file = |namespaces: &[&str]| {
            let destination = |name: &&str| json!({"server": "https://a", "namespace": name});
            let destinations: Vec<_> = namespaces.iter().map(destination).collect();
            let project = json!({"kind": "AppProject", "spec": {"destinations": destinations}});
            emit::document(&project).into_bytes()
        };
        let open = file(&["*", "!kube-*", "!argocd"]);
        for (present, fresh, becomes) in [
            (&["team-*"][..], &open, Some(&["team-*", "!kube-*", "!argocd"][..])),
            (&["*"], &open, Some(&["*", "!kube-*", "!argocd"])),
            (&["team-*", "!argocd", "!kube-*"], &open, None),
            (&["!argocd"], &open, Some(&["*", "!kube-*", "!argocd"])),
            (&["team-*"], &file(&["shop", "!argocd"]), Some(&["shop", "!argocd"])),
        ] {
            let after = with_destinations(&file(present), fresh);
            assert_eq!(after, becomes.map(file), "{present:?}");
        }
    }
}
