//! Where this machine keeps a person's settings. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder of `bart`, there or not: below `XDG_CONFIG_HOME` where that is set, else where the system has
/// such folders. `None` where nothing says where this person's files are.
pub(in crate::cli) fn of(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    on(std::env::consts::OS, environment)
}

fn on(system: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = |name: &str| {
        let text = environment.get(name).filter(|text| !text.is_empty())?;
        Some(PathBuf::from(text))
    };
    // The specification has relative paths ignored (XDG Base Directory, "Basics").
    let said = folder("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let usual = || match system {
        "macos" => Some(folder("HOME")?.join("Library/Application Support")),
        "windows" => folder("APPDATA"),
        _ => Some(folder("HOME")?.join(".config")),
    };
    said.or_else(usual).map(|folder| folder.join("bart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_its_place() {
        let environment = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let home = environment(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "relative")]);
        for (system, all, wanted) in [
            ("linux", &home, "/home/ada/.config/bart"),
            ("macos", &home, "/home/ada/Library/Application Support/bart"),
            ("linux", &environment(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), "/x/bart"),
            ("macos", &environment(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), "/x/bart"),
        ] {
            assert_eq!(on(system, all), Some(PathBuf::from(wanted)), "{system}");
        }
        assert_eq!(on("windows", &environment(&[("HOME", "/h")])), None);
        assert_eq!(on("linux", &environment(&[("HOME", "")])), None);
    }
}
