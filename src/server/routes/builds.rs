//! `/api/v1/builds`: lists the builds that can be deployed, and where each is live.

use axum::Json;

use crate::api::builds::{BuildPage, BuildSummary, BuildsRequest};
use crate::deployments::builds::{
    AppImage, Build, BuildListError, Builds, BuildsOfWaml, BuildsPage, BuildsQuery,
};
use crate::model::callers::Scope;
use crate::model::id::{IdError, RepoName, TargetName};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, Payload, QueryPairs, bad, unprocessable};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{Params, limit, quote_value};

const DEFAULT_LIMIT: u32 = 20;
/// The largest page: most registries take one to three requests for each build.
const MAX: u32 = 100;

/// The number of builds after which no older ones are listed: no caller can have a whole registry read, page by page.
const OLDEST: u32 = 1_000;

/// The parameters of the list.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text("app", Form::APP, "The app, `namespace/slug`.").required(),
    Parameter::text(
        "target",
        Form::TARGET,
        "The target whose WAML section names the image; any target by default.",
    ),
    Parameter::new(
        "limit",
        ParameterForm::Number(1, 100),
        "The largest number of results; 20 by default.",
    ),
    Parameter::new(
        "cursor",
        ParameterForm::Number(0, OLDEST as i64),
        "The `next` of the page before.",
    ),
];

/// Lists the newest builds of an app, from the registry of its image.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<BuildPage>, Problem> {
    let query = read(&pairs).map_err(bad)?;
    match query.target.clone() {
        Some(target) => {
            call.authorize(Scope::Read, Resource::App(target, query.app.clone())).await?;
        }
        None => authorize_any(&call, &query).await?,
    }
    let image = call.deployments().find_image(&query).await?;
    list_visible(&call, &image, query.page).await
}

/// Lists the newest builds of the app of a WAML.
pub(super) async fn of_waml(
    call: AuthenticatedRequest,
    Payload(body): Payload<BuildsRequest>,
) -> Result<Json<BuildPage>, Problem> {
    let request = read_request(body).map_err(unprocessable)?;
    let on = |target: Option<TargetName>| Resource::Repository(request.repository.clone(), target);
    call.authorize(Scope::Read, on(request.target.clone())).await?;
    let image = call.deployments().find_image_of_waml(request.clone()).await?;
    // A repository may have apps outside the token's rights, and a WAML may name any.
    let resource = Resource::App(image.target.clone(), image.app.clone());
    if call.caller.rights().is_some_and(|rights| !rights.hold(Scope::Read, &resource, &[])) {
        let detail = format!("the token may not see {}, the app of the WAML", image.app);
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    // The service uses the operator's login at the registry, and a WAML may name any image.
    if !image.is_named_like_its_repository() {
        let deploys = call.authorize(Scope::Deploy, on(Some(image.target.clone()))).await;
        deploys.map_err(|problem| other_image_problem(problem, &image))?;
    }
    list_visible(&call, &image, request.page).await
}

/// Explains why the builds of an image with another name than the repository are not listed.
fn other_image_problem(problem: Problem, image: &AppImage) -> Problem {
    if problem.kind() != ProblemKind::Forbidden {
        return problem;
    }
    let detail = format!(
        "{} has another name than {}: its builds are listed only for callers who may deploy that \
         repository",
        image.image, image.release.repository
    );
    Problem::new(ProblemKind::Forbidden, detail)
}

/// Lists the builds, with what is live on the targets that the caller may see.
async fn list_visible(
    call: &AuthenticatedRequest,
    image: &AppImage,
    page: BuildsPage,
) -> Result<Json<BuildPage>, Problem> {
    let on = |target: &TargetName| Resource::App(target.clone(), image.app.clone());
    let visible = call.filter_visible(image.targets.clone(), on).await?;
    Ok(Json(call.deployments().list_builds(image, &visible, page).await?.into()))
}

/// Checks a caller who names no target: one who may not see the app does not learn whether it exists, or where.
async fn authorize_any(call: &AuthenticatedRequest, query: &BuildsQuery) -> Result<(), Problem> {
    let is_allowed = match call.deployments().find_image_target(query).await {
        Ok(target) => call.can_read(&Resource::App(target, query.app.clone())).await?,
        Err(BuildListError::Unknown(detail)) => {
            if call.can_read(&Resource::Everywhere).await? {
                return Err(BuildListError::Unknown(detail).into());
            }
            false
        }
        Err(error) => return Err(error.into()),
    };
    let detail = format!(
        "{} may not see the newest deployment of {}, or there is none; name a `target` that you may see",
        call.caller.name, query.app
    );
    if is_allowed { Ok(()) } else { Err(Problem::new(ProblemKind::Forbidden, detail)) }
}

/// Reads the parameters; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<BuildsQuery, String> {
    let params = Params::of(pairs, QUERY)?;
    let page = BuildsPage {
        limit: params.read("limit", limit)?.map_or(DEFAULT_LIMIT, |limit| limit.min(MAX)),
        after: params.read("cursor", cursor)?.unwrap_or(0),
    };
    let app = params.app()?.ok_or("app is missing: name it like app=NAMESPACE/SLUG")?;
    Ok(BuildsQuery { app, target: params.id("target", TargetName::parse)?, page })
}

fn read_request(request: BuildsRequest) -> Result<BuildsOfWaml, String> {
    let BuildsRequest { repository, waml, target, limit, cursor: place } = request;
    let text = |error: IdError| error.to_string();
    Ok(BuildsOfWaml {
        repository: RepoName::parse(repository).map_err(text)?,
        waml,
        target: target.map(TargetName::parse).transpose().map_err(text)?,
        page: BuildsPage {
            limit: limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX),
            after: place.map_or(Ok(0), |place| cursor(&place))?,
        },
    })
}

fn cursor(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number <= OLDEST);
    number.ok_or_else(|| {
        format!("cursor: {} is not the `next` of a page; builds beyond the newest {OLDEST} are not listed", quote_value(value))
    })
}

impl From<BuildListError> for Problem {
    fn from(error: BuildListError) -> Self {
        match error {
            BuildListError::Unknown(detail) => Self::new(ProblemKind::NotFound, detail),
            BuildListError::NoImage(detail) => Self::new(ProblemKind::Unprocessable, detail),
            BuildListError::Unavailable(detail) => Self::new(ProblemKind::Unavailable, detail),
            BuildListError::Fault(error) => {
                tracing::error!(%error, "builds could not be listed");
                Self::new(ProblemKind::Unavailable, "builds cannot be listed now; try again later")
            }
        }
    }
}

impl From<Build> for BuildSummary {
    fn from(build: Build) -> Self {
        let Build { tag, digest, created, commit, live } = build;
        let live = live.into_iter().map(String::from).collect();
        Self { tag, digest, created, commit, live }
    }
}

impl From<Builds> for BuildPage {
    fn from(list: Builds) -> Self {
        let Builds { image, builds, next, tags, complete, unknown, notes: further } = list;
        let unknown = unknown.into_iter();
        let unknown = unknown
            .map(|(target, reason)| format!("the live revision on {target} is unknown: {reason}"));
        let mut notes: Vec<String> = unknown.chain(further).collect();
        if next.is_some_and(|next| next > OLDEST) {
            notes.push(format!("builds beyond the newest {OLDEST} are not listed"));
        }
        let next = next.filter(|next| *next <= OLDEST).map(|next| next.to_string());
        let builds = builds.into_iter().map(BuildSummary::from).collect();
        Self { image, builds, next, tags, complete, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::forms;

    fn pairs(text: &[(&str, &str)]) -> Result<BuildsQuery, String> {
        let to_owned_pair =
            |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(to_owned_pair).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let params = [("app", "devx/shop"), ("target", "prod"), ("limit", "200"), ("cursor", "40")];
        let BuildsQuery { app, target, page: BuildsPage { limit, after } } =
            pairs(&params).unwrap();
        assert_eq!(after, 40);
        assert_eq!((app.to_string().as_str(), target.unwrap().as_str()), ("devx/shop", "prod"));
        assert_eq!(limit, MAX, "a question of a registry is dear");
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
        for (params, expected) in [
            (&[][..], "app is missing"),
            (&[("app", "shop")][..], "app: \"shop\" is not NAMESPACE/SLUG"),
            (&[("app", "A/b")][..], "app: "),
            (&[("app", "a/b"), ("app", "a/b")][..], "\"app\" is given twice"),
            (&[("app", "a/b"), ("cursor", "x")][..], "cursor: \"x\" is not the `next` of a page"),
            (&[("app", "a/b"), ("state", "x")][..], "\"state\" is not known: use app, target"),
        ] {
            let message = pairs(params).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
