//! The text of a first WAML, with comments. Pure.

use super::guess::Guess;
use crate::model::id::TargetName;

/// Writes a text with quotes: those of JSON are YAML's too.
fn quote_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Everything that a first WAML says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstWaml {
    pub(super) name: String,
    pub(super) slug: String,
    pub(super) namespace: String,
    pub(super) owner: String,
    pub(super) targets: Vec<TargetName>,
    /// The port; without one the service is a worker.
    pub(super) port: Option<Guess<u16>>,
    /// The processes beside `web`, and `web` where it has a command.
    pub(super) processes: Vec<(String, String)>,
}

impl FirstWaml {
    /// Writes the file.
    pub(super) fn write(&self) -> String {
        let Self { name, slug, namespace, owner, targets, port, processes } = self;
        let [name, owner] = [name, owner].map(|text| quote_text(text));
        let mut text = format!(
            "# What the-deployer has to know of this service. `bart explain` shows every value, also those of the template;\n\
             # docs/waml.md has every key, docs/how-do-i.md the commonest wishes.\n\
             schema: \"2\"\n\
             name: {name}\n\
             slug: {slug}                # part of the names of all objects: it stays\n\
             namespace: {namespace}      # in every cluster\n\
             owner: {owner}\n"
        );
        if port.is_none() {
            text += "template: worker-default    # it listens on no port: no Service, no route\n";
        }
        text += "defaults:\n- match: \"*\"                  # for every target; a target below can say otherwise\n";
        text += "  # image: {registry: ghcr.io}      # without it the image is that of the template's registry\n";
        if let Some(Guess { value, source }) = port {
            text += &format!(
                "  service: [{{ports: [{{name: http, number: {value}}}]}}]   # {source}\n"
            );
            text += "  # ingress: [{hostPrefix: SLUG}]   # an address below the target's domain\n"
                .replace("SLUG", slug)
                .as_str();
            text += "  # probes: {readiness: {path: /ready}, liveness: {path: /live}}   # if not the template's paths\n";
        }
        if !processes.is_empty() {
            text += "  processes:                  # of the Procfile\n";
            for (name, command) in processes {
                let command = quote_text(command);
                text += &format!("    {name}: {{command: [/bin/sh, -c, {command}]}}\n");
            }
        }
        text += "deploy:\n";
        for target in targets {
            text += &format!("  {}: {{}}\n", quote_text(target.as_str()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bart::validate;
    use crate::cli::diagnostics::SourceTexts;
    use crate::cli::local::{self, LocalInput};
    use crate::cli::output::Format;
    use crate::cli::platform::KnownTargets;
    use crate::waml::Waml;
    use std::sync::Arc;

    #[test]
    fn whatever_is_found_makes_a_file_that_is_valid() {
        let processes = |names: &[&str]| {
            let command = "exec \"$X\" -c 'a: b' # é\\n";
            names.iter().map(|name| ((*name).to_owned(), command.to_owned())).collect::<Vec<_>>()
        };
        let first = FirstWaml {
            name: "Shop: \"the\" one # 1".to_owned(),
            slug: "shop".to_owned(),
            namespace: "devx".to_owned(),
            owner: "team@example.com".to_owned(),
            targets: ["dev", "prod-1"].map(|name| TargetName::parse(name).unwrap()).into(),
            port: Some(Guess::new(8080, "EXPOSE in Dockerfile")),
            processes: Vec::new(),
        };
        for waml in [
            first.clone(),
            FirstWaml { port: None, ..first.clone() },
            FirstWaml { processes: processes(&["web", "worker"]), ..first.clone() },
            FirstWaml { port: None, processes: processes(&["worker"]), ..first.clone() },
        ] {
            let text = waml.write();
            let parsed = Arc::new(Waml::parse(".weave.yaml", text.as_bytes()).unwrap());
            assert_eq!((parsed.name.as_str(), parsed.owner.as_str()), (&*waml.name, &*waml.owner));
            let mut sources = SourceTexts::default();
            let templates = local::templates(None, &mut sources, Format::Text).unwrap();
            let world = LocalInput { waml: Ok(Arc::clone(&parsed)), templates, sources };
            for target in parsed.targets() {
                let known = KnownTargets::unknown("a test");
                let violations = validate::of_target(&parsed, target, &world, &known);
                let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
                assert!(told.is_empty(), "{told:?} in\n{text}");
            }
        }
    }
}
