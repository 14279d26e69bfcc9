//! The impact of other templates, app by app and object by object.
//!
//! The same WAMLs are planned with both sets of templates, and the rendered files are compared.

use std::sync::Arc;

use serde::Serialize;

use crate::manifests::diff::{changes, objects};
use crate::model::facts::Facts;
use crate::model::id::TargetName;
use crate::model::release::Release;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::{Input, plan};
use crate::templates::engine;
use crate::templates::set::TemplateSet;
use crate::waml::Waml;

pub use crate::manifests::diff::Change;
pub use crate::manifests::diff::ChangeKind;

/// A WAML for one of its targets.
#[derive(Debug, Clone)]
pub struct Case {
    /// The source of the WAML, for people: a file, or a repository and commit.
    pub source: String,
    /// The WAML.
    pub waml: Arc<Waml>,
    /// One of its targets.
    pub target: TargetName,
    /// The release that is, or would be, deployed.
    pub release: Release,
}

/// The impact on one app on one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Impact {
    /// `namespace/slug`
    pub app: String,
    /// The target.
    pub target: String,
    /// The source of the WAML.
    pub source: String,
    /// The verdict.
    pub verdict: ImpactVerdict,
    /// The objects that would not be the same, in order.
    pub objects: Vec<Change>,
    /// The workloads whose pods would be replaced: `Deployment my-app`.
    pub restarts: Vec<String>,
    /// The violations before or after; warnings are left out.
    pub violations: Vec<Violation>,
}

/// The verdict about an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImpactVerdict {
    /// The app could be deployed, and could no longer be.
    Refused,
    /// The objects of the app would change.
    Changed,
    /// The app could not be deployed, and could be now.
    Repaired,
    /// The app cannot be deployed either way.
    StillRefused,
    /// No byte would change.
    Unchanged,
}

impl ImpactVerdict {
    /// Names the verdict in a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Changed => "changed",
            Self::Repaired => "repaired",
            Self::StillRefused => "still refused",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Finds what each app would see of the change; the worst first, then by name.
pub fn compare(
    cases: &[Case],
    before: &Arc<TemplateSet>,
    after: &Arc<TemplateSet>,
    facts: &Facts,
) -> Vec<Impact> {
    let mut impacts: Vec<Impact> =
        cases.iter().map(|case| compare_case(case, before, after, facts)).collect();
    impacts.sort_by(|a, b| {
        (a.verdict, &a.app, &a.target, &a.source).cmp(&(b.verdict, &b.app, &b.target, &b.source))
    });
    impacts
}

fn compare_case(
    case: &Case,
    before: &Arc<TemplateSet>,
    after: &Arc<TemplateSet>,
    facts: &Facts,
) -> Impact {
    let planned = |templates: &Arc<TemplateSet>| {
        let input = Input {
            waml: Arc::clone(&case.waml),
            target: case.target.clone(),
            fleet: None,
            release: case.release.clone(),
            templates: Arc::clone(templates),
        };
        plan(&input, facts)
    };
    let (verdict, objects, restarts, violations) = match (planned(before), planned(after)) {
        (Ok(before), Ok(after)) => {
            let (objects, restarts) = compare_renderings(&before, &after);
            let is_unchanged = objects.is_empty();
            let verdict =
                if is_unchanged { ImpactVerdict::Unchanged } else { ImpactVerdict::Changed };
            (verdict, objects, restarts, Vec::new())
        }
        (Ok(_), Err(rejection)) => (ImpactVerdict::Refused, vec![], vec![], errors(rejection)),
        (Err(rejection), Ok(_)) => (ImpactVerdict::Repaired, vec![], vec![], errors(rejection)),
        (Err(_), Err(rejection)) => {
            (ImpactVerdict::StillRefused, vec![], vec![], errors(rejection))
        }
    };
    Impact {
        app: case.waml.app.to_string(),
        target: case.target.to_string(),
        source: case.source.clone(),
        verdict,
        objects,
        restarts,
        violations,
    }
}

/// The number of lines around a difference.
const CONTEXT: usize = 2;

/// Compares two renderings; the rendered files of before can be read back.
fn compare_renderings(
    before: &RenderedManifests,
    after: &RenderedManifests,
) -> (Vec<Change>, Vec<String>) {
    let objects_of = |rendered: &RenderedManifests| objects(&rendered.files).unwrap_or_default();
    changes(&objects_of(before), &objects_of(after), CONTEXT)
}

fn errors(rejection: Rejection) -> Vec<Violation> {
    let violations = rejection.violations.into_iter().map(engine::for_operators);
    violations.filter(Violation::is_error).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::target::Clusters;
    use crate::model::template::{TemplateFile, TemplateSources};

    const WAML: &str = "schema: \"2\"\nname: S\nslug: shop\nowner: a@example.com\nnamespace: devx\n\
                        template: t\ndeploy:\n  dev:\n    scaling: {replicas: 2}\n";
    const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ app.slug }}\n\
                              spec:\n  replicas: {{ scaling.replicas }}\n  selector: {matchLabels: {a: b}}\n\
                              \x20 template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: a, image: a}]}\n";

    fn templates(files: &[(&str, &str)]) -> Arc<TemplateSet> {
        let file = |(path, text): &(&str, &str)| TemplateFile {
            path: format!("t/{path}"),
            text: (*text).to_owned(),
        };
        let files = files.iter().chain(&[("defaults.yaml", "")]).map(file).collect();
        Arc::new(TemplateSet::compile(&TemplateSources { files, ..Default::default() }).unwrap())
    }

    fn deployment(text: &str) -> Arc<TemplateSet> {
        templates(&[("latest/deployment.yaml.tmpl", text)])
    }

    fn impact_of(before: &Arc<TemplateSet>, after: &Arc<TemplateSet>) -> Impact {
        let waml = Arc::new(Waml::parse("shop.yaml", WAML.as_bytes()).unwrap());
        let case = Case {
            source: "shop.yaml".to_owned(),
            target: "dev".parse().unwrap(),
            release: Release {
                repository: "acme/shop".parse().unwrap(),
                app: None,
                commit: "a".repeat(40).parse().unwrap(),
                tag: "1".parse().unwrap(),
            },
            waml,
        };
        let facts = Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any());
        compare(&[case], before, after, &facts).remove(0)
    }

    #[test]
    fn the_same_objects_are_no_change_however_they_are_written() {
        let before = deployment(DEPLOYMENT);
        let after = deployment(
            &DEPLOYMENT.replace("{labels: {a: b}}", "\n      labels:\n        a: b # one"),
        );
        let impact = impact_of(&before, &after);
        assert_eq!((impact.verdict, impact.objects.len()), (ImpactVerdict::Unchanged, 0));
    }

    #[test]
    fn a_change_of_the_workload_alone_restarts_no_pod() {
        let after =
            deployment(&DEPLOYMENT.replace("replicas: {{", "paused: false\n  replicas: {{"));
        let impact = impact_of(&deployment(DEPLOYMENT), &after);
        assert_eq!(impact.verdict, ImpactVerdict::Changed);
        assert_eq!(impact.restarts, [""; 0]);
        let [change] = &impact.objects[..] else { panic!("one") };
        assert_eq!((change.kind.as_str(), change.name.as_str()), ("Deployment", "shop"));
        assert!(change.diff.contains("\n+  paused: false\n"), "{}", change.diff);
        assert!(!change.diff.contains("digest"), "{}", change.diff);
    }

    #[test]
    fn a_change_of_the_pods_restarts_them() {
        let after = deployment(&DEPLOYMENT.replace("image: a", "image: b"));
        let impact = impact_of(&deployment(DEPLOYMENT), &after);
        assert_eq!(impact.restarts, ["Deployment shop"]);
    }

    #[test]
    fn objects_come_and_go() {
        let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ app.slug }}}\n";
        let with_both = templates(&[
            ("latest/configmap.yaml.tmpl", other),
            ("latest/deployment.yaml.tmpl", DEPLOYMENT),
        ]);
        let impact = impact_of(&deployment(DEPLOYMENT), &with_both);
        let kinds: Vec<_> = impact.objects.iter().map(|c| (c.kind.as_str(), c.how)).collect();
        assert_eq!(kinds, [("ConfigMap", ChangeKind::Added)]);
        let impact = impact_of(&with_both, &deployment(DEPLOYMENT));
        assert_eq!(impact.objects[0].how, ChangeKind::Removed);
        assert!(impact.restarts.is_empty());
    }

    #[test]
    fn what_is_refused_is_told_with_its_violations() {
        let refused_templates =
            deployment(&DEPLOYMENT.replace("scaling.replicas", "scaling.nothing"));
        let impact = impact_of(&deployment(DEPLOYMENT), &refused_templates);
        assert_eq!((impact.verdict, impact.violations.len()), (ImpactVerdict::Refused, 1));
        assert_eq!(
            impact_of(&refused_templates, &deployment(DEPLOYMENT)).verdict,
            ImpactVerdict::Repaired
        );
        assert_eq!(
            impact_of(&refused_templates, &refused_templates).verdict,
            ImpactVerdict::StillRefused
        );
    }
}
