//! The service with three clusters of a fleet, `prod`, and one beside it; an app that is deployed to the fleet.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::model::deployment::{Deployment, State};

use crate::harness::deployer::Deployer;
use crate::harness::github::Repository;
use crate::harness::process::client;

/// The clusters of the fleet.
pub(super) const CLUSTERS: [&str; 3] = ["eu-1", "eu-2", "us-1"];

/// The service.
pub(super) struct Prod {
    pub(super) deployer: Deployer,
}

/// The configuration of a cluster, with more keys.
pub(super) fn cluster(name: &str, keys: &str) -> String {
    format!(
        "- {{name: {name}, environment: production, domain: {name}.example.com, server: 'https://{name}'{keys}}}\n"
    )
}

/// The configuration of these clusters, and of a fleet of those that are named.
pub(super) fn configuration(clusters: &str, fleet: &[&str]) -> String {
    format!(
        "clusters:\n{clusters}fleets:\n- {{name: prod, clusters: {{names: [{}]}}}}\n",
        fleet.join(", ")
    )
}

/// A WAML that deploys to the fleet, and to single clusters of it.
pub(super) fn waml(app: &str) -> String {
    format!(
        "schema: \"2\"\nname: {app}\nslug: {app}\nowner: squad@example.com\nnamespace: devx\n\
         defaults:\n- match: \"*\"\n  service: [{{ports: [{{name: http, number: 8000}}]}}]\n\
         \x20 ingress: [{{hostPrefix: {app}, public: true, paths: [{{path: /, servicePort: 8000}}]}}]\n\
         deploy:\n  prod:\n  eu-1:\n  beside:\n"
    )
}

/// On each database: a service with the fleet, and an app that nothing is deployed of. At the end nothing may be left.
pub(super) async fn on_both(story: impl AsyncFn(&mut Prod)) {
    let all: String = CLUSTERS.iter().map(|name| cluster(name, "")).collect();
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let clusters = format!("{all}{}", cluster("beside", ""));
            let mut prod = Prod::start(deployer, &configuration(&clusters, &CLUSTERS)).await;
            story(&mut prod).await;
            prod.deployer.settle().await;
            prod.deployer.settled().await;
        })
        .await;
    }
}

impl Prod {
    pub(super) async fn start(mut deployer: Deployer, configuration: &str) -> Self {
        deployer.configure(|config| format!("{config}{configuration}"));
        deployer.starts().await;
        deployer.manifests().keep_reflog();
        let prod = Self { deployer };
        prod.app("shop");
        prod
    }

    /// Goes on with other clusters and another fleet.
    pub(super) async fn restarts_with(&mut self, configuration: &str) {
        self.deployer.dies();
        self.deployer.configure(|config| {
            let (before, _) = config.split_once("clusters:\n").unwrap();
            format!("{before}{configuration}")
        });
        self.deployer.starts().await;
    }

    pub(super) fn app(&self, name: &str) -> Repository<'_> {
        let repository = self.deployer.github.repository(&format!("example/{name}"));
        repository.commit(&waml(name));
        repository
    }

    pub(super) fn shop(&self) -> Repository<'_> {
        self.deployer.github.repository("example/shop")
    }

    /// The app's WAML has these versions for the fleet.
    pub(super) fn has_versions(&self, versions: &str) {
        let section = format!("  prod:\n    versions: {versions}\n");
        self.shop().commit(&waml("shop").replace("  prod:\n", &section));
    }

    /// A person deploys that tag; the record, once nothing can be done any more.
    pub(super) async fn deploys(&self, target: &str, tag: &str) -> Deployment {
        self.deployer.clock.advance(Duration::from_secs(1));
        let number = self.shop().deploys(target, tag).await;
        self.deployer.works().await;
        self.deployer.deployment(number).await
    }

    /// The same, which succeeds.
    pub(super) async fn runs(&self, target: &str, tag: &str) -> Deployment {
        let deployment = self.deploys(target, tag).await;
        assert_eq!(deployment.state, State::Succeeded, "{deployment:#?}");
        deployment
    }

    /// The parts of a deployment: `eu-1 succeeded, eu-2 succeeded`.
    pub(super) async fn parts(&self, deployment: &Deployment) -> String {
        let parts = self.records(deployment).await;
        let part = |one: &Deployment| format!("{} {}", one.request.target, one.state.as_str());
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    pub(super) async fn records(&self, deployment: &Deployment) -> Vec<Deployment> {
        self.deployer.stepped().store().fleet_parts(&deployment.id).await.unwrap()
    }

    /// The trees that are live on these clusters; `None` for an app that is not there.
    pub(super) fn lives(&self, clusters: &[&str]) -> Vec<Option<String>> {
        let manifests = self.deployer.manifests();
        let files = manifests.files();
        let live = |cluster: &&str| {
            let path = format!("manifests/{cluster}/devx/shop/latest");
            let is_there = files.keys().any(|file| file.starts_with(&format!("{path}/")));
            is_there.then(|| manifests.object(&path))
        };
        clusters.iter().map(live).collect()
    }

    /// All that is live on a cluster.
    pub(super) fn text(&self, cluster: &str) -> String {
        let folder = format!("manifests/{cluster}/devx/shop/latest/");
        let files = self.deployer.manifests().files();
        let live = files.into_iter().filter(|(path, _)| path.starts_with(&folder));
        live.map(|(_, text)| text).collect::<Vec<_>>().join("---\n")
    }

    /// The names of the Deployments that are live on a cluster.
    pub(super) fn workloads(&self, cluster: &str) -> Vec<String> {
        let text = self.text(cluster);
        let objects = text.split("---\n").filter(|object| object.contains("kind: Deployment\n"));
        let name =
            |object: &str| Some(object.split_once("\n  name: ")?.1.lines().next()?.to_owned());
        let mut names: Vec<String> = objects.filter_map(name).collect();
        names.sort();
        names
    }

    /// The number of times that the branch was moved.
    pub(super) fn pushes(&self) -> usize {
        self.deployer.manifests().reflog().len()
    }

    /// The service's answer to a request with that body, and its status.
    pub(super) async fn asks(&self, path: &str, body: Json) -> (u16, Json) {
        let url = format!("{}/api/v1{path}", self.deployer.url());
        let answer = client().request(Method::POST, url).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// The same for something that only reads.
    pub(super) async fn reads(&self, path: &str) -> Json {
        let url = format!("{}/api/v1{path}", self.deployer.url());
        client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// The page that a browser gets.
    pub(super) async fn page(&self, path: &str) -> String {
        let url = format!("{}{path}", self.deployer.url());
        let answer = client().get(url).header("accept", "text/html").send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    }

    /// A person confirms an act on its page.
    pub(super) async fn confirms(&self, path: &str, reason: &str) {
        let page = self.page(path).await;
        let field = |name: &str| {
            let begin = format!("name=\"{name}\" value=\"");
            let (_, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no form in {page}"));
            rest.split_once('"').unwrap().0.to_owned()
        };
        let (token, key) = (field("form_token"), field("form_key"));
        let url = self.deployer.url();
        let form = client().post(format!("{url}{path}")).header("origin", url);
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        let body = format!("form_token={token}&form_key={key}&reason={}", reason.replace(' ', "+"));
        let answer = form.body(body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path} leads to its result");
    }

    /// A person rolls the fleet back, to a deployment or to the one before; the record.
    pub(super) async fn rolls_back(&self, to: Option<&Deployment>) -> Deployment {
        self.deployer.clock.advance(Duration::from_secs(1));
        let body = json!({"reason": "checkout fails", "to": to.map(|one| one.id.to_string())});
        let (status, answer) = self.asks("/apps/prod/devx/shop/rollback", body).await;
        assert_eq!(status, 202, "{answer}");
        self.deployer.works().await;
        let newest = self.deployer.deployments().await.pop().unwrap();
        assert!(newest.rollback.is_some(), "{newest:#?}");
        newest
    }
}
