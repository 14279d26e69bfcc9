//! The WAMLs of a repository with several apps: the one at its root, and those of a folder beside it. Pure.
//!
//! The folder has the name of the file at the root without its ending: `.weave/` beside `.weave.yaml`. Each of its files
//! is a whole WAML; its name is the app's name in the repository, a key that stays when the app's own name changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::id::{AppKey, AppName};
use crate::model::violation::{Position, Violation};
use crate::waml::Waml;
use crate::waml::node::Path;
use crate::waml::suggest;

/// The most apps of one repository.
pub const MAX_APPS: usize = 64;

/// The rule of violations of a repository's files as a set.
pub const RULE: &str = "apps";

const ENDINGS: [&str; 2] = [".yaml", ".yml"];

/// Returns the folder of the WAMLs of several apps, `.weave` beside `.weave.yaml`; `None` where the path of the WAML has no
/// ending that could be left out.
pub fn folder_of(waml_path: &str) -> Option<&str> {
    let stem = ENDINGS.iter().find_map(|ending| waml_path.strip_suffix(ending))?;
    let name = stem.rsplit('/').next().unwrap_or_default();
    (!matches!(name, "" | "." | "..")).then_some(stem)
}

/// Returns the path of an app's WAML; no app is the only one of its repository.
pub fn path_of(waml_path: &str, app: Option<&AppName>) -> String {
    let app = app.filter(|app| !app.is_root());
    match app.zip(folder_of(waml_path)) {
        Some((app, folder)) => format!("{folder}/{app}.yaml"),
        None => waml_path.to_owned(),
    }
}

/// Returns the app whose WAML has that path.
pub fn app_of(waml_path: &str, path: &str) -> Option<AppName> {
    if path == waml_path {
        return Some(AppName::root());
    }
    let name = path.strip_prefix(folder_of(waml_path)?)?.strip_prefix('/')?;
    AppName::parse(name.strip_suffix(".yaml")?).ok().filter(|app| !app.is_root())
}

/// The apps of a repository at one commit, by the files that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFiles {
    waml_path: String,
    /// The app at the root first, the others by name.
    apps: Vec<AppName>,
    problems: Vec<Violation>,
    /// True where there are more.
    is_cut: bool,
}

/// The app or the apps that a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppChoice {
    /// The only app of the repository, at its root.
    Only,
    /// This one.
    One(AppName),
    /// All that there are, two at least.
    All(Vec<AppName>),
}

impl AppFiles {
    /// Sorts out the files of a repository: whether it has the one at the root, and the names of those in the folder.
    pub fn of_names<'n>(
        waml_path: &str,
        has_root: bool,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        let folder = folder_of(waml_path).unwrap_or_default();
        let (mut apps, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            match app_name(name) {
                Ok(Some(app)) => apps.push(app),
                Ok(None) => {}
                Err((message, help)) => {
                    let path = format!("{folder}/{name}");
                    let problem = Violation::error(RULE, format!("`{path}` {message}")).help(help);
                    problems.push(problem.at("", Some(first_line(&path))));
                }
            }
        }
        apps.sort();
        apps.dedup();
        if has_root {
            apps.insert(0, AppName::root());
        }
        let is_cut = apps.len() > MAX_APPS;
        if is_cut {
            let message = format!("`{folder}/` has more than {MAX_APPS} WAMLs");
            let help = "put some apps into another repository";
            let place = Some(first_line(&format!("{folder}/")));
            problems.push(Violation::error(RULE, message).help(help).at("", place));
            apps.truncate(MAX_APPS);
        }
        Self { waml_path: waml_path.to_owned(), apps, problems, is_cut }
    }

    /// Lists the apps, the one at the root first.
    pub fn apps(&self) -> &[AppName] {
        &self.apps
    }

    /// Checks that the repository has files of several apps, or names the file of its only one.
    pub fn has_folder(&self) -> bool {
        self.apps.iter().any(|app| !app.is_root()) || !self.problems.is_empty()
    }

    /// Checks that there are more apps than a repository may have; the others are left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Lists the files that can be no app's.
    pub fn problems(&self) -> &[Violation] {
        &self.problems
    }

    /// Returns the path of an app's WAML.
    pub fn path_of(&self, app: &AppName) -> String {
        path_of(&self.waml_path, Some(app))
    }

    /// Decides which apps a request is for.
    ///
    /// # Errors
    /// The fault and the way out, one sentence for people.
    pub fn choose(&self, app: Option<&AppName>) -> Result<AppChoice, String> {
        match (app, self.apps.as_slice()) {
            (Some(app), apps) if apps.contains(app) => Ok(AppChoice::One(app.clone())),
            (Some(app), apps) => Err(describe_unknown(app.as_str(), apps)),
            (None, [only]) if only.is_root() => Ok(AppChoice::Only),
            (None, [only]) => Ok(AppChoice::One(only.clone())),
            (None, []) => Err(format!(
                "the repository has no WAML: add {}, or a file for each app under {}/",
                self.waml_path,
                folder_of(&self.waml_path).unwrap_or_default()
            )),
            (None, apps) => Ok(AppChoice::All(apps.to_vec())),
        }
    }
}

/// Says that a repository has no such app, which it has, and which may be meant.
pub fn describe_unknown(app: &str, apps: &[AppName]) -> String {
    let names = apps.iter().map(AppName::as_str);
    let nearest = suggest::nearest(app, names.clone());
    let nearest = nearest.map_or_else(String::new, |best| format!("; did you mean `{best}`?"));
    format!("the repository has no app `{app}`, but {}{nearest}", suggest::list(names))
}

/// Asks for one of several apps.
pub fn describe_choice(apps: &[AppName]) -> String {
    let names = suggest::list(apps.iter().map(AppName::as_str));
    format!("the repository has several apps, so name one: {names}")
}

/// Returns the app of a file in the folder; `None` for one that is no WAML.
fn app_name(name: &str) -> Result<Option<AppName>, (String, String)> {
    if let Some(stem) = name.strip_suffix(".yml") {
        let help = format!("rename it to `{stem}.yaml`");
        return Err(("does not end in `.yaml`, so it is no app's".to_owned(), help));
    }
    let Some(stem) = name.strip_suffix(".yaml") else { return Ok(None) };
    match AppName::parse(stem) {
        Ok(app) if !app.is_root() => Ok(Some(app)),
        Ok(_) | Err(_) => {
            let help = "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit";
            Err(("has a name that no app can have".to_owned(), help.to_owned()))
        }
    }
}

fn first_line(path: &str) -> Position {
    Position { file: Arc::from(path), line: 1, column: 1, length: 1 }
}

/// Finds apps that have the same namespace and slug: a violation at each of them, which names the others.
pub fn find_duplicates(wamls: impl IntoIterator<Item = (AppKey, Position)>) -> Vec<Violation> {
    let mut places: BTreeMap<AppKey, Vec<Position>> = BTreeMap::new();
    for (app, place) in wamls {
        places.entry(app).or_default().push(place);
    }
    let duplicates = places.into_iter().filter(|(_, places)| places.len() > 1);
    let violations = duplicates.flat_map(|(app, places)| {
        let violation = |place: &Position| {
            let others: Vec<Position> =
                places.iter().filter(|other| *other != place).cloned().collect();
            duplicate(&app, place.clone(), &others)
        };
        places.iter().map(violation).collect::<Vec<_>>()
    });
    violations.collect()
}

/// Makes the violation of a WAML whose app is also that of other places.
pub fn duplicate(app: &AppKey, place: Position, others: &[Position]) -> Violation {
    let others: Vec<String> = others
        .iter()
        .map(|Position { file, line, column, .. }| format!("`{file}:{line}:{column}`"))
        .collect();
    let message = format!("`{app}` is also the app of {}", others.join(" and "));
    Violation::error(RULE, message)
        .help("give each app of the repository a slug of its own")
        .at("slug", Some(place))
}

/// Returns the place where a WAML names its app.
pub fn place_of(waml: &Waml) -> Position {
    waml.root.nearest(&Path::root().key("slug")).1
}

#[cfg(test)]
mod tests;
