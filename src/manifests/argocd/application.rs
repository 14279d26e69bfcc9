//! The Argo CD `Application` of an app, and the parent app of a cluster.
//!
//! They are plain files, never generators: a reader of the repository sees what a cluster runs, and no hiccup of a
//! generator can delete it.

use serde_json::{Map, Value as Json, json};

use crate::manifests::handover::{FlaggerShare, ROUTE_FIELDS, SERVICE_FIELDS, TakenOver};
use crate::manifests::replicas::Workload;
use crate::manifests::untyped::parse_document;
use crate::model::id::{AppKey, RepoName};
use crate::model::target::Target;
use crate::support::percent::encode_segment;
use crate::waml::document::Link;
use crate::waml::emit;

/// The manifest repository as Argo CD sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The address, without credentials.
    pub url: String,
    /// The branch, `main`.
    pub branch: String,
}

/// The data of an app that its Application shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationInfo<'a> {
    /// Namespace and slug.
    pub app: &'a AppKey,
    /// The owning team's e-mail address.
    pub owner: &'a str,
    /// The team's Slack channel.
    pub slack: Option<&'a str>,
    /// The service's repository, and the address of its pages.
    pub repository: &'a RepoName,
    /// The web address of the code host: `https://github.com`; absent for local git.
    pub forge_url: Option<&'a str>,
    /// The WAML's links.
    pub links: &'a [Link],
    /// The workloads whose number of pods is an autoscaler's.
    pub autoscaled: &'a [Workload],
    /// What is Flagger's.
    pub flagger: &'a FlaggerShare,
}

/// An annotation key's last part has at most so many characters.
const LONGEST_KEY: usize = 63;

/// The finalizer with which deleting an Application deletes its objects (Argo CD, "Application Deletion"). Without it,
/// a removed app would run on, unknown to everybody.
pub(crate) const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// The project that every Argo CD has.
const DEFAULT_PROJECT: &str = "default";

/// Writes `apps/<cluster>/<namespace>.<app>.yaml`.
pub fn of_app(app_info: &ApplicationInfo<'_>, target: &Target, source: &Source) -> Vec<u8> {
    let AppKey { namespace, slug } = app_info.app;
    let path = format!("manifests/{}/{namespace}/{slug}/latest", target.name);
    let mut annotations = own_folder_annotation();
    for (name, url) in links(app_info) {
        annotations.insert(format!("link.argocd.argoproj.io/{name}"), url.into());
    }
    let mut application =
        application(&application_name(app_info.app, target), &path, source, target);
    if let Some(metadata) = application.get_mut("metadata").and_then(Json::as_object_mut) {
        metadata.insert("annotations".to_owned(), Json::Object(annotations));
        metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
    }
    if let Some(spec) = application.get_mut("spec").and_then(Json::as_object_mut) {
        spec.insert(
            "destination".to_owned(),
            json!({"server": target.server, "namespace": namespace}),
        );
        spec.insert("project".to_owned(), target.project().into());
        spec.insert("info".to_owned(), info(app_info));
        leave_to_others(spec, app_info.autoscaled, app_info.flagger);
    }
    emit::document(&application).into_bytes()
}

/// Writes `apps/<cluster>.yaml`: the parent app, which watches the folder of the others.
///
/// It prunes, so that an app whose file is gone is deleted. It has no finalizer itself: who deletes
/// the parent by mistake does not delete every app with it. Its project is the one that is always
/// there, because the cluster's own is in its folder.
pub fn of_cluster(target: &Target, source: &Source) -> Vec<u8> {
    let path = format!("apps/{}", target.name);
    let mut application =
        application(&format!("apps-{}", target.name.object_name()), &path, source, target);
    if let Some(metadata) = application.get_mut("metadata").and_then(Json::as_object_mut) {
        metadata.insert("annotations".to_owned(), Json::Object(own_folder_annotation()));
    }
    if let Some(spec) = application.get_mut("spec").and_then(Json::as_object_mut) {
        // The applications themselves live where Argo CD runs.
        let destination =
            json!({"server": Target::IN_CLUSTER, "namespace": target.argocd.namespace});
        spec.insert("destination".to_owned(), destination);
    }
    emit::document(&application).into_bytes()
}

/// Leaves these workloads' numbers of pods, and no others, to their autoscalers in the same Application, and Flagger's
/// share to Flagger; `None` where it is so already, or the file cannot be read. Other people's additions stay.
pub fn with_shares(
    application: &[u8],
    autoscaled: &[Workload],
    flagger: &FlaggerShare,
) -> Option<Vec<u8>> {
    let before = parse_document(application)?;
    let mut after = before.clone();
    leave_to_others(after.get_mut("spec")?.as_object_mut()?, autoscaled, flagger);
    (after != before).then(|| emit::document(&after).into_bytes())
}

/// Tells Argo CD which fields of the objects are not its own.
fn leave_to_others(spec: &mut Map<String, Json>, autoscaled: &[Workload], flagger: &FlaggerShare) {
    // A new cluster has none of the namespaces. Argo CD makes one where it is missing, leaves
    // one that is there alone, and never deletes it.
    let mut options = vec!["CreateNamespace=true"];
    let differences = spec.get("ignoreDifferences").and_then(Json::as_array).into_iter().flatten();
    let mut ignored: Vec<Json> =
        differences.filter(|difference| !is_ours(difference)).cloned().collect();
    ignored.extend(autoscaled.iter().map(number_of_pods));
    ignored.extend(flagger.taken_over.iter().map(taken_over));
    let is_ignored = !ignored.is_empty();
    if is_ignored {
        spec.insert("ignoreDifferences".to_owned(), ignored.into());
    } else {
        spec.shift_remove("ignoreDifferences");
    }
    let Some(policy) = spec.get_mut("syncPolicy").and_then(Json::as_object_mut) else { return };
    let present = policy.get("syncOptions").and_then(Json::as_array).cloned().unwrap_or_default();
    let has_ours = !autoscaled.is_empty() || !flagger.taken_over.is_empty();
    if has_ours || (is_ignored && present.contains(&json!(RESPECT))) {
        // Argo CD takes the number that is live for the wanted one, also where the manifests have none.
        options.push(RESPECT);
    }
    if flagger.has_canary {
        options.push(BACKGROUND);
    }
    let is_other = |sync_option: &&Json| {
        *sync_option != RESPECT
            && *sync_option != BACKGROUND
            && !options.iter().any(|option| *sync_option == option)
    };
    let mut sync_options: Vec<Json> = options.iter().map(|option| json!(option)).collect();
    sync_options.extend(present.iter().filter(is_other).cloned());
    policy.insert("syncOptions".to_owned(), sync_options.into());
}

/// The option by which Argo CD heeds `ignoreDifferences` when it syncs, and not only when it compares.
const RESPECT: &str = "RespectIgnoreDifferences=true";

/// The option by which a removed Canary goes before what Flagger has made: Flagger first brings the app's own pods back.
const BACKGROUND: &str = "PrunePropagationPolicy=background";

const JSON_POINTERS: &str = "jsonPointers";
const JQ_PATHS: &str = "jqPathExpressions";
/// The number of pods, as `ignoreDifferences` names it.
const REPLICAS: &str = "/spec/replicas";
/// The same once it is above zero. While it is 0, Argo CD applies what the manifest says: without a number
/// that is 1, and the autoscaler begins to count.
const REPLICAS_ABOVE_ZERO: &str = ".spec.replicas | select(. > 0)";

/// Makes the entry of `ignoreDifferences` that says what of a workload Argo CD leaves to its
/// autoscaler.
fn number_of_pods(Workload { kind, name, parked }: &Workload) -> Json {
    let (key, path) =
        if *parked { (JQ_PATHS, REPLICAS_ABOVE_ZERO) } else { (JSON_POINTERS, REPLICAS) };
    json!({"group": "apps", "kind": kind, "name": name, key: [path]})
}

/// Makes the entry of `ignoreDifferences` that says what of an object Argo CD leaves to Flagger.
fn taken_over(TakenOver { group, kind, name, pointers }: &TakenOver) -> Json {
    json!({"group": group, "kind": kind, "name": name, JSON_POINTERS: pointers})
}

/// Checks that an entry of `ignoreDifferences` is one that [`number_of_pods`] or [`taken_over`] makes.
fn is_ours(entry: &Json) -> bool {
    let is = |key: &str, paths: &[&str]| entry.get(key).is_some_and(|value| *value == json!(paths));
    is(JSON_POINTERS, &[REPLICAS])
        || is(JQ_PATHS, &[REPLICAS_ABOVE_ZERO])
        || is(JSON_POINTERS, SERVICE_FIELDS)
        || is(JSON_POINTERS, ROUTE_FIELDS)
}

/// Returns the annotation for the app's own folder: without it every push to the shared repository would refresh every
/// application.
fn own_folder_annotation() -> Map<String, Json> {
    let annotation = json!({"argocd.argoproj.io/manifest-generate-paths": "."});
    annotation.as_object().cloned().unwrap_or_default()
}

/// Names the Application with the target, because one Argo CD may serve several clusters: all
/// applications are then in its one namespace, and one of them would take the other's place.
/// Namespace and slug have no dots, so no two apps get one name; each part has at most 63
/// characters, so it is always legal.
pub fn application_name(app: &AppKey, target: &Target) -> String {
    format!("{}.{}.{}", target.name.object_name(), app.namespace, app.slug)
}

fn application(name: &str, path: &str, source: &Source, target: &Target) -> Json {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": metadata(name, target),
        "spec": {
            "project": DEFAULT_PROJECT,
            "source": {
                "repoURL": source.url,
                // Cheaper to resolve than the bare name in a large repository.
                "targetRevision": format!("refs/heads/{}", source.branch),
                "path": path,
            },
            "destination": Json::Null,
            "syncPolicy": {
                "automated": {"prune": true, "selfHeal": true},
                // Without it a revision whose sync failed once is not tried again.
                "retry": {"limit": 5, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "5m"}},
            },
        },
    })
}

pub(super) fn metadata(name: &str, target: &Target) -> Map<String, Json> {
    let metadata = json!({
        "name": name,
        "namespace": target.argocd.namespace,
        "labels": {
            "app.kubernetes.io/managed-by": "the-deployer",
            format!("{}target", crate::manifests::OUR_PREFIX): target.name,
        },
    });
    metadata.as_object().cloned().unwrap_or_default()
}

/// Lists the links as annotations. Keys take letters, digits, `-`, `_` and `.`; other characters of a link's name
/// become `-`, and the WAML's own name is in `spec.info`. Two that become the same are numbered.
fn links(info: &ApplicationInfo<'_>) -> Vec<(String, String)> {
    let repository = info.forge_url.map(|url| {
        ("repository".to_owned(), format!("{}/{}", url.trim_end_matches('/'), info.repository))
    });
    let slack = info.slack.map(|channel| {
        let name = channel.trim_start_matches('#');
        (
            "slack".to_owned(),
            format!("https://slack.com/app_redirect?channel={}", encode_segment(name)),
        )
    });
    let own_links = info.links.iter().map(|link| (key_part(&link.name), link.url.clone()));
    let mut links: Vec<(String, String)> = Vec::new();
    for (key, url) in repository.into_iter().chain(slack).chain(own_links) {
        let key = unused_key(key, &links);
        // Argo CD reads `title|url`: a bar would make an address look like another.
        links.push((key, url.replace('|', "%7C")));
    }
    links
}

/// Finds the key, or the first of `key-2`, `key-3` … that is not taken.
fn unused_key(key: String, used_keys: &[(String, String)]) -> String {
    let is_taken = |key: &String| used_keys.iter().any(|(used, _)| used == key);
    let numbered = (2..=used_keys.len() + 1).map(|number| {
        let end = format!("-{number}");
        let start: String = key.chars().take(LONGEST_KEY - end.len()).collect();
        start + &end
    });
    let mut candidates = std::iter::once(key.clone()).chain(numbered);
    candidates.find(|key| !is_taken(key)).unwrap_or(key)
}

fn info(app_info: &ApplicationInfo<'_>) -> Json {
    let mut info = vec![json!({"name": "Owner", "value": app_info.owner})];
    info.push(json!({"name": "Repository", "value": app_info.repository}));
    info.extend(app_info.slack.map(|slack| json!({"name": "Slack", "value": slack})));
    info.extend(app_info.links.iter().map(|link| json!({"name": link.name, "value": link.url})));
    Json::Array(info)
}

fn key_part(name: &str) -> String {
    let legal =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let part: String = name.chars().take(LONGEST_KEY).map(legal).collect();
    let trimmed = part.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if trimmed.is_empty() { "link".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug, TargetName};
    use crate::model::target::Clusters;

    /// Builds the Application of an app with these links.
    fn application(target: &str, slack: Option<&str>, links: &[(&str, &str)]) -> Json {
        let target = Clusters::any().find(&TargetName::parse(target).unwrap()).unwrap();
        let app = AppKey {
            namespace: Namespace::parse("devx").unwrap(),
            slug: Slug::parse("my-app").unwrap(),
        };
        let link = |(name, url): &(&str, &str)| Link { name: (*name).into(), url: (*url).into() };
        let links: Vec<Link> = links.iter().map(link).collect();
        let info = ApplicationInfo {
            app: &app,
            owner: "a@b.c",
            slack,
            repository: &RepoName::parse("o/r").unwrap(),
            forge_url: Some("https://github.com/"),
            links: &links,
            autoscaled: &[],
            flagger: &FlaggerShare::default(),
        };
        let source = Source { url: "https://git/m".to_owned(), branch: "main".to_owned() };
        serde_yaml::from_slice(&of_app(&info, &target, &source)).unwrap()
    }

    #[test]
    fn the_number_of_pods_is_the_autoscalers_where_there_is_one() {
        let application_of = |autoscaled: &[Workload]| -> Json {
            let target = Target::unconfigured(TargetName::parse("t").unwrap());
            let (namespace, slug) =
                (Namespace::parse("devx").unwrap(), Slug::parse("shop").unwrap());
            let info = ApplicationInfo {
                app: &AppKey { namespace, slug },
                owner: "a@b.c",
                slack: None,
                repository: &RepoName::parse("o/r").unwrap(),
                forge_url: None,
                links: &[],
                autoscaled,
                flagger: &FlaggerShare::default(),
            };
            let source = Source { url: "https://git/m".to_owned(), branch: "main".to_owned() };
            serde_yaml::from_slice(&of_app(&info, &target, &source)).unwrap()
        };
        let plain = application_of(&[]);
        assert_eq!(plain["spec"]["ignoreDifferences"], Json::Null);
        assert_eq!(plain["spec"]["syncPolicy"]["syncOptions"], json!(["CreateNamespace=true"]));
        let workload = |parked| Workload { kind: "Deployment".into(), name: "shop".into(), parked };
        let scaled = application_of(&[workload(false)]);
        assert_eq!(
            scaled["spec"]["syncPolicy"]["syncOptions"],
            json!(["CreateNamespace=true", "RespectIgnoreDifferences=true"])
        );
        let differences = &scaled["spec"]["ignoreDifferences"];
        assert_eq!(
            (&differences[0]["kind"], &differences[0]["name"]),
            (&json!("Deployment"), &json!("shop"))
        );
        assert_eq!(differences[0]["jsonPointers"], json!(["/spec/replicas"]));
        let parked = application_of(&[workload(true)]);
        let difference = &parked["spec"]["ignoreDifferences"][0];
        assert_eq!(difference["jsonPointers"], Json::Null, "a live 0 would stay for ever");
        assert_eq!(difference["jqPathExpressions"], json!([".spec.replicas | select(. > 0)"]));
    }

    #[test]
    fn an_application_that_is_there_gets_the_same_bytes_as_one_that_is_written_anew() {
        let file = |autoscaled: &[Workload]| {
            let target = Target::unconfigured(TargetName::parse("t").unwrap());
            let app = AppKey {
                namespace: Namespace::parse("on").unwrap(),
                slug: Slug::parse("123").unwrap(),
            };
            let link = Link { name: "# a: 'b'".into(), url: "https://x/\"y\"?z=1#w".into() };
            let info = ApplicationInfo {
                app: &app,
                owner: "a@b.c",
                slack: Some("#on-call"),
                repository: &RepoName::parse("o/r").unwrap(),
                forge_url: Some("https://github.com"),
                links: &[link],
                autoscaled,
                flagger: &FlaggerShare::default(),
            };
            let source = Source { url: "https://git/m".to_owned(), branch: "1.0".to_owned() };
            of_app(&info, &target, &source)
        };
        let workload = |parked| Workload { kind: "Deployment".into(), name: "123".into(), parked };
        let files = [file(&[]), file(&[workload(false)]), file(&[workload(true)])];
        let lists = [vec![], vec![workload(false)], vec![workload(true)]];
        for (from, present) in files.iter().enumerate() {
            for (to, (fresh, list)) in files.iter().zip(&lists).enumerate() {
                let expected = (from != to).then(|| fresh.clone());
                assert_eq!(
                    with_shares(present, list, &FlaggerShare::default()),
                    expected,
                    "{from} to {to}"
                );
            }
        }
        let text = String::from_utf8(files[1].clone()).unwrap();
        let edited = text.replace(
            "  ignoreDifferences:\n",
            "  ignoreDifferences:\n  - kind: ConfigMap\n    jsonPointers: [/data]\n",
        );
        assert_ne!(edited, text);
        let updated = with_shares(edited.as_bytes(), &[], &FlaggerShare::default()).unwrap();
        let updated: Json = serde_yaml::from_slice(&updated).unwrap();
        let kinds = updated["spec"]["ignoreDifferences"].as_array().unwrap();
        assert!(kinds.len() == 1 && kinds[0]["kind"] == "ConfigMap", "what is not ours stays");
        for unreadable in ["", "a: [", "a: 1", "- 1", "a: 1\n---\nb: 1\n"] {
            assert_eq!(
                with_shares(unreadable.as_bytes(), &[workload(false)], &FlaggerShare::default()),
                None
            );
        }
    }

    #[test]
    fn one_app_on_two_clusters_is_two_applications() {
        let name = |target| application(target, None, &[])["metadata"]["name"].clone();
        assert_eq!(name("prod-1"), "prod-1.devx.my-app");
        assert_eq!(name("prod-2"), "prod-2.devx.my-app");
        assert_eq!(name("Prod_EU"), "prod-eu.devx.my-app");
        let application_of_target = application("Prod_EU", None, &[]);
        assert_eq!(
            application_of_target["spec"]["source"]["path"],
            "manifests/Prod_EU/devx/my-app/latest"
        );
        assert_eq!(application_of_target["spec"]["project"], "the-deployer-prod-eu");
    }

    /// Returns the links' keys and addresses, without those that are always there.
    fn links_of(slack: Option<&str>, links: &[(&str, &str)]) -> Vec<(String, String)> {
        let application = application("t", slack, links);
        let annotations = application["metadata"]["annotations"].as_object().unwrap();
        let link = |(key, url): (&String, &Json)| {
            let key = key.strip_prefix("link.argocd.argoproj.io/")?;
            Some((key.to_owned(), url.as_str().unwrap().to_owned()))
        };
        annotations.iter().filter_map(link).collect()
    }

    #[test]
    fn no_link_takes_anothers_place() {
        let long = "x".repeat(70);
        let links = links_of(
            Some("#a"),
            &[
                ("a b", "1"),
                ("a/b", "2"),
                ("a-b-2", "3"),
                ("repository", "4"),
                ("slack", "5"),
                ("日本", "6"),
                ("本", "7"),
                (&long, "8"),
                (&format!("{long}y"), "9"),
            ],
        );
        let keys: Vec<&str> = links.iter().map(|(key, _)| key.as_str()).collect();
        let longest = "x".repeat(63);
        let numbered = format!("{}-2", "x".repeat(61));
        assert_eq!(
            keys,
            [
                "repository",
                "slack",
                "a-b",
                "a-b-2",
                "a-b-2-2",
                "repository-2",
                "slack-2",
                "link",
                "link-2",
                &longest,
                &numbered
            ]
        );
        assert_eq!(links[0].1, "https://github.com/o/r");
        assert_eq!(links[10].1, "9");
    }

    #[test]
    fn a_links_address_has_no_title() {
        let links = links_of(None, &[("docs", "https://evil|https://example.com")]);
        assert_eq!(links[1].1, "https://evil%7Chttps://example.com");
    }
}
