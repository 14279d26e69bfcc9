//! The configuration that the answers make, for the machine of the service or for this one. Pure.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use super::answers::{RunsOn, SetupAnswers};
use super::cluster_answer::ClusterAnswer;
use super::folder::{
    API_TOKEN_FILE, AppRecord, CLIENT_SECRET_FILE, HOOK_SECRET_FILE, KEY_FILE, SetupFolder,
};
use crate::forge::github::address::repository_at;
use crate::forge::github::client::GITHUB_API;
use crate::waml::emit;

/// The secrets of the pod of deploy/kubernetes.
const POD_SECRETS: &str = "/run/secrets/the-deployer";
/// The file with authorities among them.
pub(super) const CA_FILE: &str = "ca.pem";
/// The file with the token for the manifest repository among them.
pub(super) const MANIFESTS_TOKEN_FILE: &str = "manifests-token";
/// The state of the pod of deploy/kubernetes.
const POD_STATE: &str = "/var/lib/the-deployer";
/// The name of the manifest repository in the configuration.
const REPOSITORY_NAME: &str = "manifests";

const HEADER: &str = "# Written by `the-deployer setup`; docs/configuration.md explains each key. The setup asks before it\n\
                      # replaces what you change here.\n";

/// The places of files that a configuration names.
#[derive(Debug, Clone)]
pub(super) struct ConfigPlaces {
    secrets: PathBuf,
    state: PathBuf,
    /// True in a pod of the service.
    is_pod: bool,
}

impl ConfigPlaces {
    /// Returns the places on this machine.
    pub(super) fn on_this_machine(folder: &SetupFolder) -> Self {
        Self { secrets: folder.root().to_owned(), state: folder.path("data"), is_pod: false }
    }

    /// Returns the places where the service runs.
    pub(super) fn for_service(folder: &SetupFolder, runs_on: RunsOn) -> Self {
        match runs_on {
            RunsOn::Machine => Self::on_this_machine(folder),
            RunsOn::Kubernetes => {
                Self { secrets: POD_SECRETS.into(), state: POD_STATE.into(), is_pod: true }
            }
        }
    }

    fn secret(&self, name: &str) -> Json {
        json!({"file": path_text(&self.secrets.join(name))})
    }
}

/// Returns the text of a pod's configuration with the files of this machine.
pub(super) fn on_this_machine(text: &str, folder: &SetupFolder, answers: &SetupAnswers) -> String {
    let here = ConfigPlaces::on_this_machine(folder);
    let mut text = text.to_owned();
    // These two are not in the folder.
    let others = [(CA_FILE, &answers.ca), (MANIFESTS_TOKEN_FILE, &answers.manifests_token_file)];
    for (name, file) in others {
        if let Some(file) = file {
            text = text.replace(&format!("{POD_SECRETS}/{name}"), &path_text(file));
        }
    }
    let text = text.replace(POD_SECRETS, &path_text(&here.secrets));
    text.replace(POD_STATE, &path_text(&here.state))
}

/// What the configuration is made of, beside the answers.
#[derive(Debug, Clone)]
pub(super) struct ConfigFacts {
    pub(super) app: AppRecord,
    /// True if there is a client secret for people who sign in.
    pub(super) has_client_secret: bool,
    /// The kubeconfig.
    pub(super) kubeconfig: PathBuf,
}

/// Writes the configuration.
pub(super) fn render(answers: &SetupAnswers, facts: &ConfigFacts, places: &ConfigPlaces) -> String {
    let mut root = Map::new();
    let listen = if places.is_pod { "0.0.0.0:8080" } else { "127.0.0.1:8080" };
    root.insert(
        "server".to_owned(),
        json!({"listen": listen, "external_url": answers.service_url}),
    );
    root.insert("storage".to_owned(), json!({"folder": path_text(&places.state)}));
    if let Some(ca) = &answers.ca {
        let ca = if places.is_pod { places.secrets.join(CA_FILE) } else { ca.clone() };
        root.insert("outbound".to_owned(), json!({"ca": path_text(&ca)}));
    }
    root.insert("forge".to_owned(), json!({"github": github(answers, facts, places)}));
    let repository = repository(answers, places);
    root.insert("manifests".to_owned(), json!({"repositories": [repository]}));
    let clusters = answers.clusters.iter().map(|one| cluster(one, &facts.kubeconfig, places));
    let clusters: Vec<Json> = clusters.collect();
    if !clusters.is_empty() {
        root.insert("clusters".to_owned(), Json::Array(clusters));
    }
    let token =
        json!({"name": "operators", "file": path_text(&places.secrets.join(API_TOKEN_FILE))});
    root.insert("auth".to_owned(), json!({"tokens": [token], "github": {}}));
    format!("{HEADER}{}", emit::map(&root))
}

fn github(answers: &SetupAnswers, facts: &ConfigFacts, places: &ConfigPlaces) -> Json {
    let mut github = Map::new();
    if answers.api_url() != GITHUB_API {
        github.insert("api_url".to_owned(), json!(answers.api_url()));
    }
    let app = json!({"id": facts.app.id.to_string(), "private_key": places.secret(KEY_FILE)});
    github.insert("app".to_owned(), app);
    github.insert("webhook_secret".to_owned(), places.secret(HOOK_SECRET_FILE));
    if let Some(client_id) = facts.app.client_id.as_ref().filter(|_| facts.has_client_secret) {
        let login =
            json!({"client_id": client_id, "client_secret": places.secret(CLIENT_SECRET_FILE)});
        github.insert("login".to_owned(), login);
    }
    let owner = answers.organization().or(facts.app.owner.as_deref());
    let default = owner.map(|owner| vec![format!("{owner}/*")]).unwrap_or_default();
    let repositories =
        if answers.repositories.is_empty() { default } else { answers.repositories.clone() };
    if !repositories.is_empty() {
        github.insert("repositories".to_owned(), json!(repositories));
    }
    Json::Object(github)
}

fn repository(answers: &SetupAnswers, places: &ConfigPlaces) -> Json {
    let url = answers.manifests_url.as_deref().unwrap_or_default();
    let mut repository = Map::new();
    repository.insert("name".to_owned(), json!(REPOSITORY_NAME));
    repository.insert("url".to_owned(), json!(url));
    if answers.branch() != "main" {
        repository.insert("branch".to_owned(), json!(answers.branch()));
    }
    match &answers.manifests_token_file {
        Some(_) if places.is_pod => {
            repository.insert("token".to_owned(), places.secret(MANIFESTS_TOKEN_FILE));
        }
        Some(file) => {
            repository.insert("token".to_owned(), json!({"file": path_text(file)}));
        }
        None if repository_at(answers.api_url(), url).is_ok() => {
            repository.insert("auth".to_owned(), json!("app"));
        }
        // A path, or an address elsewhere: the check says what is missing.
        None => {}
    }
    Json::Object(repository)
}

fn cluster(answer: &ClusterAnswer, kubeconfig: &Path, places: &ConfigPlaces) -> Json {
    let ClusterAnswer { context, name, environment, domain, server, version, watch } = answer;
    let mut cluster = Map::new();
    for (key, value) in [("name", name), ("environment", environment), ("domain", domain)] {
        cluster.insert(key.to_owned(), json!(value));
    }
    for (key, value) in [("server", server), ("version", version)] {
        if let Some(value) = value {
            cluster.insert(key.to_owned(), json!(value));
        }
    }
    match (watch, places.is_pod) {
        (true, false) => {
            let api = json!({"kubeconfig": {"file": path_text(kubeconfig)}, "context": context});
            cluster.insert("kubernetes".to_owned(), api);
        }
        (true, true) if is_own_cluster(answer) => {
            cluster.insert("kubernetes".to_owned(), json!({"in_cluster": true}));
        }
        // A pod has no kubeconfig: an agent reports the cluster.
        _ => {}
    }
    Json::Object(cluster)
}

/// Returns whether the pod of the service is in that cluster, as Argo CD is.
pub(super) fn is_own_cluster(answer: &ClusterAnswer) -> bool {
    answer.server.is_none()
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> SetupAnswers {
        SetupAnswers {
            service_url: Some("https://deployer.example.com".to_owned()),
            organization: Some("acme".to_owned()),
            manifests_url: Some("https://github.com/acme/manifests.git".to_owned()),
            clusters: vec![ClusterAnswer {
                context: "on: {hostile}\n- x".to_owned(),
                name: "prod-1".to_owned(),
                environment: "production".to_owned(),
                domain: "p.example.com".to_owned(),
                watch: true,
                ..ClusterAnswer::default()
            }],
            ..SetupAnswers::default()
        }
    }

    fn facts() -> ConfigFacts {
        let app = AppRecord {
            id: 7,
            client_id: Some("Iv1".to_owned()),
            name: None,
            owner: Some("acme".to_owned()),
            html_url: None,
        };
        ConfigFacts { app, has_client_secret: true, kubeconfig: "/home/me/.kube/config".into() }
    }

    #[test]
    fn what_others_wrote_stays_one_value() {
        let folder = SetupFolder::new(Path::new("/srv/deployer")).unwrap();
        let text = render(&answers(), &facts(), &ConfigPlaces::on_this_machine(&folder));
        let read: Json = serde_yaml::from_str(&text).unwrap();
        assert_eq!(read["clusters"][0]["kubernetes"]["context"], "on: {hostile}\n- x");
        assert_eq!(read["manifests"]["repositories"][0]["auth"], "app");
        assert_eq!(read["forge"]["github"]["repositories"], json!(["acme/*"]));
        assert_eq!(
            read["forge"]["github"]["app"]["private_key"]["file"],
            "/srv/deployer/github-app.pem"
        );
    }

    #[test]
    fn a_pod_has_its_own_paths_and_watches_its_own_cluster() {
        let folder = SetupFolder::new(Path::new("/srv/deployer")).unwrap();
        let places = ConfigPlaces::for_service(&folder, RunsOn::Kubernetes);
        let own = SetupAnswers {
            ca: Some("/home/me/authorities.pem".into()),
            manifests_token_file: Some("/home/me/token".into()),
            ..answers()
        };
        let text = render(&own, &facts(), &places);
        assert!(text.contains("/run/secrets/the-deployer/ca.pem"), "{text}");
        let here = on_this_machine(&text, &folder, &own);
        let read: Json = serde_yaml::from_str(&here).unwrap();
        assert_eq!(read["outbound"]["ca"], "/home/me/authorities.pem");
        assert_eq!(read["manifests"]["repositories"][0]["token"]["file"], "/home/me/token");
        assert_eq!(
            read["forge"]["github"]["app"]["private_key"]["file"],
            "/srv/deployer/github-app.pem"
        );
        assert!(!text.contains("/srv/deployer") && !text.contains("/home/me"), "{text}");
        let read: Json = serde_yaml::from_str(&text).unwrap();
        assert_eq!(read["clusters"][0]["kubernetes"], json!({"in_cluster": true}));
        let mut elsewhere = answers();
        elsewhere.clusters[0].server = Some("https://10.0.0.1".to_owned());
        let read: Json = serde_yaml::from_str(&render(&elsewhere, &facts(), &places)).unwrap();
        assert!(read["clusters"][0].get("kubernetes").is_none());
    }
}
