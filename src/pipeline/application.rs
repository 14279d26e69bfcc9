//! The Argo CD `Application` of an app, and the parent app of a cluster.
//!
//! Plain files, never generators: what a cluster runs can be read in the repository, and no
//! hiccup of a generator can delete it.

use serde_json::{Value as Json, json};

use crate::model::id::{AppKey, RepoName};
use crate::model::target::Target;
use crate::waml::document::Link;
use crate::waml::emit;

/// The manifest repository as Argo CD sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its address, without credentials.
    pub url: String,
    /// The branch, `main`.
    pub branch: String,
}

/// What an Application shows of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About<'a> {
    /// Namespace and slug.
    pub app: &'a AppKey,
    /// The owning team's e-mail address.
    pub owner: &'a str,
    /// The team's Slack channel.
    pub slack: Option<&'a str>,
    /// The service's repository, and the address of its pages.
    pub repository: &'a RepoName,
    /// Where the forge shows repositories: `https://github.com`; absent for local git.
    pub forge_url: Option<&'a str>,
    /// The WAML's links.
    pub links: &'a [Link],
}

/// The namespace that Argo CD runs in.
const ARGO_CD: &str = "argocd";

/// `apps/<cluster>/<namespace>.<app>.yaml`
pub fn of_app(about: &About<'_>, target: &Target, source: &Source) -> Vec<u8> {
    let AppKey { namespace, slug } = about.app;
    let path = format!("manifests/{}/{namespace}/{slug}/latest", target.name);
    let mut annotations = serde_json::Map::new();
    // Without it every push to the shared repository would refresh every application.
    annotations.insert("argocd.argoproj.io/manifest-generate-paths".to_owned(), ".".into());
    for (name, url) in links(about) {
        annotations.insert(format!("link.argocd.argoproj.io/{name}"), url.into());
    }
    let mut application = application(&format!("{namespace}.{slug}"), &path, source, target);
    if let Some(metadata) = application.get_mut("metadata").and_then(Json::as_object_mut) {
        metadata.insert("annotations".to_owned(), Json::Object(annotations));
    }
    if let Some(spec) = application.get_mut("spec").and_then(Json::as_object_mut) {
        spec.insert(
            "destination".to_owned(),
            json!({"server": target.server, "namespace": namespace}),
        );
        spec.insert("info".to_owned(), info(about));
    }
    emit::document(&application).into_bytes()
}

/// `apps/<cluster>.yaml`: the parent app, which watches the folder of the others.
pub fn of_cluster(target: &Target, source: &Source) -> Vec<u8> {
    let path = format!("apps/{}", target.name);
    let mut application = application(&format!("apps-{}", target.name), &path, source, target);
    if let Some(spec) = application.get_mut("spec").and_then(Json::as_object_mut) {
        // The applications themselves live where Argo CD runs.
        let here = json!({"server": Target::IN_CLUSTER, "namespace": ARGO_CD});
        spec.insert("destination".to_owned(), here);
    }
    emit::document(&application).into_bytes()
}

fn application(name: &str, path: &str, source: &Source, target: &Target) -> Json {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": name,
            "namespace": ARGO_CD,
            "labels": {
                "app.kubernetes.io/managed-by": "the-deployer",
                format!("{}target", crate::pipeline::OUR_PREFIX): target.name,
            },
        },
        "spec": {
            "project": "default",
            "source": {
                "repoURL": source.url,
                // Cheaper to resolve than the bare name in a large repository.
                "targetRevision": format!("refs/heads/{}", source.branch),
                "path": path,
            },
            "destination": Json::Null,
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    })
}

/// Annotation keys take letters, digits, `-`, `_` and `.`; other characters of a link's name
/// become `-`, and the WAML's own name stands in `spec.info`.
fn links(about: &About<'_>) -> Vec<(String, String)> {
    let repository = about.forge_url.map(|url| {
        ("repository".to_owned(), format!("{}/{}", url.trim_end_matches('/'), about.repository))
    });
    let slack = about.slack.map(|channel| {
        let name = channel.trim_start_matches('#');
        ("slack".to_owned(), format!("https://slack.com/app_redirect?channel={}", percent(name)))
    });
    let own = about.links.iter().map(|link| (key_part(&link.name), link.url.clone()));
    repository.into_iter().chain(slack).chain(own).collect()
}

fn info(about: &About<'_>) -> Json {
    let mut info = vec![json!({"name": "Owner", "value": about.owner})];
    info.push(json!({"name": "Repository", "value": about.repository}));
    info.extend(about.slack.map(|slack| json!({"name": "Slack", "value": slack})));
    info.extend(about.links.iter().map(|link| json!({"name": link.name, "value": link.url})));
    Json::Array(info)
}

fn key_part(name: &str) -> String {
    let legal =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let part: String = name.chars().take(63).map(legal).collect();
    let trimmed = part.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if trimmed.is_empty() { "link".to_owned() } else { trimmed.to_owned() }
}

fn percent(text: &str) -> String {
    let byte = |b: u8| match b {
        b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}
