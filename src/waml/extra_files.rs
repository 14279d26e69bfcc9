//! The files that `manifests` of a WAML names: their paths, their limits, their texts.
//!
//! A WAML says only their paths, so whoever reads one fetches them from the same commit or folder, and puts them into it.
//! A file that was not fetched counts as missing: a plan without it is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::waml::node::Node;

/// The most files of one target.
pub const MAX_FILES: usize = 20;
/// The largest file in bytes, as large as a WAML.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// The largest sum of the files of one target in bytes.
pub const MAX_SUM_BYTES: usize = 1024 * 1024;
/// The largest sum in bytes that is read from a folder for all targets together.
const MAX_READ_BYTES: usize = 64 * 1024 * 1024;
/// The longest path in bytes.
const MAX_PATH: usize = 255;

/// The texts of files, or the reasons why there are none, by their paths as the WAML writes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraFiles(BTreeMap<String, Result<String, String>>);

impl ExtraFiles {
    /// Takes the files as they were read; an error is a reason as `there is no such file`.
    pub fn of_bytes(files: impl IntoIterator<Item = (String, Result<Vec<u8>, String>)>) -> Self {
        let text = |bytes: Vec<u8>| {
            if bytes.len() > MAX_FILE_BYTES {
                return Err(describe_too_large());
            }
            String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
        };
        Self(files.into_iter().map(|(path, bytes)| (path, bytes.and_then(text))).collect())
    }

    /// Reads the files of these paths, one after the other, until they are too large together.
    pub fn read(paths: Vec<String>, read: impl Fn(&str) -> Result<Vec<u8>, String>) -> Self {
        let mut sum = 0;
        Self::of_bytes(paths.into_iter().map(|path| {
            if sum > MAX_READ_BYTES {
                let why = format!(
                    "the files before it have more than {MAX_READ_BYTES} bytes, so it was not read"
                );
                return (path, Err(why));
            }
            let bytes = read(&path);
            sum += bytes.as_ref().map_or(0, Vec::len);
            (path, bytes)
        }))
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    /// The reason why there is none, as a clause.
    pub fn text(&self, path: &str) -> Result<&str, &str> {
        match self.0.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(why)) => Err(why),
            None => Err("it was not read"),
        }
    }

    /// Lists the files that could be read, with their texts.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref().ok()?)))
    }
}

/// Writes the reason why a large file is not read.
pub fn describe_too_large() -> String {
    format!("it has more than {MAX_FILE_BYTES} bytes")
}

/// Checks that a path can be one of an extra file: relative, downwards, and of a file of YAML.
///
/// # Errors
/// What is wrong with it, as a clause.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if path.is_empty() || path.len() > MAX_PATH {
        return Err("it is empty or too long");
    }
    if path.starts_with('/') || !path.split('/').all(is_part) {
        return Err("it does not lead downwards from the folder of the WAML");
    }
    if path.contains(['\\', ':']) || path.chars().any(char::is_control) {
        return Err("it has a character that no path should have");
    }
    let ends = [".yaml", ".yml", ".json"];
    if !ends.iter().any(|end| path.ends_with(end)) {
        return Err("it does not end in `.yaml`, `.yml` or `.json`");
    }
    Ok(())
}

/// Returns the path from the folder that the path of the WAML is from: what stands beside `a/.weave.yaml` is in `a/`.
pub fn beside(waml_path: &str, path: &str) -> String {
    match waml_path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{path}"),
        None => path.to_owned(),
    }
}

/// Lists the legal paths of some lists, each once, in the order of their names.
pub(super) fn distinct_paths<'n>(lists: impl Iterator<Item = &'n Node>) -> Vec<String> {
    let nodes = lists.filter_map(Node::as_list).flatten();
    let paths = nodes.filter_map(Node::as_text).filter(|path| check_path(path).is_ok());
    let paths: BTreeSet<&str> = paths.collect();
    paths.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_downwards_to_a_file_of_yaml() {
        for path in ["a.yaml", "k8s/dashboard.yml", "k8s/a b/ü.json"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        let long = format!("{}.yaml", "a".repeat(MAX_PATH));
        for path in [
            "",
            "/etc/a.yaml",
            "../a.yaml",
            "k8s/../../a.yaml",
            "./a.yaml",
            "k8s//a.yaml",
            "k8s/",
            "a.txt",
            "c:a.yaml",
            "k8s\\a.yaml",
            "a\n.yaml",
            &long,
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
        assert_eq!(beside(".weave.yaml", "k8s/a.yaml"), "k8s/a.yaml");
        assert_eq!(beside("x/y/.weave.yaml", "k8s/a.yaml"), "x/y/k8s/a.yaml");
    }

    #[test]
    fn a_file_that_cannot_be_taken_has_a_reason() {
        let paths = ["a.yaml", "b.yaml", "c.yaml", "d.yaml"].map(str::to_owned).to_vec();
        let files = ExtraFiles::read(paths, |path| match path {
            "a.yaml" => Ok(b"a: b".to_vec()),
            "b.yaml" => Ok(vec![b' '; MAX_FILE_BYTES + 1]),
            "c.yaml" => Ok(vec![0xff]),
            _ => Err("there is no such file".to_owned()),
        });
        assert_eq!(files.text("a.yaml"), Ok("a: b"));
        assert!(files.text("b.yaml").unwrap_err().contains("bytes"));
        assert!(files.text("c.yaml").unwrap_err().contains("UTF-8"));
        assert_eq!(files.text("d.yaml"), Err("there is no such file"));
        assert_eq!(files.text("e.yaml"), Err("it was not read"));
        assert_eq!(files.texts().collect::<Vec<_>>(), [("a.yaml", "a: b")]);
    }

    #[test]
    fn files_are_read_until_they_are_too_large_together() {
        let most = MAX_READ_BYTES / MAX_FILE_BYTES;
        let paths: Vec<String> = (0..most + 3).map(|n| format!("{n:04}.yaml")).collect();
        let files = ExtraFiles::read(paths.clone(), |_| Ok(vec![b' '; MAX_FILE_BYTES]));
        assert_eq!(files.texts().count(), most + 1);
        assert!(files.text(&paths[most + 1]).unwrap_err().contains("was not read"));
    }
}
