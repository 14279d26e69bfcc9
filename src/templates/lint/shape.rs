//! The shape of a template's view: the WAML's schema, and the values of samples.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::templates::lint::reads::EACH;

/// The deepest that is looked into a schema, which may be about itself.
const DEEPEST: usize = 12;

/// The shape of one place in the view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ViewShape {
    /// True if it may have names that cannot be listed.
    open: bool,
    /// The shape of each element of a list, or value of a map.
    each: Option<Box<ViewShape>>,
    parts: BTreeMap<String, ViewShape>,
}

impl ViewShape {
    /// Adds the shape of a value.
    pub(crate) fn add(&mut self, value: &Json) {
        match value {
            Json::Object(map) => {
                for (key, value) in map {
                    self.part(key).add(value);
                    self.each().add(value);
                }
            }
            Json::Array(list) => list.iter().for_each(|value| self.each().add(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    /// Adds the shape of a schema at that place.
    pub(crate) fn add_schema(&mut self, place: &[&str], schema: &Json) {
        match place.split_first() {
            Some((first, rest)) => self.part(first).add_schema(rest, schema),
            None => self.schema(schema, schema, DEEPEST),
        }
    }

    fn schema(&mut self, part: &Json, root: &Json, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(pointer) = part["$ref"].as_str() {
            let target = root.pointer(pointer.trim_start_matches('#'));
            return self.schema(target.unwrap_or(&Json::Null), root, depth);
        }
        for list in ["anyOf", "oneOf", "allOf"] {
            for option in part[list].as_array().into_iter().flatten() {
                self.schema(option, root, depth);
            }
        }
        for (key, value) in part["properties"].as_object().into_iter().flatten() {
            self.part(key).schema(value, root, depth);
            self.each().schema(value, root, depth);
        }
        if part["items"].is_object() {
            self.each().schema(&part["items"], root, depth);
        }
        match &part["additionalProperties"] {
            Json::Bool(true) => self.open = true,
            values @ Json::Object(_) => {
                self.open = true;
                self.each().schema(values, root, depth);
            }
            _ => {}
        }
    }

    fn part(&mut self, key: &str) -> &mut Self {
        self.parts.entry(key.to_owned()).or_default()
    }

    fn each(&mut self) -> &mut Self {
        self.each.get_or_insert_default()
    }

    /// Counts the steps of a way that are known to lead somewhere.
    pub(crate) fn count_known_steps(&self, way: &[String]) -> usize {
        let Some((step, rest)) = way.split_first() else { return 0 };
        let next = match step.as_str() {
            EACH => self.each.as_deref(),
            name => self.parts.get(name).or(self.each.as_deref().filter(|_| self.open)),
        };
        match next {
            Some(next) => 1 + next.count_known_steps(rest),
            None if self.open => way.len(),
            None => 0,
        }
    }

    /// Lists the names that there are at the end of a way.
    pub(crate) fn names(&self, way: &[String]) -> Vec<&str> {
        let Some((step, rest)) = way.split_first() else {
            return self.parts.keys().map(String::as_str).collect();
        };
        let next = if step == EACH { self.each.as_deref() } else { self.parts.get(step) };
        next.map(|next| next.names(rest)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn way(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn values_and_schemas_show_what_there_is() {
        let mut shape = ViewShape::default();
        shape.add(&json!({"app": {"slug": "x"}, "service": [{"ports": [{"name": "http"}]}]}));
        shape.add_schema(&[], &json!({
            "properties": {"labels": {"$ref": "#/$defs/Labels"}, "env": {"items": {"properties": {"name": {}}}}},
            "$defs": {"Labels": {"additionalProperties": {"type": "string"}}},
        }));
        for (text, steps) in [
            ("app.slug", 2),
            ("app.slig", 1),
            ("service.[].ports.[].name", 5),
            ("service.[].port", 2),
            ("labels.any", 2),
            ("env.[].name", 3),
            ("env.[].value", 2),
            ("other", 0),
        ] {
            assert_eq!(shape.count_known_steps(&way(text)), steps, "{text}");
        }
        assert_eq!(shape.names(&way("service.[]")), ["ports"]);
    }
}
