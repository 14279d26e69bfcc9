//! The names of an app's objects in a cluster: API group, kind and name.
//!
//! All apps of a namespace are read for this. Files of the service begin with just that, so their first four lines are
//! enough; any other is read as YAML.

use std::collections::HashSet;
use std::sync::Arc;

use crate::manifests::parse::{live_app, secrets};
use crate::model::facts::{LiveObject, ObjectName};
use crate::model::revision::ManifestFile;
use crate::model::stateful::group;

/// Kinds and groups, each text once: many thousand objects have some dozen of them.
#[derive(Debug, Default)]
pub struct NamePool(HashSet<Arc<str>>);

impl NamePool {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(interned) = self.0.get(text) {
            return Arc::clone(interned);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// Lists the objects of an app's files and the Secrets that are made of them; and a file that could
/// not be read, if there is one.
pub fn objects(files: &[ManifestFile]) -> (Vec<LiveObject>, Option<String>) {
    let (mut objects, mut unread) = (Vec::with_capacity(files.len()), None);
    for file in files {
        if let Some(object) = first_lines(&file.bytes) {
            objects.push(object);
            continue;
        }
        let (app, unreadable) = live_app(std::slice::from_ref(file));
        objects.extend(app.names().cloned());
        unread = unread.or(unreadable.into_iter().next());
    }
    (objects, unread)
}

/// Collects the names of objects.
pub fn names(objects: &[LiveObject], interned: &mut NamePool) -> Arc<[ObjectName]> {
    let name = |LiveObject { api_version, kind, name }: &LiveObject| ObjectName {
        group: interned.text(group(api_version)),
        kind: interned.text(kind),
        name: name.as_str().into(),
    };
    objects.iter().map(name).collect()
}

/// Reads the object of a file in the service's own form; `None` for every other.
pub(super) fn first_lines(bytes: &[u8]) -> Option<LiveObject> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let mut value = |key: &str| {
        let value = lines.next()?.strip_prefix(key)?;
        // Quoted, with a comment, or a flow: left to the parser.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-./".contains(&b);
        let begins = value.starts_with(|c: char| c.is_ascii_alphabetic());
        (begins && value.bytes().all(plain)).then_some(value)
    };
    let (api_version, kind) = (value("apiVersion: ")?, value("kind: ")?);
    if text.lines().nth(2)? != "metadata:" || text.contains("\n---") {
        return None;
    }
    let _metadata = lines.next();
    let mut value = |key: &str| lines.next()?.strip_prefix(key);
    let name = value("  name: ")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    // An object that creates Secrets needs all of its text.
    let is_whole = !secrets::may_create_secrets(kind, text);
    (is_whole && begins && name.bytes().all(plain)).then(|| LiveObject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let file = ManifestFile { name: "a.yaml".to_owned(), bytes: text.as_bytes().to_vec() };
        let (objects, _) = objects(&[file]);
        let names = super::names(&objects, &mut NamePool::default());
        names
            .iter()
            .map(|object| format!("{}/{}/{}", object.group, object.kind, object.name))
            .collect()
    }

    #[test]
    fn our_files_and_anybodys_are_read_alike() {
        let own_file =
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\n  labels: {}\n";
        assert!(first_lines(own_file.as_bytes()).is_some());
        assert_eq!(names(own_file), ["apps/Deployment/shop"]);
        for foreign_file in [
            "kind: Deployment\nmetadata: {name: shop}\napiVersion: apps/v1\n",
            "# mine\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  labels: {}\n  name: shop\n",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: \"shop\"\n",
            "apiVersion: apps/v1\nkind: Deployment # x\nmetadata:\n  name: shop # y\n",
        ] {
            assert!(first_lines(foreign_file.as_bytes()).is_none(), "{foreign_file}");
            assert_eq!(names(foreign_file), ["apps/Deployment/shop"], "{foreign_file}");
        }
        let two_objects =
            format!("{own_file}---\napiVersion: v1\nkind: Service\nmetadata:\n  name: b\n");
        assert_eq!(names(&two_objects), ["apps/Deployment/shop", "/Service/b"]);
        let certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata:\n  name: a.b\nspec:\n  secretName: x\n";
        assert_eq!(names(certificate), ["cert-manager.io/Certificate/a.b", "/Secret/x"]);
        assert_eq!(names("a: ["), Vec::<String>::new());
        let file = ManifestFile { name: "b.yaml".to_owned(), bytes: b"a: [".to_vec() };
        assert_eq!(objects(&[file]), (vec![], Some("b.yaml".to_owned())), "and that is told");
    }
}
