//! A set of templates, compiled: parsed, with its defaults, and checked as far as possible without a WAML. A set is
//! accepted whole or not at all.
//!
//! ```text
//! apps/<template>/defaults.yaml
//! apps/<template>/parameters.yaml              what its WAMLs can set beyond the keys of every WAML
//! apps/<template>/<version>/<file>.yaml.tmpl
//! apps/<template>/samples/<file>.yaml          WAMLs to test it with
//! components/<file>.yaml.tmpl                  pieces that all templates share
//! policies/<file>.yaml                         the operator's own rules
//! ```

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::model::id::{CommitSha, TemplateName, TemplateVersion};
use crate::model::template::{TemplateFile, TemplateSources};
use crate::model::violation::{Position, Rejection, Violation};
use crate::policy::PolicySet;
use crate::templates::engine;
use crate::templates::parameters::{self, TemplateParameters};
use crate::waml::duplicates::{ElementIdentity, ElementPlace};
use crate::waml::node::{Map, Node, Path, Value};
use crate::waml::section::{Section, always_exists};
use crate::waml::suggest;
use crate::waml::yaml::{self, Budget};

/// A checked set of templates.
#[derive(Debug)]
pub struct TemplateSet {
    /// The origin of the templates, for people.
    pub origin: String,
    /// The commit, where they come from a repository.
    pub commit: Option<CommitSha>,
    /// The operator's own rules.
    pub policies: Arc<PolicySet>,
    by_id: BTreeMap<(TemplateName, TemplateVersion), Arc<Template>>,
}

/// One version of one template.
#[derive(Debug)]
pub struct Template {
    /// The name of its folder.
    pub name: TemplateName,
    /// The name of its version folder.
    pub version: TemplateVersion,
    /// The commit of the templates, where they come from a repository.
    pub commit: Option<CommitSha>,
    /// `defaults.yaml`, and the defaults of `parameters.yaml` under `parameters`; a map.
    pub defaults: Node,
    /// `parameters.yaml`; without the file there are none.
    pub parameters: Arc<TemplateParameters>,
    /// The names of its files in `engine`, sorted.
    pub(crate) files: Vec<String>,
    pub(crate) engine: engine::TemplateEngine,
    /// The operator's own rules, the same for all templates of the set.
    pub(crate) policies: Arc<PolicySet>,
    uses: HashSet<String>,
}

impl Template {
    /// Writes the name with the version: `backend-default@latest`
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Checks that a file of the template looks at that part of the settings.
    pub fn uses(&self, part: &str) -> bool {
        self.uses.contains(part)
    }
}

impl TemplateSet {
    /// Parses and checks a set of templates.
    ///
    /// # Errors
    /// Every violation, at its place in a template or a `defaults.yaml`.
    pub fn compile(sources: &TemplateSources) -> Result<Self, Rejection> {
        let mut violations: Vec<Violation> = find_unknown_files(&sources.files).collect();
        violations.extend(odd_components(&sources.components));
        let policies = PolicySet::load(&sources.policies).unwrap_or_else(|wrong| {
            violations.extend(wrong);
            PolicySet::default()
        });
        let policies = Arc::new(policies);
        let mut by_id = BTreeMap::new();
        for (name, version, files) in versions(&sources.files) {
            let parameters = Arc::new(parameters(&sources.files, &name, &mut violations));
            let mut defaults = defaults(&sources.files, &name, &mut violations);
            if let (Value::Map(map), Some(entry)) =
                (&mut defaults.value, parameters.default_entry())
            {
                map.insert(parameters::PART.to_owned(), entry);
            }
            let own_files = sources.files.iter().filter(|file| files.contains(&file.path));
            let engine = match engine::load(&sources.components, own_files) {
                Ok(engine) => engine,
                Err(violations_found) => {
                    // A mistake in a component is one, however many templates share it.
                    for violation in violations_found {
                        if !violations.contains(&violation) {
                            violations.push(violation);
                        }
                    }
                    continue;
                }
            };
            let uses = engine::variables(&engine, &files);
            let policies = policies.clone();
            let commit = sources.commit.clone();
            let template = Template {
                name,
                version,
                commit,
                defaults,
                parameters,
                files,
                engine,
                policies,
                uses,
            };
            by_id.insert((template.name.clone(), template.version.clone()), Arc::new(template));
        }
        if let Some(rejection) = Rejection::of(violations) {
            return Err(rejection);
        }
        let (origin, commit) = (sources.origin.clone(), sources.commit.clone());
        Ok(Self { origin, commit, policies, by_id })
    }

    /// Lists all templates, by name and version.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Template>> {
        self.by_id.values()
    }

    /// Finds the template of a name: `backend-default`, or with a version `backend-default@v2`.
    ///
    /// # Errors
    /// A violation without a place, when there is none of that name or version.
    pub fn find(&self, reference: &str) -> Result<&Arc<Template>, Violation> {
        let (name, version) = reference.split_once('@').unwrap_or((reference, "latest"));
        let mut templates = self.by_id.values();
        templates
            .find(|t| t.name.as_str() == name && t.version.as_str() == version)
            .ok_or_else(|| self.unknown_template(name, version))
    }

    fn unknown_template(&self, name: &str, version: &str) -> Violation {
        let versions: Vec<&str> = self
            .by_id
            .keys()
            .filter(|(n, _)| n.as_str() == name)
            .map(|(_, v)| v.as_str())
            .collect();
        if versions.is_empty() {
            let mut names: Vec<&str> = self.by_id.keys().map(|(name, _)| name.as_str()).collect();
            names.dedup();
            return Violation::error("template", format!("there is no template `{name}`"))
                .expected("no such template")
                .help(suggest::hint(name, names));
        }
        Violation::error("template", format!("the template `{name}` has no version `{version}`"))
            .expected("no such version")
            .help(suggest::hint(version, versions))
    }
}

type Version = (TemplateName, TemplateVersion, Vec<String>);

/// Lists the templates of a set, each with the paths of its files.
fn versions(files: &[TemplateFile]) -> Vec<Version> {
    let mut files_by_version: BTreeMap<(TemplateName, TemplateVersion), Vec<String>> =
        BTreeMap::new();
    for file in files {
        let mut parts = file.path.split('/');
        if let (Some(name), Some(version), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && file.path.ends_with(engine::SUFFIX)
            && let (Ok(name), Ok(version)) =
                (TemplateName::parse(name), TemplateVersion::parse(version))
        {
            files_by_version.entry((name, version)).or_default().push(file.path.clone());
        }
    }
    files_by_version.into_iter().map(|((name, version), files)| (name, version, files)).collect()
}

/// Finds files that would be passed over in silence.
fn find_unknown_files(files: &[TemplateFile]) -> impl Iterator<Item = Violation> {
    let is_known = |path: &str| match path.split('/').collect::<Vec<_>>()[..] {
        [_, "defaults.yaml" | parameters::FILE] => true,
        [_, SAMPLES, file] => file.rsplit_once('.').is_some_and(|(_, end)| end == "yaml"),
        [_, _, file] => file.ends_with(engine::SUFFIX),
        _ => false,
    };
    files.iter().filter(move |file| !is_known(&file.path)).map(|file| {
        Violation::error("template", format!("{} is no part of a template", file.path)).help(
            "templates are <template>/<version>/<file>.yaml.tmpl, beside <template>/defaults.yaml",
        )
    })
}

/// The folder of sample WAMLs beside a template's versions.
const SAMPLES: &str = "samples";

/// Finds files among the shared pieces that would be passed over in silence.
fn odd_components(components: &[TemplateFile]) -> impl Iterator<Item = Violation> {
    components.iter().filter(|file| !file.path.ends_with(engine::SUFFIX)).map(|file| {
        let message = format!("components/{} is no component", file.path);
        Violation::error("template", message).help("shared pieces are components/<file>.yaml.tmpl")
    })
}

/// Reads the parameters that a template declares, if it does.
fn parameters(
    files: &[TemplateFile],
    name: &TemplateName,
    violations: &mut Vec<Violation>,
) -> TemplateParameters {
    let path = format!("{name}/{}", parameters::FILE);
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return TemplateParameters::default();
    };
    let mut of_file = Vec::new();
    let parameters = TemplateParameters::parse(&path, &file.text, &mut of_file);
    // Each version of the template reads the file.
    violations.extend(
        of_file.into_iter().filter(|violation| !violations.contains(violation)).collect::<Vec<_>>(),
    );
    parameters
}

fn defaults(files: &[TemplateFile], name: &TemplateName, violations: &mut Vec<Violation>) -> Node {
    let path = format!("{name}/defaults.yaml");
    let position = Position { file: Arc::from(path.as_str()), line: 1, column: 1, length: 1 };
    let origin = crate::waml::node::Origin { position, layer: Arc::from(path.as_str()) };
    let no_defaults = Node::new(Value::Map(Map::new()), origin);
    let Some(file) = files.iter().find(|file| file.path == path) else {
        violations.push(
            Violation::error("template", format!("{path} is missing"))
                .help("add it, with `{}` in it"),
        );
        return no_defaults;
    };
    let empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if file.text.lines().all(empty) {
        return no_defaults;
    }
    let Some(node) = yaml::parse(&path, file.text.as_bytes(), &Budget::default(), violations)
    else {
        return no_defaults;
    };
    let node = lift_scaling(node, violations);
    Section::reader().check(
        &mut wrap_in_list(node.clone(), Section::place()),
        &Path::root(),
        violations,
    );
    violations.extend(unusable(&node));
    if let Some(entry) = node.as_map().and_then(|map| map.get("patches")) {
        let message = "a template has no patches of its own objects";
        let violation = Violation::error("template", message).expected("belongs elsewhere");
        let help = "write what is to be rendered into the template's files";
        violations.push(violation.help(help).at("patches", Some(entry.key.clone())));
    }
    if let Some(entry) = node.as_map().and_then(|map| map.get(parameters::PART)) {
        let message = "the defaults of parameters are not here";
        let violation = Violation::error("template", message).expected("is in another file");
        let help =
            format!("write each as the `default` of its parameter in {name}/{}", parameters::FILE);
        violations.push(violation.help(help).at(parameters::PART, Some(entry.key.clone())));
    }
    node
}

/// Moves `scaling` out of `resources`, where it may be, too, as the source document prints its defaults.
fn lift_scaling(mut node: Node, violations: &mut Vec<Violation>) -> Node {
    let Value::Map(map) = &mut node.value else { return node };
    let Some(Value::Map(resources)) = map.get_mut("resources").map(|entry| &mut entry.node.value)
    else {
        return node;
    };
    let Some(scaling) = resources.shift_remove("scaling") else { return node };
    if let Some(other) = map.get("scaling") {
        let violation = Violation::error("template", "the defaults have `scaling` twice")
            .at("resources.scaling", Some(scaling.key))
            .expected("is repeated here")
            .help(format!("keep one of the two; the other is in line {}", other.key.line));
        violations.push(violation);
        return node;
    }
    map.insert("scaling".to_owned(), scaling);
    node
}

/// Finds default lists of optional things: they would have to call them into being.
fn unusable(defaults: &Node) -> impl Iterator<Item = Violation> {
    let parts = defaults.as_map().into_iter().flatten();
    let lists = parts.filter(|(part, entry)| {
        Section::place().key(part).identity().is_some()
            && !always_exists(part)
            && entry.node.as_list().is_some()
    });
    lists.map(|(part, entry)| {
        Violation::error("template", format!("`{part}` cannot have a list of defaults"))
            .at(part.as_str(), Some(entry.key.clone()))
            .expected("applies to nothing")
            .help(format!("write a map; it applies to each element that a WAML has under `{part}`"))
    })
}

/// Puts each map that applies to the elements of a list into a list, for checking.
fn wrap_in_list(mut node: Node, place: ElementPlace<'_>) -> Node {
    let identity = place.identity();
    if let Value::Map(map) = &mut node.value {
        let of_map = if identity.is_some() { place.element() } else { place };
        for (key, entry) in map.iter_mut() {
            entry.node = wrap_in_list(entry.node.clone(), of_map.key(key));
        }
        if let Some(identity) = identity {
            let origin = node.origin.clone();
            return Node::new(Value::List(vec![with_identity(node, identity)]), origin);
        }
    }
    node
}

/// Adds the keys that a map of defaults cannot have, because each element has its own.
fn with_identity(mut node: Node, identity: ElementIdentity) -> Node {
    if let (ElementIdentity::Name, Value::Map(map)) = (identity, &mut node.value) {
        let value =
            Value::Scalar(crate::waml::node::Scalar { text: "each".to_owned(), quoted: true });
        let name = Node::new(value, node.origin.clone());
        map.insert(
            "name".to_owned(),
            crate::waml::node::MappingEntry { key: node.origin.position.clone(), node: name },
        );
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(defaults: &str) -> Result<TemplateSet, Rejection> {
        let template_file =
            |path: &str, text: &str| TemplateFile { path: path.into(), text: text.into() };
        let files = vec![
            template_file("backend-default/defaults.yaml", defaults),
            template_file("backend-default/latest/x.yaml.tmpl", "{{ scaling.replicas }}"),
        ];
        TemplateSet::compile(&TemplateSources { files, ..TemplateSources::default() })
    }

    /// The file as the source document prints it.
    #[test]
    fn the_source_documents_defaults_are_a_templates() {
        let printed = "service:\n  port: 8000\ningress:\n  port: 8000\nresources:\n  requests:\n    cpu: 200m\n    memory: 256Mi\n  limits:\n    cpu: 400m\n    memory: 512Mi\n  scaling:\n    replicas: 3\n    maxUnavailable: 0\n    maxSurge: 2\n";
        let templates = compiled(printed).unwrap();
        let defaults = &templates.iter().next().unwrap().defaults;
        let at = |path: &str| defaults.at(&Path::parse(path).unwrap()).and_then(Node::as_text);
        assert_eq!(at("scaling.replicas"), Some("3"));
        assert_eq!(
            (at("resources.limits.cpu"), at("resources.scaling.replicas")),
            (Some("400m"), None)
        );
        let twice = compiled(&format!("{printed}scaling: {{replicas: 1}}\n")).unwrap_err();
        assert!(twice.to_string().contains("the defaults have `scaling` twice"), "{twice}");
    }
}
