//! The content of a manifest repository of a given size, and what one more deployment adds. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;
use the_deployer::git::message::Note;
use the_deployer::git::writer::{DeploymentChange, DriftPolicy};
use the_deployer::model::id::{AppKey, DeployId, TargetName};
use the_deployer::model::revision::{Digest, ManifestFile, Revision};

/// How many revisions an app has on a target, beside `latest`.
pub const REVISIONS: usize = 5;
/// Apps of one namespace.
const TEAM: usize = 20;

/// The files of one revision: twelve, as a service with everything has them.
const KINDS: [(&str, &str, &str); 12] = [
    ("certificate", "cert-manager.io/v1", "Certificate"),
    ("configmap", "v1", "ConfigMap"),
    ("deployment", "apps/v1", "Deployment"),
    ("horizontalpodautoscaler", "autoscaling/v2", "HorizontalPodAutoscaler"),
    ("ingress", "networking.k8s.io/v1", "Ingress"),
    ("networkpolicy", "networking.k8s.io/v1", "NetworkPolicy"),
    ("poddisruptionbudget", "policy/v1", "PodDisruptionBudget"),
    ("prometheusrule", "monitoring.coreos.com/v1", "PrometheusRule"),
    ("role", "rbac.authorization.k8s.io/v1", "Role"),
    ("rolebinding", "rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("service", "v1", "Service"),
    ("serviceaccount", "v1", "ServiceAccount"),
];

/// How large a repository is.
#[derive(Clone, Copy)]
pub struct Shape {
    pub apps: usize,
    pub clusters: usize,
}

impl Shape {
    pub fn files(self) -> usize {
        self.apps * self.clusters * (REVISIONS + 1) * KINDS.len()
    }

    /// App and target of the nth of a row of deployments: each next to another app.
    pub fn nth(self, n: usize) -> (usize, usize) {
        // A stride that shares no factor with round numbers comes to every app.
        ((n * 37) % self.apps, (n / self.apps + n) % self.clusters)
    }
}

pub fn namespace(app: usize) -> String {
    format!("team-{:03}", app / TEAM)
}

pub fn slug(app: usize) -> String {
    format!("app-{app:05}")
}

pub fn target(cluster: usize) -> String {
    format!("prod-{}", cluster + 1)
}

/// The id of a revision that was there before; sorts before every id of today.
pub fn old_id(app: usize, revision: usize) -> String {
    format!("2026010{revision}-000000000-{app:06x}")
}

/// The files of one revision, by name. The version stands in each, as in what is rendered.
pub fn files(app: usize, target: &str, version: &str) -> Vec<(String, String)> {
    let file = |(file, api, kind): &(&str, &str, &str)| {
        (format!("{file}.yaml"), manifest((api, kind), app, target, version))
    };
    KINDS.iter().map(file).collect()
}

fn manifest((api, kind): (&str, &str), app: usize, target: &str, version: &str) -> String {
    let (slug, namespace) = (slug(app), namespace(app));
    let mut text = format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {slug}\n  namespace: {namespace}\n  labels:\n    \
         app.kubernetes.io/name: {slug}\n    app.kubernetes.io/part-of: {namespace}\n    \
         app.kubernetes.io/version: {version}\n    app.kubernetes.io/managed-by: the-deployer\n"
    );
    match kind {
        "Ingress" => {
            let host = format!("{slug}.{target}.example.com");
            let backend = format!("{{service: {{name: {slug}, port: {{number: 8000}}}}}}");
            let _ = write!(
                text,
                "spec:\n  rules:\n  - host: {host}\n    http:\n      paths:\n      - path: /\n        \
                 pathType: Prefix\n        backend: {backend}\n"
            );
        }
        "ConfigMap" => {
            text.push_str("data:\n");
            for key in 0..12 {
                let _ = writeln!(text, "  KEY_{key}: value-{key}-of-{slug}-on-{target}");
            }
        }
        _ => {
            let _ = write!(
                text,
                "spec:\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: {slug}\n  \
                 description: {kind} of {slug} in {namespace} on {target}, as large as such an object is as a rule\n"
            );
        }
    }
    text
}

/// The bytes of an app's Application.
pub fn application(app: usize, target: &str) -> String {
    let (slug, namespace) = (slug(app), namespace(app));
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: {target}.{namespace}.{slug}\n  \
         namespace: argocd\nspec:\n  project: default\n  source:\n    path: manifests/{target}/{namespace}/{slug}/latest\n    \
         targetRevision: main\n  destination:\n    namespace: {namespace}\n  syncPolicy:\n    automated: {{prune: true, selfHeal: true}}\n"
    )
}

/// One more deployment.
pub struct Deployment {
    pub app: usize,
    pub target: String,
    pub id: DeployId,
    pub version: String,
    pub files: Vec<(String, String)>,
}

impl Deployment {
    pub fn new(shape: Shape, n: usize, id: DeployId) -> Self {
        let (app, cluster) = shape.nth(n);
        let (target, version) = (target(cluster), format!("2.{n}.0"));
        let files = files(app, &target, &version);
        Self { app, target, id, version, files }
    }

    /// `manifests/<cluster>/<namespace>/<app>`
    pub fn folder(&self) -> String {
        format!("manifests/{}/{}/{}", self.target, namespace(self.app), slug(self.app))
    }

    pub fn message(&self) -> String {
        let (app, version) = (slug(self.app), &self.version);
        format!("deploy {app} {version} to {}\n\nDeploy-Id: {}\n", self.target, self.id)
    }

    pub fn write(&self) -> DeploymentChange {
        let app = AppKey {
            namespace: namespace(self.app).parse().expect("a namespace"),
            slug: slug(self.app).parse().expect("a slug"),
        };
        let target: TargetName = self.target.parse().expect("a target");
        let file = |(name, text): &(String, String)| ManifestFile {
            name: name.clone(),
            bytes: text.clone().into_bytes(),
        };
        DeploymentChange {
            revision: Revision {
                id: self.id.clone(),
                app,
                target,
                files: self.files.iter().map(file).collect(),
                digest: Digest(format!("sha256:{:064x}", self.app)),
            },
            application: Some(application(self.app, &self.target).into_bytes()),
            project: None,
            parent: None,
            note: note(self),
            hand_edits: DriftPolicy::default(),
        }
    }
}

fn note(deployment: &Deployment) -> Note {
    Note {
        tag: deployment.version.parse().expect("a tag"),
        repository: format!("load/{}", slug(deployment.app)).parse().expect("a repository"),
        repository_number: Some(1),
        app_name: None,
        commit: "a".repeat(40).parse().expect("a commit"),
        actor: "load".to_owned(),
        template: "backend-default@latest".to_owned(),
        templates_commit: None,
        reason: String::new(),
        fleet: None,
    }
}

/// The time of a commit.
pub fn now() -> Timestamp {
    the_deployer::support::clock::Clock::system().now()
}
