//! The kubeconfig that a person's `kubectl` reads by itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns the files of the variable `KUBECONFIG`, without empty parts.
pub(super) fn variable_files(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let value = environment.get("KUBECONFIG");
    let files = value.into_iter().flat_map(std::env::split_paths);
    files.filter(|file| !file.as_os_str().is_empty()).collect()
}

/// Returns the kubeconfig: of several files of the variable the first, else the one in the home folder; `None` without one.
pub(super) fn default_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let first = variable_files(environment).into_iter().next();
    first.or_else(|| Some(PathBuf::from(environment.get("HOME")?).join(".kube/config")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn empty_parts_of_kubeconfig_are_no_files() {
        let files = |text: &str| variable_files(&environment(&[("KUBECONFIG", text)]));
        assert_eq!(files(":/a::/b"), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(files(":"), Vec::<PathBuf>::new());
        assert_eq!(variable_files(&environment(&[])), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_first_file_counts_and_the_home_folder_without_one() {
        let home = ("HOME", "/home/me");
        let file = |pairs: &[(&str, &str)]| default_file(&environment(pairs));
        assert_eq!(file(&[("KUBECONFIG", ":/a:/b"), home]), Some("/a".into()));
        for none in ["", ":"] {
            let usual = Some("/home/me/.kube/config".into());
            assert_eq!(file(&[("KUBECONFIG", none), home]), usual);
        }
        assert_eq!(file(&[]), None);
    }
}
