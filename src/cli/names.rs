//! Suggests the name that was meant: a target, app or repository that the service does not know is compared with
//! those that it knows.
//!
//! The service is asked for its names only after it has found nothing, or refused: nothing else pays for it.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::client::{List, Server};
use super::error::{CliError, Outcome};
use super::here;
use crate::model::id::{AppKey, RepoName, TargetName};
use crate::waml::suggest;

/// So many pages of apps are read for a suggestion.
const MOST_PAGES: usize = 10;

/// What a command was given as names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) target: Option<TargetName>,
    pub(super) app: Option<AppKey>,
    pub(super) repository: Option<RepoName>,
}

/// The targets of the service.
#[derive(Debug, Deserialize)]
struct TargetList {
    targets: Vec<Target>,
    any: bool,
    complete: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

#[derive(Debug, Deserialize)]
struct AppPage {
    apps: Vec<KnownApp>,
    next: Option<String>,
}

/// An app that is somewhere.
#[derive(Debug, Clone, Deserialize)]
struct KnownApp {
    target: String,
    namespace: String,
    app: String,
    repository: Option<String>,
}

/// The names that the service and the working folder know.
#[derive(Debug, Default)]
struct KnownNames {
    targets: BTreeSet<String>,
    /// Those of the configuration, where it names any.
    configured: Option<BTreeSet<String>>,
    /// Whether the service shows all of its targets to the caller.
    complete: bool,
    /// `namespace`, `slug`.
    apps: BTreeSet<(String, String)>,
    repositories: BTreeSet<String>,
}

impl Names {
    /// A target alone.
    pub(super) fn target(target: &TargetName) -> Self {
        Self { target: Some(target.clone()), ..Self::default() }
    }

    /// The same with an app.
    pub(super) fn app(self, app: Option<AppKey>) -> Self {
        Self { app, ..self }
    }

    fn is_empty(&self) -> bool {
        self.target.is_none() && self.app.is_none() && self.repository.is_none()
    }
}

impl Server {
    /// Looks at the names after nothing was found with them.
    ///
    /// # Errors
    /// [`CliError::refused`] for the first that the service does not know, with what may have been meant. It is none
    /// where each is known, or could be meant, or the service cannot be asked.
    pub(super) async fn check_names(&self, names: &Names) -> Outcome {
        self.mistyped(names).await.map_or(Ok(()), Err)
    }

    async fn mistyped(&self, names: &Names) -> Option<CliError> {
        if names.is_empty() {
            return None;
        }
        let known = self.known_names(names).await?;
        judge(names, &known)
    }

    /// The result, where the service has refused with what may have been meant by a name that it does not know.
    pub(super) async fn suggest<T>(
        &self,
        result: Result<T, CliError>,
        names: &Names,
    ) -> Result<T, CliError> {
        match result {
            Err(error) if error.may_be_mistyped() => match self.mistyped(names).await {
                Some(mistyped) => Err(error.explained_by(&mistyped)),
                None => Err(error),
            },
            result => result,
        }
    }

    /// `None` where the service does not say.
    async fn known_names(&self, names: &Names) -> Option<KnownNames> {
        let TargetList { targets, any, complete } = self.get("/api/v1/targets", &[]).await.ok()?;
        let configured: BTreeSet<_> = targets.into_iter().map(|one| one.name).collect();
        let mut known = KnownNames {
            targets: configured.clone(),
            configured: (!any).then_some(configured),
            complete,
            ..KnownNames::default()
        };
        for KnownApp { target, namespace, app, repository } in self.known_apps().await? {
            known.targets.insert(target);
            known.apps.insert((namespace, app));
            known.repositories.extend(repository);
        }
        if let Ok(waml) = here::waml() {
            let AppKey { namespace, slug } = &waml.app;
            known.apps.insert((namespace.to_string(), slug.to_string()));
            if any {
                known.targets.extend(waml.targets().into_iter().map(ToString::to_string));
            }
        }
        // What never arrived is in no manifest repository.
        if let Some(app) = &names.app {
            let query = [("app", app.to_string()), ("limit", "1".to_owned())];
            let list: List = self.get("/api/v1/deployments", &query).await.ok()?;
            if !list.deployments.is_empty() {
                known.apps.insert((app.namespace.to_string(), app.slug.to_string()));
            }
        }
        Some(known)
    }

    async fn known_apps(&self) -> Option<Vec<KnownApp>> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let mut query = vec![("limit", "200".to_owned())];
            query.extend(cursor.iter().map(|cursor| ("cursor", cursor.clone())));
            let page: AppPage = self.get("/api/v1/apps", &query).await.ok()?;
            all.extend(page.apps);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Some(all)
    }
}

/// What is wrong with the names. Pure.
fn judge(names: &Names, known: &KnownNames) -> Option<CliError> {
    let Names { target, app, repository } = names;
    let target = target.as_ref().and_then(|target| judge_target(target.as_str(), known));
    let app = || app.as_ref().and_then(|app| judge_app(app, known));
    let repository = || {
        let name = repository.as_ref()?.as_str();
        let is = |one: &String| one.eq_ignore_ascii_case(name);
        if known.repositories.iter().any(is) {
            return None;
        }
        let near = suggest::nearest(name, known.repositories.iter().map(String::as_str))?;
        Some(unknown(format!("nothing was deployed from the repository {name}"), near))
    };
    target.or_else(app).or_else(repository)
}

fn judge_target(name: &str, known: &KnownNames) -> Option<CliError> {
    if known.targets.contains(name) {
        return None;
    }
    if let Some(configured) = &known.configured {
        let seen = if known.complete { "" } else { " that you may see" };
        let error = CliError::refused(format!("the service has no target `{name}`{seen}"));
        return Some(error.hint(suggest::hint(name, configured.iter().map(String::as_str))));
    }
    // Any name may be a target: only a slip of a known one is a mistake.
    let near = suggest::nearest(name, known.targets.iter().map(String::as_str))?;
    Some(unknown(format!("nothing was deployed to a target `{name}`"), near))
}

/// An app of a new name is no mistake, a slip of a known one is. The slug and the namespace are compared each by
/// itself: apps of one namespace begin alike.
fn judge_app(app: &AppKey, known: &KnownNames) -> Option<CliError> {
    let (namespace, slug) = (app.namespace.as_str(), app.slug.as_str());
    if known.apps.contains(&(namespace.to_owned(), slug.to_owned())) {
        return None;
    }
    let beside = known.apps.iter().filter(|(theirs, _)| theirs == namespace);
    let slugs = suggest::nearest(slug, beside.map(|(_, slug)| slug.as_str()));
    let near = match slugs {
        Some(slug) => Some(format!("{namespace}/{slug}")),
        None => known
            .apps
            .iter()
            .find(|(_, theirs)| theirs == slug)
            .map(|(namespace, slug)| format!("{namespace}/{slug}")),
    };
    Some(unknown(format!("there is no app `{app}`"), &near?))
}

fn unknown(message: String, near: &str) -> CliError {
    CliError::refused(message).hint(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug};

    fn known(configured: Option<&[&str]>) -> KnownNames {
        let names = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let app = |(namespace, slug): (&str, &str)| (namespace.to_owned(), slug.to_owned());
        KnownNames {
            targets: names(&["dev", "prod-eu"]),
            configured: configured.map(names),
            complete: true,
            apps: [("devx", "shop"), ("devx", "cart"), ("pay", "till")].map(app).into(),
            repositories: names(&["acme/shop", "acme/till"]),
        }
    }

    fn app(text: &str) -> Option<AppKey> {
        let (namespace, slug) = text.split_once('/')?;
        let namespace = Namespace::parse(namespace).ok()?;
        Some(AppKey { namespace, slug: Slug::parse(slug).ok()? })
    }

    #[test]
    fn a_slip_is_told_and_a_new_name_is_none() {
        let target = |name: &str| Names::target(&TargetName::parse(name).unwrap());
        let of_app = |name: &str| Names::default().app(app(name));
        let repository = |name: &str| Names {
            repository: Some(RepoName::parse(name).unwrap()),
            ..Names::default()
        };
        let configured: Option<&[&str]> = Some(&["dev", "prod-eu"]);
        for (names, configured, wanted) in [
            (target("prod-eu"), configured, None),
            (target("prod-ue"), configured, Some("no target `prod-ue`; did you mean `prod-eu`?")),
            (target("moon"), configured, Some("no target `moon`; use one of `dev` and `prod-eu`")),
            (target("prod-ue"), None, Some("a target `prod-ue`; did you mean `prod-eu`?")),
            (target("moon"), None, None),
            (of_app("devx/shop"), None, None),
            (of_app("devx/shopp"), None, Some("no app `devx/shopp`; did you mean `devx/shop`?")),
            (of_app("dvex/shop"), None, Some("no app `dvex/shop`; did you mean `devx/shop`?")),
            (of_app("devx/other"), None, None),
            (of_app("pay/api"), None, None),
            (repository("Acme/Shop"), None, None),
            (repository("acme/shpo"), None, Some("acme/shpo; did you mean `acme/shop`?")),
            (target("prod-ue").app(app("devx/shopp")), configured, Some("did you mean `prod-eu`?")),
        ] {
            let said = judge(&names, &known(configured)).map(|error| error.whole());
            match (&said, wanted) {
                (Some(said), Some(wanted)) => assert!(said.ends_with(wanted), "{said}"),
                (said, wanted) => assert_eq!(said.as_deref(), wanted, "{names:?}"),
            }
        }
    }
}
