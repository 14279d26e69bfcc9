//! Tests what commands that plan on the developer's machine know of the targets.

use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::process::Home;

const TARGET: &str = "prod-cluster-1";

/// A cluster with routes as Kubernetes has them and rights in Google's cloud, which the built-in default has not.
const CLUSTERS: &str = "clusters:\n\
    - name: prod-cluster-1\n  environment: production\n  domain: apps.example.com\n  \
    server: \"https://10.0.0.1:6443\"\n  platform:\n    ingress: {kind: kubernetes}\n    \
    cloud: {provider: gcp, gcp: {project: acme-prod, region: europe-west3}}\n";

/// The example with a right that only a cloud can give.
fn with_rights() -> String {
    let rights = "  prod-cluster-1:\n    iam: {roles: [roles/pubsub.publisher]}\n";
    let text = waml("shop").replace("  prod-cluster-1:\n", rights);
    // Which classes of Ingress are measured is another matter.
    text.replace("    slo: {requestClass: critical}\n", "")
}

/// The example with a database, which only some clusters have.
fn with_database() -> String {
    let database = "  prod-cluster-1:\n    database: {engine: postgres, version: \"16\", \
                    tier: db-custom-1-3840, storage: 10Gi}\n";
    let text = waml("shop").replace("  prod-cluster-1:\n", database);
    text.replace("    slo: {requestClass: critical}\n", "")
}

fn manifests(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> = files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn what_is_rendered_here_is_what_the_service_writes_and_what_it_refuses_is_refused() {
    let home = Home::configured(CLUSTERS);
    home.commit("example/shop", &with_rights());
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["validate"]).await.ended(0, &["is valid for prod-cluster-1"]);
    developer.runs(&server, &["deploy", "1.0", TARGET]).await.ended(0, &["succeeded"]);
    let render = ["render", "-t", TARGET, "--tag", "1.0", "--out"];
    developer.runs(&server, &[&render[..], &["here"]].concat()).await.ended(0, &["ingress.yaml"]);
    let rendered = manifests(&developer.work().join("here"));
    let latest = format!("manifests/{TARGET}/devx/shop/latest");
    assert!(rendered.len() > 5, "{rendered:?}");
    let written = home.manifests().files();
    for (name, bytes) in &rendered {
        let theirs = &written[&format!("{latest}/{name}")];
        assert_eq!(&String::from_utf8_lossy(bytes), theirs, "{name}");
    }

    // What the service said last counts while it does not answer.
    let nowhere = process.address().to_owned();
    drop(process);
    let gone = [("BART_SERVER", nowhere.as_str())];
    let again = developer.runs(&gone, &[&render[..], &["again"]].concat()).await;
    let remembered = "the plan uses what the targets offered when the service answered last";
    again.ended(0, &["cannot reach ", remembered]);
    assert_eq!(manifests(&developer.work().join("again")), rendered);

    // The same from a file, on a machine that never reached it.
    let export =
        super::the_deployer(&home.path(""), &["platform", "export", "--config", "config.yaml"]);
    assert!(export.status.success(), "{}", super::said(&export));
    assert!(!super::said(&export).contains("10.0.0.1"), "{}", super::said(&export));
    std::fs::write(developer.work().join("platform.json"), &export.stdout).unwrap();
    let from_file = [&render[..], &["file", "--platform", "platform.json"]].concat();
    developer.runs(&[], &from_file).await.ended(0, &["ingress.yaml"]);
    assert_eq!(manifests(&developer.work().join("file")), rendered);
    let wrong = developer.runs(&[], &["validate", "--platform", ".weave.yaml"]).await;
    wrong.ended(2, &["does not say what targets offer", "the-deployer platform export"]);
}

#[tokio::test]
async fn what_the_service_said_last_refuses_nothing_and_is_said_before_what_comes_of_it() {
    let home = Home::configured(CLUSTERS);
    home.commit("example/shop", &with_database());
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let address = process.address().to_owned();
    let server = [("BART_SERVER", address.as_str())];
    developer.runs(&server, &["validate", "-t", TARGET]).await.ended(1, &["error[database]"]);
    drop(process);
    // Neither a target that came since nor anything that a target may offer by now is refused.
    let file = developer.work().join(".weave.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("deploy:\n", "deploy:\n  prod-cluster-2: {}\n");
    std::fs::write(&file, &text).unwrap();
    let said = developer.runs(&server, &["validate"]).await;
    let valid = "is valid for prod-cluster-2, prod-cluster-1";
    said.ended(0, &["cannot reach ", "warning[database]", valid]);
    // The note comes first also where something is wrong for sure.
    std::fs::write(&file, text.replace("minReplicas: 3", "minReplicas: 30")).unwrap();
    let said = developer.runs(&server, &["validate"]).await;
    said.ended(1, &["error[autoscaling]"]);
    assert!(said.err.find("cannot reach ") < said.err.find("error[autoscaling]"), "{said:?}");
    let data =
        developer.runs(&server, &["render", "-t", "prod-cluster-2", "--tag", "1", "-o", "json"]);
    assert_eq!(data.await.json()["platform"]["from"], "cache");
}

#[tokio::test]
async fn a_service_on_this_machine_that_is_named_is_asked() {
    let home = Home::embedded();
    home.commit("example/shop", &waml("shop"));
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let here = "http://127.0.0.1:8080";
    let named = developer.runs(&[], &["validate", "--server", here]).await;
    let by_variable = developer.runs(&[("BART_SERVER", here)], &["validate"]).await;
    for said in [named, by_variable] {
        assert!(!said.err.contains("no service is named"), "{said:?}");
    }
}

#[tokio::test]
async fn beside_a_bad_slug_a_cluster_is_judged_as_it_is() {
    let region = "region: europe-west3";
    let cloud = format!("{region}, network: n}}, database: cloudsql");
    let home = Home::configured(&CLUSTERS.replace(&format!("{region}}}"), &cloud));
    home.commit("example/shop", &with_database().replace("slug: shop", "slug: My_Shop"));
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let export =
        super::the_deployer(&home.path(""), &["platform", "export", "--config", "config.yaml"]);
    std::fs::write(developer.work().join("platform.json"), &export.stdout).unwrap();
    let said = developer.runs(&[], &["validate", "--platform", "platform.json"]).await;
    said.ended(1, &["error[schema]"]);
    assert!(!said.err.contains("[database]"), "{said:?}");
    // Without the file it is not known whether the target has databases.
    let said = developer.runs(&[], &["validate"]).await;
    said.ended(1, &["error[schema]", "warning[database]"]);
}

#[tokio::test]
async fn what_is_not_known_refuses_nothing_and_is_said() {
    let home = Home::embedded();
    let database = "  prod-cluster-1:\n    database: {engine: postgres, version: \"16\", \
                    tier: db-custom-1-3840, storage: 10Gi}\n";
    home.commit("example/shop", &waml("shop").replace("  prod-cluster-1:\n", database));
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let unknown = "what the targets offer is unknown (no service is named)";
    let said = developer.runs(&[], &["validate"]).await;
    said.ended(0, &["warning[database]", "is valid for prod-cluster-1", unknown]);
    let data = developer.runs(&[], &["validate", "-o", "json"]).await.ended(0, &[]).json();
    assert_eq!((&data["valid"], &data["platform"]["from"]), (&true.into(), &"unknown".into()));
    let render = ["render", "-t", TARGET, "--tag", "1.0"];
    developer.runs(&[], &render).await.ended(2, &["what prod-cluster-1 offers is unknown"]);
    // What every cluster refuses is refused all the same.
    let text = std::fs::read_to_string(developer.work().join(".weave.yaml")).unwrap();
    let wrong = text.replace("minReplicas: 3", "minReplicas: 30");
    std::fs::write(developer.work().join(".weave.yaml"), wrong).unwrap();
    developer.runs(&[], &["validate"]).await.ended(1, &["error[autoscaling]", "warning[database]"]);
    // The service has the last word, and here it refuses.
    let process = home.start().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["validate"]).await.ended(1, &["error[database]"]);
}

#[tokio::test]
async fn the_image_is_named_by_the_repository_or_not_at_all() {
    let home = Home::embedded();
    home.commit("example/shop", &waml("shop"));
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let render = ["render", "-t", TARGET, "--tag", "1.0"];
    developer.runs(&[], &render).await.ended(0, &["image: ghcr.io/example/shop:1.0"]);
    let folder = super::example();
    let nobodys = super::bart(folder.path(), &[&render[..], &["--repository", "acme/x"]].concat());
    assert!(
        super::said(&nobodys).contains("image: ghcr.io/acme/x:1.0"),
        "{}",
        super::said(&nobodys)
    );
    std::fs::remove_dir_all(folder.path().join(".git")).unwrap();
    let unknown = super::bart(folder.path(), &render);
    let said = super::said(&unknown);
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    assert!(said.contains("which repository is this?") && !said.contains("local/"), "{said}");
}

/// A template of a company that uses what Kubernetes has since 1.34.
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ app.slug }}\nspec:\n  \
    selector: {matchLabels: {app: {{ app.slug }}}}\n  template:\n    metadata: {labels: {app: {{ app.slug }}}}\n    \
    spec:\n      hostnameOverride: {{ app.slug }}\n      containers: [{name: app, image: {{ image.reference }}}]\n";
const PLAIN: &str = "schema: \"2\"\nname: Shop\nslug: shop\nowner: a@b.c\nnamespace: devx\ndeploy: {prod-cluster-1: {}}\n";

#[tokio::test]
async fn objects_are_judged_by_the_clusters_version_of_kubernetes_here_as_by_the_service() {
    let clusters = format!(
        "{}  version: \"1.29\"\ntemplates: {{path: templates}}\n",
        CLUSTERS.split("  platform:").next().unwrap()
    );
    let home = Home::configured(&clusters);
    let folder = home.path("templates/apps/backend-default/latest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("deployment.yaml.tmpl"), DEPLOYMENT).unwrap();
    std::fs::write(folder.join("../defaults.yaml"), "").unwrap();
    home.commit("example/shop", PLAIN);
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let templates = home.path("templates");
    let validate = ["validate", "--templates", templates.to_str().unwrap()];
    let said = "has no field `hostnameOverride` in Kubernetes 1.29, the version of `prod-cluster-1`: it is there since 1.34";

    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &validate).await.ended(1, &["error[kubernetes]", said]);
    developer.runs(&server, &["deploy", "1.0", TARGET]).await.ended(1, &["kubernetes", said]);
    let export =
        super::the_deployer(&home.path(""), &["platform", "export", "--config", "config.yaml"]);
    assert!(super::said(&export).contains("\"version\": \"1.29\""), "{}", super::said(&export));
    std::fs::write(developer.work().join("platform.json"), &export.stdout).unwrap();
    let from_file = [&validate[..], &["--platform", "platform.json"]].concat();
    developer.runs(&[], &from_file).await.ended(1, &["error[kubernetes]", said]);
    // Of which cluster nothing is known, the newest may be one, and an older one too.
    developer.runs(&[], &validate).await.ended(0, &["is valid for prod-cluster-1"]);
    let gone = DEPLOYMENT
        .replace("hostnameOverride: {{ app.slug }}", "workloadRef: {name: a, podGroup: b}");
    std::fs::write(folder.join("deployment.yaml.tmpl"), gone).unwrap();
    developer.runs(&[], &validate).await.ended(0, &["warning[kubernetes]", "in 1.35 only"]);
    let never = DEPLOYMENT.replace("hostnameOverride", "hostnameOverrule");
    std::fs::write(folder.join("deployment.yaml.tmpl"), never).unwrap();
    developer.runs(&[], &validate).await.ended(1, &["error[kubernetes]", "`hostnameOverrule`"]);
}
