//! The lookups that the rules need.
//!
//! This reads the settings as far as they can be read: the rules have not run yet. An illegal value is not looked up,
//! because the facts are found under these names, and a rule refuses it anyway. Nothing else of the plan depends on
//! this.

use std::collections::BTreeMap;

use crate::model::facts::{FactRequests, SecretQuestion};
use crate::model::id::{AppKey, TargetName};
use crate::model::target::{Clusters, Target};
use crate::pipeline::default::Complete;
use crate::pipeline::{Input, default, merge, processes, validate};
use crate::templates::set::TemplateSet;
use crate::templates::view;
use crate::templates::view::ingress;
use crate::waml::Waml;
use crate::waml::node::{Node, Path};
use crate::waml::section::Section;
use crate::waml::section_processes::WEB;

/// Collects what to ask for one plan; `None` where so much of it is broken that it is refused
/// whatever the answers are: no such target, template or image, or no section that can be read.
pub fn collect_questions(input: &Input, clusters: &Clusters) -> Option<FactRequests> {
    let target = clusters.find(input.cluster())?;
    let section = read_section(&input.waml, &input.target, &input.templates)?;
    let app = &input.waml.app;
    let image = view::reference(section.image.as_ref(), &input.release);
    validate::is_image(&image, &input.release.tag).then(|| FactRequests {
        app: app.clone(),
        owner: Some(input.waml.owner.clone()).filter(|owner| !owner.is_empty()),
        release: input.release.clone(),
        automatic: false,
        actor: None,
        hosts: hosts(&section, &target),
        secrets: secrets(&section, app),
        image,
        other_images: validate::other_images(&section, &input.release)
            .map(|image| image.reference)
            .collect(),
        images_since: None,
        target,
    })
}

/// Reads the settings of a target with the template's defaults, as far as they can be read: for who needs only a part of
/// them, such as the names of secrets.
pub fn read_section(waml: &Waml, target: &TargetName, templates: &TemplateSet) -> Option<Section> {
    read_tree(complete_settings(waml, target, templates)?.tree)
}

/// Reads the settings of each process of a target with its name, in the same way: `web`, which is the app itself, then the
/// others.
pub fn read_processes(
    waml: &Waml,
    target: &TargetName,
    templates: &TemplateSet,
) -> Option<Vec<(String, Section)>> {
    let Complete { tree, processes: layers, .. } = complete_settings(waml, target, templates)?;
    let slug = waml.app.slug.as_str();
    let web = processes::with_web(&tree, &layers, slug).unwrap_or_else(|| tree.clone());
    let mut sections = vec![(WEB.to_owned(), read_tree(web)?)];
    for layer in layers.iter().filter(|layer| layer.name != WEB) {
        let settings = processes::settings_of(&tree, layer, slug);
        sections.push((layer.name.clone(), read_tree(settings)?));
    }
    Some(sections)
}

fn complete_settings<'a>(
    waml: &'a Waml,
    target: &TargetName,
    templates: &TemplateSet,
) -> Option<Complete<'a>> {
    let merged = merge::layers(waml, target).ok()?;
    let template = merged.choose_template(templates).ok()?;
    let mut complete = default::fill(merged, &template.defaults);
    complete.tree.drop_broken_elements();
    Some(complete)
}

fn read_tree(mut tree: Node) -> Option<Section> {
    tree.drop_broken_elements();
    Section::reader().read(&mut tree, &Path::root(), &mut Vec::new())
}

/// Lists each host once, in the order of the WAML.
fn hosts(section: &Section, target: &Target) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for ingress_entry in section.ingresses() {
        let host = ingress::host(ingress_entry, target);
        if validate::is_host(&host) && !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Collects what `secrets` and `env[].secret` name.
fn secrets(section: &Section, app: &AppKey) -> BTreeMap<String, SecretQuestion> {
    let secrets = view::secrets::collect_secrets(section, app).into_iter();
    let legal_secrets = secrets.filter(|secret| validate::is_secret(secret.name));
    legal_secrets
        .map(|secret| {
            let keys = secret.keys.into_iter().filter(|key| validate::is_secret_key(key));
            let keys = keys.map(str::to_owned).collect();
            (secret.name.to_owned(), SecretQuestion { keys, vault_path: secret.path })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{CommitSha, ImageTag, RepoName};
    use crate::model::release::Release;
    use crate::templates::set::TemplateSet;
    use crate::waml::Waml;

    fn collect_from_section(section: &str) -> Option<FactRequests> {
        let text = format!(
            "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n  t: {section}\n"
        );
        let input = Input {
            waml: Waml::parse(".weave.yaml", text.as_bytes()).ok()?.into(),
            target: TargetName::parse("t").unwrap(),
            fleet: None,
            release: Release {
                repository: RepoName::parse("O/A").unwrap(),
                app: None,
                commit: CommitSha::parse("0".repeat(40)).unwrap(),
                tag: ImageTag::parse("1").unwrap(),
            },
            templates: TemplateSet::compile(&crate::templates::sources::built_in()).unwrap().into(),
        };
        collect_questions(&input, &Clusters::any())
    }

    #[test]
    fn everything_that_a_rule_must_know_is_asked() {
        let questions = collect_from_section(
            "{ingress: [{hostPrefix: b}, {host: a.example.com}, {host: b.t.internal}], secrets: [{name: s, mountPath: /s}], env: [{name: A, secret: {name: s, key: k}}, {name: B, secret: {name: x, key: l}}]}",
        )
        .unwrap();
        assert_eq!(questions.hosts, ["b.t.internal", "a.example.com"]);
        assert_eq!(questions.image, "ghcr.io/o/a:1");
        assert_eq!(questions.owner.as_deref(), Some("a@b.c"));
        assert_eq!(questions.target.name.as_str(), "t");
        let secrets: Vec<String> = questions
            .secrets
            .iter()
            .map(|(name, q)| format!("{name} {:?} {}", q.keys, q.vault_path))
            .collect();
        assert_eq!(secrets, [r#"s {"k"} n/a/s"#, r#"x {"l"} n/a/x"#]);
    }

    #[test]
    fn nothing_is_looked_up_under_a_name_that_is_not_legal() {
        let questions = collect_from_section(
            "{ingress: [{host: '../x'}, {host: a.b}], secrets: [{name: ../../y}, {name: ok}], env: [{name: A, secret: {name: ok, key: ../k}}, 7]}",
        )
        .unwrap();
        assert_eq!(questions.hosts, ["a.b"]);
        assert_eq!(questions.secrets.keys().collect::<Vec<_>>(), ["ok"]);
        assert!(questions.secrets["ok"].keys.is_empty());
    }

    #[test]
    fn each_process_has_the_apps_settings_with_its_own_over_them() {
        let text = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n  t:\n    args: [all]\n    env: [{name: A, value: '1'}, {name: B, value: '2'}]\n    processes: {worker: {args: [work]}, web: {env: [{name: B, value: '3'}]}}\n";
        let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
        let templates = TemplateSet::compile(&crate::templates::sources::built_in()).unwrap();
        let all = read_processes(&waml, &TargetName::parse("t").unwrap(), &templates).unwrap();
        let shown: Vec<String> = all
            .iter()
            .map(|(name, section)| {
                let values: Vec<_> =
                    section.env.iter().flatten().filter_map(|one| one.value.as_deref()).collect();
                format!(
                    "{name} {:?} {}",
                    section.args.as_deref().unwrap_or_default(),
                    values.concat()
                )
            })
            .collect();
        assert_eq!(shown, [r#"web ["all"] 13"#, r#"worker ["work"] 12"#]);
    }

    #[test]
    fn what_is_refused_anyway_asks_nothing() {
        for section in
            ["{template: nope}", "{image: {repository: 'a b'}}", "{image: {registry: 'x/../'}}"]
        {
            assert_eq!(collect_from_section(section), None, "{section}");
        }
    }
}
