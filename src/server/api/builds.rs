//! `/api/v1/builds`: what could be deployed, and where it is.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::{Extension, Json};

use crate::api::builds::{BuildPage, BuildSummary, BuildsRequest};
use crate::deployments::builds::{
    AppImage, Build, Builds, BuildsOfWaml, BuildsPage, BuildsQuery, NoBuilds,
};
use crate::model::id::{IdError, RepoName, TargetName};
use crate::server::Shared;
use crate::server::api::apps::unread;
use crate::server::api::query;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::{Form, Is, Operation, Parameter};
use crate::server::problem::{Kind, Problem};

const DEFAULT_LIMIT: u32 = 20;
/// Each build of most registries is a question or three.
const MOST: u32 = 100;

/// A registry is not asked about older ones, page by page.
const OLDEST: u32 = 1_000;

const KNOWN: &str = "app, target, limit, cursor";

/// What the list may be asked.
const QUERY: &[Parameter] = &[
    Parameter::text("app", Form::APP, "The app, `namespace/slug`.").required(),
    Parameter::text(
        "target",
        Form::TARGET,
        "The cluster whose WAML section names the image; absent: any.",
    ),
    Parameter::of("limit", Is::Number(1, 100), "At most so many; 20 where it is absent."),
    Parameter::of("cursor", Is::Number(0, OLDEST as i64), "The `next` of the page before."),
];

/// What is said of [`of_waml`].
pub(super) fn of_waml_operation() -> Operation {
    Operation::reads("listBuildsOfWaml", "What could be deployed of the app of a WAML.")
        .about("For an app that was never deployed. Nothing is recorded.")
        .takes::<BuildsRequest>()
        .gives::<BuildPage>(200, "The newest builds of its image.")
}

/// What is said of [`list`].
pub(super) fn operation() -> Operation {
    Operation::reads("listBuilds", "What could be deployed of an app, and where it is live.")
        .query(QUERY)
        .gives::<BuildPage>(200, "The newest builds of its image.")
        .fails(&[Kind::NotFound, Kind::Unprocessable])
}

/// The newest builds of an app, from the registry of its image.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<BuildPage>, Problem> {
    let bad = |detail: String| Problem::new(Kind::BadRequest, detail);
    let Query(pairs) = pairs.map_err(|_| bad("the query string cannot be read".to_owned()))?;
    let query = read(&pairs).map_err(bad)?;
    let on = |target: TargetName| Subject::App(target, query.app.clone());
    match query.target.clone() {
        Some(target) => shared.may(&caller, Scope::Read, &on(target)).await?,
        None => sees_any(&shared, &caller, &query).await?,
    }
    let image = shared.state.deployments.find_image(&query).await.map_err(refused)?;
    list_visible(&shared, &caller, &image, query.page).await
}

/// The newest builds of the app of a WAML.
pub(super) async fn of_waml(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    body: Result<Json<BuildsRequest>, JsonRejection>,
) -> Result<Json<BuildPage>, Problem> {
    let Json(body) = body.map_err(|error| unread(&error))?;
    let request = read_request(body).map_err(|error| Problem::new(Kind::Unprocessable, error))?;
    let on = |target: Option<TargetName>| Subject::Repository(request.repository.clone(), target);
    shared.may(&caller, Scope::Read, &on(request.target.clone())).await?;
    let page = request.page;
    let image =
        shared.state.deployments.find_image_of_waml(request.clone()).await.map_err(refused)?;
    // A repository may have apps that a token is not for, and a WAML may name any.
    let subject = Subject::App(image.target.clone(), image.app.clone());
    if caller.rights().is_some_and(|rights| !rights.hold(Scope::Read, &subject, &[])) {
        let detail = format!("the token may not see {}, of which the WAML is", image.app);
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    // The registry is asked with the operator's login, and a WAML may name any image.
    if !image.is_named_like_its_repository() {
        let deploys = shared.may(&caller, Scope::Deploy, &on(Some(image.target.clone()))).await;
        deploys.map_err(|problem| of_another_image(problem, &image))?;
    }
    list_visible(&shared, &caller, &image, page).await
}

/// Why the builds of an image are not listed whose name is not the repository's.
fn of_another_image(problem: Problem, image: &AppImage) -> Problem {
    if problem.kind() != Kind::Forbidden {
        return problem;
    }
    let detail = format!(
        "{} is not named like {}: its builds are listed for callers who may deploy from there",
        image.image, image.release.repository
    );
    Problem::new(Kind::Forbidden, detail)
}

/// The builds, with what is live on the targets that the caller may see.
async fn list_visible(
    shared: &Shared,
    caller: &Caller,
    image: &AppImage,
    page: BuildsPage,
) -> Result<Json<BuildPage>, Problem> {
    let on = |target: &TargetName| Subject::App(target.clone(), image.app.clone());
    let visible = shared.seen(caller, image.targets.clone(), on).await?;
    let builds =
        shared.state.deployments.list_builds(image, &visible, page).await.map_err(refused)?;
    Ok(Json(view(builds)))
}

/// Where no target is named: who may not see the app is not told whether there is one, or where.
async fn sees_any(shared: &Shared, caller: &Caller, query: &BuildsQuery) -> Result<(), Problem> {
    let sees = match shared.state.deployments.built_for(query).await {
        Ok(target) => shared.sees(caller, &Subject::App(target, query.app.clone())).await?,
        Err(NoBuilds::Unknown(detail)) => {
            if shared.sees(caller, &Subject::Everywhere).await? {
                return Err(refused(NoBuilds::Unknown(detail)));
            }
            false
        }
        Err(other) => return Err(refused(other)),
    };
    let detail = format!(
        "{} may not see the newest deployment of {}, or there is none; name a `target` that you may see",
        caller.name, query.app
    );
    if sees { Ok(()) } else { Err(Problem::new(Kind::Forbidden, detail)) }
}

/// Reads the parameters, each at most once; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<BuildsQuery, String> {
    query::once(pairs)?;
    let (mut app, mut target, mut limit, mut after) = (None, None, DEFAULT_LIMIT, 0);
    for (name, value) in pairs {
        match name.as_str() {
            "app" => app = Some(query::app(value)?),
            "target" => target = Some(query::id(name, value, TargetName::parse)?),
            "limit" => limit = query::limit(value)?.min(MOST),
            "cursor" => after = cursor(value)?,
            _ => return Err(format!("{} is not known: use {KNOWN}", query::shown(name))),
        }
    }
    let app = app.ok_or("app is missing: name it like app=NAMESPACE/SLUG")?;
    Ok(BuildsQuery { app, target, page: BuildsPage { limit, after } })
}

fn read_request(request: BuildsRequest) -> Result<BuildsOfWaml, String> {
    let BuildsRequest { repository, waml, target, limit, cursor: place } = request;
    let text = |error: IdError| error.to_string();
    Ok(BuildsOfWaml {
        repository: RepoName::parse(repository).map_err(text)?,
        waml,
        target: target.map(TargetName::parse).transpose().map_err(text)?,
        page: BuildsPage {
            limit: limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MOST),
            after: place.map_or(Ok(0), |place| cursor(&place))?,
        },
    })
}

fn cursor(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number <= OLDEST);
    number.ok_or_else(|| {
        format!("cursor: {} is not the `next` of a page; builds beyond the newest {OLDEST} are not listed", query::shown(value))
    })
}

fn refused(error: NoBuilds) -> Problem {
    match error {
        NoBuilds::Unknown(detail) => Problem::new(Kind::NotFound, detail),
        NoBuilds::NoImage(detail) => Problem::new(Kind::Unprocessable, detail),
        NoBuilds::NotKnown(detail) => Problem::new(Kind::Unavailable, detail),
        NoBuilds::Fault(error) => {
            tracing::error!(%error, "builds could not be listed");
            Problem::new(Kind::Unavailable, "builds cannot be listed now; come again")
        }
    }
}

fn view(builds: Builds) -> BuildPage {
    let Builds { image, builds, next, tags, complete, unknown, notes } = builds;
    let unknown = unknown.into_iter();
    let unknown =
        unknown.map(|(target, why)| format!("what is live on {target} is not known: {why}"));
    let notes: Vec<String> = unknown.chain(notes).collect();
    let one = |build: Build| {
        let Build { tag, digest, created, commit, live } = build;
        let live = live.into_iter().map(String::from).collect();
        BuildSummary { tag, digest, created, commit, live }
    };
    let mut notes = notes;
    if next.is_some_and(|next| next > OLDEST) {
        notes.push(format!("builds beyond the newest {OLDEST} are not listed"));
    }
    let next = next.filter(|next| *next <= OLDEST).map(|next| next.to_string());
    BuildPage { image, builds: builds.into_iter().map(one).collect(), next, tags, complete, notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::forms;

    fn pairs(text: &[(&str, &str)]) -> Result<BuildsQuery, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let given = [("app", "devx/shop"), ("target", "prod"), ("limit", "200"), ("cursor", "40")];
        let BuildsQuery { app, target, page: BuildsPage { limit, after } } = pairs(&given).unwrap();
        assert_eq!(after, 40);
        assert_eq!((app.to_string().as_str(), target.unwrap().as_str()), ("devx/shop", "prod"));
        assert_eq!(limit, MOST, "a question of a registry is dear");
        assert_eq!(pairs(&[("app", "devx/shop")]).unwrap().page.limit, DEFAULT_LIMIT);
    }

    #[test]
    fn the_contract_allows_the_next_of_every_page() {
        forms::tests::hold(Form::PLACE, |text| cursor(&text).is_ok());
        let pattern = Form::PLACE.schema()["pattern"].as_str().map(regex::Regex::new);
        let pattern = pattern.unwrap().unwrap();
        for next in 0..=OLDEST {
            assert!(pattern.is_match(&next.to_string()), "{next}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        for (all, says) in [
            (&[][..], "app is missing"),
            (&[("app", "shop")][..], "app: \"shop\" is not NAMESPACE/SLUG"),
            (&[("app", "A/b")][..], "app: "),
            (&[("app", "a/b"), ("app", "a/b")][..], "\"app\" is given twice"),
            (&[("app", "a/b"), ("cursor", "x")][..], "cursor: \"x\" is not the `next` of a page"),
            (&[("app", "a/b"), ("state", "x")][..], "\"state\" is not known: use app, target"),
        ] {
            let said = pairs(all).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
