//! Tests that the manifests are right for the Kubernetes that the cluster has.

use std::sync::Arc;

use the_deployer::model::id::TargetName;
use the_deployer::model::kubernetes::KubernetesVersion;
use the_deployer::model::platform::Platform;
use the_deployer::model::target::{Clusters, Target};
use the_deployer::model::template::{TemplateFile, TemplateSources};
use the_deployer::templates::set::TemplateSet;

use super::{planned_for, templates};

/// One cluster of that version of Kubernetes.
pub(super) fn one_cluster(
    name: &str,
    version: Option<KubernetesVersion>,
    platform: Platform,
) -> Clusters {
    let name = TargetName::parse(name).unwrap();
    let target = Target { version, platform, ..Target::unconfigured(name) };
    Clusters::from_targets([target])
}

/// Clusters on which the built-in templates render everything that they can.
fn platforms() -> [Platform; 3] {
    let gcp = r#""provider": "gcp", "gcp": {"project": "acme-prod", "region": "europe-west3", "network": "main"}"#;
    let offers = [
        r#"{"secrets": {"delivery": "vault-agent"}, "cloud": {GCP, "database": "cloudsql",
            "redis_exporter": "oliver006/redis_exporter:v1.80.0"}}"#,
        r#"{"ingress": {"kind": "kubernetes"}, "network_policy": {"enabled": true}, "secrets": {"delivery":
            "vault-secrets-operator"}, "cloud": {GCP, "database": "cloudsql", "redis": "memorystore"}}"#,
        r#"{"ingress": {"kind": "gateway"}, "secrets": {"delivery": "external-secrets"},
            "monitoring": {"http": "istio"}, "cloud": {GCP, "database": "cloudsql"}}"#,
    ];
    offers.map(|text| serde_json::from_str(&text.replace("GCP", gcp)).unwrap())
}

#[test]
fn the_built_in_templates_are_right_for_every_version() {
    let sources = the_deployer::templates::sources::built_in();
    let samples: Vec<&TemplateFile> =
        sources.files.iter().filter(|file| file.path.contains("/samples/")).collect();
    assert!(samples.len() >= 5, "{samples:?}");
    let mut planned = 0;
    for (sample, platform) in samples.iter().flat_map(|one| platforms().map(|p| (*one, p))) {
        let waml = the_deployer::waml::Waml::parse("w", sample.text.as_bytes()).unwrap();
        let target = waml.targets()[0].as_str().to_owned();
        let plan = |version| {
            let clusters = one_cluster(&target, version, platform.clone());
            planned_for(sample.text.as_bytes(), Some(&target), clusters, templates())
        };
        // Some samples ask for what such a cluster does not offer: another rule says that in every version.
        let rules_of = |version: Option<KubernetesVersion>| match plan(version) {
            Ok(rendered) => {
                planned += 1;
                rendered.warnings
            }
            Err(rejection) => rejection.violations,
        };
        for violation in KubernetesVersion::all_known().map(Some).flat_map(rules_of) {
            assert_ne!(violation.rule, "kubernetes", "{}: {violation}", sample.path);
        }
    }
    assert!(planned >= 13 * samples.len(), "only {planned} plans rendered anything");
}

/// A template of a company that uses what only some versions of Kubernetes have.
const POD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ app.slug }}
spec:
  selector: {matchLabels: {app: {{ app.slug }}}}
  template:
    metadata: {labels: {app: {{ app.slug }}}}
    spec:
      CONDITION
      hostnameOverride: {{ app.slug }}
      END
      containers: [{name: app, image: {{ image.reference }}}]
";

fn own_templates(condition: &str, end: &str) -> Arc<TemplateSet> {
    let text = POD.replace("CONDITION", condition).replace("END", end);
    let file =
        |path: &str, text: &str| TemplateFile { path: path.to_owned(), text: text.to_owned() };
    let files = vec![
        file("backend-default/defaults.yaml", ""),
        file("backend-default/latest/deployment.yaml.tmpl", &text),
    ];
    let sources = TemplateSources { files, ..TemplateSources::default() };
    Arc::new(TemplateSet::compile(&sources).unwrap_or_else(|rejection| panic!("{rejection:#?}")))
}

const WAML: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy: {t: {}}\n";

fn rendered_in(version: &str, templates: Arc<TemplateSet>) -> Result<String, Vec<String>> {
    let clusters = one_cluster("t", KubernetesVersion::parse(version), Platform::default());
    match planned_for(WAML.as_bytes(), None, clusters, templates) {
        Ok(rendered) => Ok(String::from_utf8(rendered.files[0].bytes.clone()).unwrap()),
        Err(rejection) => Err(rejection.violations.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn a_field_that_a_cluster_does_not_have_is_refused_there_and_a_template_can_leave_it_out() {
    let always = own_templates("", "");
    let newest = rendered_in("1.34", always.clone()).unwrap();
    assert!(newest.contains("hostnameOverride: a"), "{newest}");
    assert_eq!(
        rendered_in("1.29", always),
        Err(vec![
            "Deployment `a`: `spec.template.spec` has no field `hostnameOverride` in Kubernetes 1.29, the version of \
             `t`: it is there since 1.34 (template backend-default/latest/deployment.yaml.tmpl) [kubernetes]"
                .to_owned()
        ])
    );
    let asking = own_templates("{% if target.kubernetes.minor >= 34 %}", "{% endif %}");
    assert_eq!(rendered_in("1.34", asking.clone()).unwrap(), newest);
    let older = rendered_in("1.29", asking).unwrap();
    assert!(!older.contains("hostnameOverride"), "{older}");
}
