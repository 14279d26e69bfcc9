//! The program when there is everything that it can show: of an app, of what was done, and of what is
//! configured. The operator's token may everything.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::shop::{FOLDER, TARGET, ask_as, asks_with, deploys_with, tokens};
use super::world::Answer;
use crate::harness::argocd::{self, ArgoCd};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Fault;
use crate::harness::registry::{Entry, Registry};

pub(super) struct Full {
    pub(super) deployer: Deployer,
    /// The deployments of the shop: `v1`, `v2`, and `v3`, which replaced an edit by hand.
    pub(super) ids: Vec<String>,
    /// The rollback from `v3` to `v2`.
    pub(super) rollback: String,
    /// The deployment that waits.
    pub(super) waits: String,
    argocd: ArgoCd,
    registry: Registry,
}

impl Full {
    pub(super) async fn start() -> Self {
        let (argocd, registry) =
            (ArgoCd::start().await, Registry::start(Entry::TokenForAll, &[]).await);
        let deployer = configured(&argocd, &registry).await;
        let waits = String::new();
        let mut full =
            Self { deployer, ids: Vec::new(), rollback: waits.clone(), waits, argocd, registry };
        full.lives().await;
        full
    }

    async fn lives(&mut self) {
        let shop = self.waml("shop");
        for tag in ["v1", "v2"] {
            self.ids.push(deploys_with(&self.deployer, tag, &shop).await);
        }
        let (bare, file) = (self.deployer.manifests(), format!("{FOLDER}/latest/deployment.yaml"));
        let edited = bare.files()[&file].replace("apiVersion:", "# by hand\napiVersion:");
        bare.somebody_writes(&file, &edited);
        self.ids.push(deploys_with(&self.deployer, "v3", &shop).await);

        self.argocd.will([413]);
        let back = json!({"reason": "v3 loses orders"});
        let back = self.ask("/api/v1/apps/prod-cluster-1/devx/shop/rollback", &back).await;
        self.rollback = back.json()["deployment"]["id"].as_str().unwrap().into();
        self.deployer.settle().await;
        self.cart().await;
        for scope in [
            json!({"everything": true}),
            json!({"target": TARGET}),
            json!({"owner": "squad@example.com"}),
            json!({"target": TARGET, "app": "devx/shop"}),
        ] {
            self.deployer.clock.advance(Duration::from_secs(1));
            let lock = json!({"scope": scope, "reason": "the books are closed", "for": "2d"});
            assert_eq!(self.ask("/api/v1/locks", &lock).await.status, 201);
        }
        let waits = asks_with(&self.deployer, "v4", &shop).await;
        self.waits = self.deployer.deployment(waits).await.id.to_string();
    }

    /// An app that keeps data, and whose newest deployment has failed; some of the first one's
    /// statuses came too late to be sent, and one is not taken.
    async fn cart(&self) {
        let Self { deployer, .. } = self;
        let cart = deployer.github.repository("example/cart");
        for (tag, text) in [
            ("v1", self.waml("cart")),
            ("v2", self.waml("cart").replace("number: 8000", "number: 80000")),
        ] {
            cart.commit(&text);
            deployer.clock.advance(Duration::from_secs(1));
            if tag == "v1" {
                deployer.github.fails(1, "POST deployments statuses", Fault::Wait(429, 600));
                cart.deploys(TARGET, tag).await;
                deployer.stepped().step().await.unwrap();
            } else {
                deployer.github.fails(1, "POST deployments statuses", Fault::Unprocessable);
                cart.deploys(TARGET, tag).await;
            }
            deployer.settle().await;
        }
        let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: orders\n  \
                     annotations: {argocd.argoproj.io/sync-options: 'Prune=false,Delete=false'}\n";
        let file = "manifests/prod-cluster-1/devx/cart/latest/claim.yaml";
        deployer.manifests().somebody_writes(file, claim);
    }

    /// The registry loses what is live, and that is not remembered any more.
    pub(super) fn loses_image(&self) {
        self.registry.lock().built.remove("example/shop:v2").unwrap();
        self.deployer.clock.advance(Duration::from_hours(1));
    }

    /// The WAML of an app with something that is without effect, its image in the registry.
    pub(super) fn waml(&self, app: &str) -> String {
        let host = self.registry.host();
        for (n, tag) in ["v1", "v2", "v3", "v4"].iter().enumerate() {
            let created = format!("2026-11-{}T10:00:00Z", 11 + n);
            let commit = "649008fb".repeat(5);
            self.registry.lock().build(&format!("example/{app}:{tag}"), &created, &commit);
        }
        let image = format!("image: {{registry: '{host}', repository: example/{app}}}");
        let more = format!("  prod-cluster-1:\n    {image}\n");
        let overridden = "  slo: {requestClass: low}\n  service:";
        waml(app).replace("  service:", overridden).replace("  prod-cluster-1:\n", &more)
    }

    /// The answer to the operator.
    pub(super) async fn ask(&self, path: &str, body: &Json) -> Answer {
        ask_as(&self.deployer, "operator", path, body).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(path, &Json::Null).await
    }

    /// Whatever waits comes to its end; what Argo CD and GitHub did not take stays.
    pub(super) async fn settled(self) {
        self.deployer.settle().await;
        let depth = self.deployer.stepped().store().depth().await.unwrap();
        assert_eq!((depth.queued, depth.running, depth.unsent, depth.parked), (0, 0, 0, 2));
        self.deployer.manifests().assert_sound();
        self.deployer.github.settled();
        self.argocd.settled();
    }
}

async fn configured(argocd: &ArgoCd, registry: &Registry) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    deployer.configure(|config| {
        let login = "    login: {client_id: Iv1.of-the-login}\n    webhook_secret";
        let config = config.replace("    webhook_secret", login);
        format!(
            "{config}registries: [{{host: '{}', insecure: true}}]\nclusters:\n\
             - {{name: dev, environment: development, domain: dev.example.com}}\n\
             - name: {TARGET}\n  environment: production\n  domain: example.com\n  \
             policies: {{unknown: warn}}\n  \
             argocd: {{webhook: {{url: \"{}\", secret: {{env: ARGOCD}}}}}}\n",
            registry.host(),
            argocd.url()
        )
    });
    deployer.variable("ARGOCD", argocd::SECRET);
    tokens(&mut deployer, &[("operator", "scope: admin")]);
    deployer.starts().await;
    deployer
}
