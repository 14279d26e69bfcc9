//! Suggests the name that was meant: compares a target, app or repository that the service does not know with those
//! that it knows.
//!
//! The names are fetched only after a command found nothing or was refused: other commands do not pay for it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::ServiceEndpoint;
use super::context::{AppSelector, Context, Names, PartialApp};
use super::error::{CliError, CommandOutcome};
use super::repository_apps::RepositoryApps;
use super::verbatim::Verbatim;
use crate::api::apps::{AppPage, AppSummary, MissingRepository};
use crate::api::deployments::DeploymentPage;
use crate::api::service::TargetList;
use crate::model::id::{AppKey, Namespace, Slug, TargetName};
use crate::waml::suggest;

/// The largest number of pages of apps that are read for a suggestion, or to complete an app's name.
const PAGES_FOR_NAMES: usize = 10;
/// The longest list of apps for people.
const MAX_APPS: usize = 2_000;

/// The apps of several pages.
#[derive(Debug, Default)]
pub(super) struct AppPages {
    pub(super) apps: Vec<Verbatim<AppSummary>>,
    pub(super) missing: Vec<Verbatim<MissingRepository>>,
    /// True if there are no more.
    pub(super) all: bool,
}

/// The names that the service and the working folder know.
#[derive(Debug, Default)]
struct KnownNames {
    targets: BTreeSet<String>,
    /// The targets of the configuration, if the service names them.
    configured: Option<BTreeSet<String>>,
    /// True if the caller may see all targets of the service.
    complete: bool,
    /// `namespace` and `slug` of each.
    apps: BTreeSet<(String, String)>,
    repositories: BTreeSet<String>,
    /// The owners' e-mail addresses.
    owners: BTreeSet<String>,
}

impl Context {
    /// Asks the service to do something with the app on a target.
    pub(super) async fn post_act<T: DeserializeOwned>(
        &self,
        target: &TargetName,
        act: &str,
        request: &impl Serialize,
    ) -> Result<T, CliError> {
        let app = self.server.find_app(&self.about).await?;
        let result = self.server.post(&act_path(target, &app, act), request).await;
        self.server.suggest(result, &self.about.names(Some(target))).await
    }
}

/// Returns the path of an act on an app.
pub(super) fn act_path(target: &TargetName, app: &AppKey, act: &str) -> String {
    format!("/api/v1/apps/{target}/{app}/{act}")
}

impl ServiceEndpoint {
    /// Checks the names after a command found nothing: returns a refusal for the first that the service does not know,
    /// with a suggestion. It succeeds if each name is known or possible, or the service cannot be asked.
    pub(super) async fn check_names(&self, names: &Names) -> CommandOutcome {
        self.suggest_names(names).await.map_or(Ok(()), Err)
    }

    async fn suggest_names(&self, names: &Names) -> Option<CliError> {
        let Names { target, app, repository, owner } = names;
        if target.is_none() && app.is_none() && repository.is_none() && owner.is_none() {
            return None;
        }
        let known_names = self.known_names(names).await?;
        judge(names, &known_names)
    }

    /// Returns the result; a refusal gets a suggestion for a name that the service does not know.
    pub(super) async fn suggest<T>(
        &self,
        result: Result<T, CliError>,
        names: &Names,
    ) -> Result<T, CliError> {
        match result {
            Err(error) if error.may_be_mistyped() => match self.suggest_names(names).await {
                Some(mistyped) => Err(error.explained_by(&mistyped)),
                None => Err(error),
            },
            result => result,
        }
    }

    /// Fetches the names; `None` if the service does not answer.
    async fn known_names(&self, names: &Names) -> Option<KnownNames> {
        let TargetList { targets, any, complete } = self.get("/api/v1/targets", &[]).await.ok()?;
        let configured: BTreeSet<_> = targets.into_iter().map(|target| target.name).collect();
        let mut known_names = KnownNames {
            targets: configured.clone(),
            configured: (!any).then_some(configured),
            complete,
            ..KnownNames::default()
        };
        for line in self.apps(&[], PAGES_FOR_NAMES).await.ok()?.apps {
            let AppSummary { target, namespace, app, repository, owner, .. } = line.value;
            known_names.targets.insert(target);
            known_names.apps.insert((namespace, app));
            known_names.repositories.extend(repository);
            known_names.owners.extend(owner);
        }
        for waml in RepositoryApps::find().iter().flat_map(RepositoryApps::wamls) {
            let AppKey { namespace, slug } = &waml.app;
            known_names.apps.insert((namespace.to_string(), slug.to_string()));
            if any {
                known_names.targets.extend(waml.targets().into_iter().map(ToString::to_string));
            }
        }
        // A deployment that never succeeded is in no manifest repository.
        if let Some(app) = &names.app {
            let query = [("app", app.to_string()), ("limit", "1".to_owned())];
            let list: DeploymentPage = self.get("/api/v1/deployments", &query).await.ok()?;
            if !list.deployments.is_empty() {
                known_names.apps.insert((app.namespace.to_string(), app.slug.to_string()));
            }
        }
        Some(known_names)
    }

    /// Returns the app of a command. Completes a slug or a repository from the service's apps.
    pub(super) async fn find_app(&self, about: &AppSelector) -> Result<AppKey, CliError> {
        let error = match about.app() {
            Ok(app) => return Ok(app),
            Err(error) => error,
        };
        let Some(partial) = about.partial() else { return Err(error) };
        let Ok(pages) = self.apps(&[], PAGES_FOR_NAMES).await else { return Err(error) };
        let apps: Vec<_> = pages.apps.into_iter().map(|line| line.value).collect();
        complete(&partial, &apps)
    }

    /// Returns the query parameter that selects the app's deployments.
    pub(super) async fn find_parameter(
        &self,
        about: &AppSelector,
    ) -> Result<(&'static str, String), CliError> {
        if about.names_app() {
            return Ok(("app", self.find_app(about).await?.to_string()));
        }
        about.parameter()
    }

    /// Reads those apps, in at most that many pages. The service leaves out apps that the caller may not see.
    pub(super) async fn apps(
        &self,
        filter: &[(&'static str, String)],
        pages: usize,
    ) -> Result<AppPages, CliError> {
        let (mut found_pages, mut cursor) = (AppPages::default(), None::<String>);
        for _ in 0..pages {
            let mut query = vec![("limit", "200".to_owned())];
            query.extend(filter.iter().cloned());
            query.extend(cursor.iter().map(|cursor| ("cursor", cursor.clone())));
            let page: AppPage<_, _> = self.get("/api/v1/apps", &query).await?;
            found_pages.apps.extend(page.apps);
            for missing in page.missing {
                if !found_pages.missing.contains(&missing) {
                    found_pages.missing.push(missing);
                }
            }
            cursor = page.next;
            found_pages.all = cursor.is_none();
            if found_pages.all || found_pages.apps.len() >= MAX_APPS {
                break;
            }
        }
        Ok(found_pages)
    }
}

/// Returns the one app that matches the partial name. Pure.
fn complete(partial: &PartialApp, apps: &[AppSummary]) -> Result<AppKey, CliError> {
    let fits = |app: &&AppSummary| match partial {
        PartialApp::Slug(slug) => app.app == slug.as_str(),
        PartialApp::Repository(repository) => {
            let name = app.repository.as_deref();
            name.is_some_and(|name| name.eq_ignore_ascii_case(repository.as_str()))
        }
    };
    let keys: BTreeSet<_> = apps
        .iter()
        .filter(fits)
        .filter_map(|app| {
            let namespace = Namespace::parse(app.namespace.as_str()).ok()?;
            Some(AppKey { namespace, slug: Slug::parse(app.app.as_str()).ok()? })
        })
        .collect();
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    match (Vec::from_iter(keys).as_slice(), partial) {
        ([key], _) => Ok(key.clone()),
        ([], PartialApp::Slug(slug)) => {
            let near = suggest::nearest(slug.as_str(), apps.iter().map(|app| app.app.as_str()));
            let near = near.and_then(|near| apps.iter().find(|app| app.app == near));
            let message = format!("there is no app `{slug}`");
            Err(match near {
                Some(AppSummary { namespace, app, .. }) => {
                    unknown_name(message, &format!("{namespace}/{app}"))
                }
                None => CliError::refused(message)
                    .hint("`bart status --all` lists the apps; name a new one as NAMESPACE/SLUG"),
            })
        }
        ([], PartialApp::Repository(repository)) => {
            let message = format!("nothing was deployed from the repository {repository}");
            let repositories = apps.iter().filter_map(|app| app.repository.as_deref());
            Err(match suggest::nearest(repository.as_str(), repositories) {
                Some(near) => unknown_name(message, near),
                None => CliError::refused(message).hint("name the app with --app NAMESPACE/SLUG"),
            })
        }
        (_, name) => {
            let name = match name {
                PartialApp::Slug(slug) => slug.as_str(),
                PartialApp::Repository(repository) => repository.as_str(),
            };
            let names = suggest::list(names.iter().map(String::as_str));
            Err(CliError::refused(format!("which app of {name} do you mean?"))
                .hint(format!("name one of {names} with --app")))
        }
    }
}

/// Checks the names against the known ones. Pure.
fn judge(names: &Names, known_names: &KnownNames) -> Option<CliError> {
    let Names { target, app, repository, owner } = names;
    let target = target.as_ref().and_then(|target| judge_target(target.as_str(), known_names));
    let app = || app.as_ref().and_then(|app| judge_app(app, known_names));
    let repository = || {
        let name = repository.as_ref()?.as_str();
        let near = suggest_name(name, &known_names.repositories)?;
        Some(unknown_name(format!("nothing was deployed from the repository {name}"), near))
    };
    let owner = || {
        let name = owner.as_deref()?;
        let near = suggest_name(name, &known_names.owners)?;
        Some(unknown_name(format!("no app has the owner {name}"), near))
    };
    target.or_else(app).or_else(repository).or_else(owner)
}

/// Returns the known name that was probably meant, if the given one is unknown.
fn suggest_name<'k>(name: &str, names: &'k BTreeSet<String>) -> Option<&'k str> {
    let is_known = names.iter().any(|known_name| known_name.eq_ignore_ascii_case(name));
    if is_known { None } else { suggest::nearest(name, names.iter().map(String::as_str)) }
}

fn judge_target(name: &str, known_names: &KnownNames) -> Option<CliError> {
    if known_names.targets.contains(name) {
        return None;
    }
    if let Some(configured) = &known_names.configured {
        let limit = if known_names.complete { "" } else { " that you may see" };
        let error = CliError::refused(format!("the service has no target `{name}`{limit}"));
        return Some(error.hint(suggest::hint(name, configured.iter().map(String::as_str))));
    }
    // Any name may be a target: only a typo of a known one is a mistake.
    let near = suggest::nearest(name, known_names.targets.iter().map(String::as_str))?;
    Some(unknown_name(format!("nothing was deployed to a target `{name}`"), near))
}

/// Checks an app: a new name is no mistake, a typo of a known one is. The slug and the namespace are compared
/// separately, because apps of one namespace begin alike.
fn judge_app(app: &AppKey, known_names: &KnownNames) -> Option<CliError> {
    let (namespace, slug) = (app.namespace.as_str(), app.slug.as_str());
    if known_names.apps.contains(&(namespace.to_owned(), slug.to_owned())) {
        return None;
    }
    let neighbours = known_names.apps.iter().filter(|(other, _)| other == namespace);
    let (namespace, slug) = match suggest::nearest(slug, neighbours.map(|(_, slug)| slug.as_str()))
    {
        Some(slug) => (namespace, slug),
        None => (known_names.apps.iter().find(|(_, other)| other == slug)?.0.as_str(), slug),
    };
    Some(unknown_name(format!("there is no app `{app}`"), &format!("{namespace}/{slug}")))
}

fn unknown_name(message: String, near: &str) -> CliError {
    CliError::refused(message).hint(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::RepoName;

    fn make_known_names(configured: Option<&[&str]>) -> KnownNames {
        let names = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let app = |(namespace, slug): (&str, &str)| (namespace.to_owned(), slug.to_owned());
        KnownNames {
            targets: names(&["dev", "prod-eu"]),
            configured: configured.map(names),
            complete: true,
            apps: [("devx", "shop"), ("devx", "cart"), ("pay", "till")].map(app).into(),
            repositories: names(&["acme/shop", "acme/till"]),
            owners: names(&["squad@example.com"]),
        }
    }

    fn app(text: &str) -> Option<AppKey> {
        let (namespace, slug) = text.split_once('/')?;
        let namespace = Namespace::parse(namespace).ok()?;
        Some(AppKey { namespace, slug: Slug::parse(slug).ok()? })
    }

    #[test]
    fn a_slip_is_told_and_a_new_name_is_none() {
        let target = |name: &str| Names { target: Some(name.parse().unwrap()), ..Names::default() };
        let of_app = |name: &str| Names { app: app(name), ..Names::default() };
        let repository = |name: &str| Names {
            repository: Some(RepoName::parse(name).unwrap()),
            ..Names::default()
        };
        let owner = |name: &str| Names { owner: Some(name.to_owned()), ..Names::default() };
        let configured: Option<&[&str]> = Some(&["dev", "prod-eu"]);
        for (names, configured, expected) in [
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
            (owner("squad@example.com"), None, None),
            (owner("squd@example.com"), None, Some("; did you mean `squad@example.com`?")),
            (owner("ops@example.org"), None, None),
            (
                Names { app: app("devx/shopp"), ..target("prod-ue") },
                configured,
                Some("did you mean `prod-eu`?"),
            ),
        ] {
            let message = judge(&names, &make_known_names(configured)).map(|error| error.whole());
            match (&message, expected) {
                (Some(message), Some(expected)) => {
                    assert!(message.ends_with(expected), "{message}");
                }
                (message, expected) => assert_eq!(message.as_deref(), expected, "{names:?}"),
            }
        }
    }

    #[test]
    fn an_app_is_found_by_its_slug_or_its_repository_where_there_is_one() {
        let summary = |namespace: &str, app: &str, repository: &str| AppSummary {
            target: "dev".to_owned(),
            namespace: namespace.to_owned(),
            app: app.to_owned(),
            repository: Some(repository.to_owned()),
            owner: None,
            live_revision: None,
            tag: None,
            at: None,
            hosts: Vec::new(),
            locked: false,
            held: false,
            failed: None,
        };
        let apps = [
            summary("devx", "shop", "acme/shop"),
            summary("devx", "cart", "acme/both"),
            summary("pay", "till", "acme/both"),
            summary("pay", "cart", "acme/pay"),
        ];
        let slug = |text: &str| PartialApp::Slug(Slug::parse(text).unwrap());
        let repository = |text: &str| PartialApp::Repository(RepoName::parse(text).unwrap());
        for (partial, expected) in [
            (slug("shop"), "devx/shop"),
            (repository("Acme/Shop"), "devx/shop"),
            (slug("shpo"), "there is no app `shpo`; did you mean `devx/shop`?"),
            (slug("moon"), "there is no app `moon`; `bart status --all`"),
            (
                slug("cart"),
                "which app of cart do you mean?; name one of `devx/cart` and `pay/cart`",
            ),
            (repository("acme/both"), "which app of acme/both do you mean?; name one of"),
            (repository("acme/shpo"), "the repository acme/shpo; did you mean `acme/shop`?"),
            (repository("other/name"), "the repository other/name; name the app with --app"),
        ] {
            let result = complete(&partial, &apps);
            let message = result.map_or_else(|error| error.whole(), |app| app.to_string());
            assert!(message.contains(expected), "{message}");
        }
    }
}
