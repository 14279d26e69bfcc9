//! Label and field selectors, as queries have them.

use serde_json::Value as Json;

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    pub(super) namespace: Option<String>,
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Debug, Clone)]
enum Requirement {
    Exists(String),
    Absent(String),
    Equals(String, String),
    Differs(String, String),
    In(String, Vec<String>),
}

impl Selector {
    pub(super) fn parse(namespace: Option<String>, labels: &str, fields: &str) -> Self {
        Self { namespace, labels: requirements(labels), fields: requirements(fields) }
    }

    pub(super) fn matches(&self, object: &Json) -> bool {
        let meta = &object["metadata"];
        let in_namespace =
            self.namespace.as_ref().is_none_or(|namespace| meta["namespace"] == namespace.as_str());
        let label = |key: &str| meta["labels"][key].as_str().map(str::to_owned);
        let field = |path: &str| {
            let value = path.split('.').fold(object, |value, key| &value[key]);
            Some(value.as_str().unwrap_or_default().to_owned())
        };
        in_namespace
            && self.labels.iter().all(|one| one.holds(label))
            && self.fields.iter().all(|one| one.holds(field))
    }
}

impl Requirement {
    fn holds(&self, value: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
            Self::Equals(key, wanted) => value(key).as_ref() == Some(wanted),
            Self::Differs(key, other) => value(key).as_ref() != Some(other),
            Self::In(key, some) => value(key).is_some_and(|value| some.contains(&value)),
        }
    }
}

fn requirements(text: &str) -> Vec<Requirement> {
    let mut depth = 0_usize;
    let parts = text.split(|c| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth - 1,
            _ => depth,
        };
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(requirement).collect()
}

fn requirement(text: &str) -> Requirement {
    let pair = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
    if let Some((key, some)) = text.split_once(" in (") {
        let some = some.trim_end_matches(')').split(',').map(|one| one.trim().to_owned());
        return Requirement::In(key.trim().to_owned(), some.collect());
    }
    if let Some((key, value)) = text.split_once("!=").map(pair) {
        return Requirement::Differs(key, value);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')).map(pair) {
        return Requirement::Equals(key, value);
    }
    match text.strip_prefix('!') {
        Some(key) => Requirement::Absent(key.to_owned()),
        None => Requirement::Exists(text.to_owned()),
    }
}

#[test]
fn selectors_select() {
    let object = serde_json::json!({
        "metadata": {"namespace": "n", "name": "x", "labels": {"a": "1", "b": "2"}}, "spec": {"node": "w"},
    });
    let selects =
        |labels: &str, fields: &str| Selector::parse(None, labels, fields).matches(&object);
    for yes in ["", "a", "a=1", "a==1,b!=1", "!c", "a in (0, 1),b", "c!=1"] {
        assert!(selects(yes, ""), "{yes}");
    }
    for no in ["c", "a=2", "!a", "a in (2,3)", "a=1,b=1"] {
        assert!(!selects(no, ""), "{no}");
    }
    assert!(selects("", "metadata.name=x,spec.node=w") && !selects("", "metadata.name!=x"));
    assert!(!Selector::parse(Some("other".to_owned()), "", "").matches(&object));
}
