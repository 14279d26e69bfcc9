//! Which address is what, and what one needs to be let in.

use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::app::{self, Who};
use crate::harness::github::call::Call;
use crate::harness::github::state::{Level, Needs, State, person};
use crate::harness::github::{
    checks, comments, deliveries, deployments, oauth, people, pulls, registration, repositories,
    statuses,
};

pub(super) fn route(state: &mut State, call: &Call, who: &Who) -> Answered {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    match (call.method.as_str(), path.as_slice()) {
        ("GET", ["rate_limit"]) => ok(&serde_json::json!({"resources": {}})),
        (_, ["app", rest @ ..]) => {
            app::as_app(who)?;
            of_the_app(state, call, rest)
        }
        ("GET", ["installation", "repositories"]) => app::repositories(state, call, who),
        ("GET", ["login", "oauth", "authorize"]) => oauth::authorize(state, call),
        ("POST", ["settings", "apps", "new"]) => registration::form(state, call, None),
        ("POST", ["organizations", organization, "settings", "apps", "new"]) => {
            registration::form(state, call, Some(organization))
        }
        ("POST", ["app-manifests", code, "conversions"]) => {
            registration::convert(state, call, code)
        }
        ("POST", ["login", "oauth", "access_token"]) => oauth::access_token(state, call),
        ("GET", ["user"]) => people::this(who),
        ("GET", ["orgs", organization, "teams", team, "memberships", login]) => {
            people::membership(state, who, &format!("{organization}/{team}"), login)
        }
        ("GET", ["users", login]) => ok(&person(state, login)?),
        (_, ["repos", owner, name, rest @ ..]) => {
            let name = format!("{owner}/{name}");
            match state.by_name(&name) {
                Some(id) => in_repository(state, call, who, id, rest),
                None => moved(state, call, &name, rest),
            }
        }
        (_, ["repositories", id, rest @ ..]) => {
            let id = id.parse().ok().filter(|id| state.repositories.contains_key(id));
            in_repository(state, call, who, id.ok_or_else(Answer::not_found)?, rest)
        }
        _ => Err(Answer::not_found()),
    }
}

fn of_the_app(state: &mut State, call: &Call, rest: &[&str]) -> Answered {
    match (call.method.as_str(), rest) {
        ("GET", []) => app::this(state, call),
        ("GET", ["installations"]) => app::installations(state, call),
        ("POST", ["installations", id, "access_tokens"]) => app::access_token(state, call, id),
        ("GET", ["hook", "deliveries"]) => deliveries::list(state, call),
        ("GET", ["hook", "deliveries", id]) => deliveries::one(state, id),
        ("POST", ["hook", "deliveries", id, "attempts"]) => deliveries::again(state, id),
        _ => Err(Answer::not_found()),
    }
}

/// A renamed repository: GET is sent on by 301, everything else by 307, which keeps the method.
fn moved(state: &State, call: &Call, name: &str, rest: &[&str]) -> Answered {
    let id = state.former_names.get(&name.to_lowercase()).ok_or_else(Answer::not_found)?;
    let (status, says) =
        if call.writes() { (307, "Temporary Redirect") } else { (301, "Moved Permanently") };
    let query = call.target.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
    let rest: String = rest.iter().map(|part| format!("/{part}")).collect();
    let to = format!("{}/repositories/{id}{rest}{query}", call.base);
    let body = serde_json::json!({"message": says, "url": to});
    Err(Answer::json(status, &body).with("location", to))
}

/// What works on a request to a repository; it gets what stands after the repository's name.
type Handler = fn(&mut State, &Call, &Who, i64, &[&str]) -> Answered;

fn in_repository(state: &mut State, call: &Call, who: &Who, repo: i64, rest: &[&str]) -> Answered {
    if rest == ["installation"] {
        app::as_app(who)?;
        return app::installation_of(state, repo);
    }
    let (needs, handler) = handler(call.method.as_str(), rest).ok_or_else(Answer::not_found)?;
    // Whoever may not even see it is told that it is not there.
    app::may(state, who, repo, ("metadata", Level::Read))?;
    app::may(state, who, repo, needs)?;
    if call.writes() && state.repo(repo).archived {
        return Err(Answer::refusal(403, "Repository was archived so is read-only."));
    }
    handler(state, call, who, repo, rest)
}

fn handler(method: &str, rest: &[&str]) -> Option<(Needs, Handler)> {
    use Level::{Read, Write};
    let found: (Needs, Handler) = match (method, rest) {
        ("GET", []) => (("metadata", Read), repositories::this),
        ("GET", ["collaborators", _, "permission"]) => (("metadata", Read), people::permission),
        ("GET", ["contents", ..]) => (("contents", Read), repositories::contents),
        ("PUT", ["contents", ..]) => (("contents", Write), repositories::put_contents),
        ("POST", ["git", "refs"]) => (("contents", Write), repositories::create_ref),
        ("DELETE", ["git", "refs", "heads", ..]) => {
            (("contents", Write), repositories::delete_branch)
        }
        ("POST", ["pulls"]) => (("pull_requests", Write), pulls::create),
        ("GET", ["branches"]) => (("contents", Read), repositories::branches),
        ("GET", ["branches", ..]) => (("contents", Read), repositories::branch),
        ("GET", ["compare", ..]) => (("contents", Read), repositories::compare),
        ("GET", ["commits", _]) => (("contents", Read), repositories::commit),
        ("GET", ["commits", _, "status"]) => (("statuses", Read), statuses::combined),
        ("GET", ["commits", _, "statuses"] | ["statuses", _]) => {
            (("statuses", Read), statuses::list)
        }
        ("POST", ["statuses", _]) => (("statuses", Write), statuses::create),
        ("GET", ["commits", _, "check-runs"]) => (("checks", Read), checks::list),
        ("POST", ["check-runs"]) => (("checks", Write), checks::create),
        ("GET", ["check-runs", _]) => (("checks", Read), checks::one),
        ("PATCH", ["check-runs", _]) => (("checks", Write), checks::update),
        ("GET", ["check-runs", _, "annotations"]) => (("checks", Read), checks::annotations),
        ("GET", ["deployments"]) => (("deployments", Read), deployments::list),
        ("POST", ["deployments"]) => (("deployments", Write), deployments::create),
        ("GET", ["deployments", _]) => (("deployments", Read), deployments::one),
        ("GET", ["deployments", _, "statuses"]) => (("deployments", Read), deployments::statuses),
        ("POST", ["deployments", _, "statuses"]) => (("deployments", Write), deployments::report),
        ("GET", ["issues", _, "comments"]) => (("pull_requests", Read), comments::list),
        ("POST", ["issues", _, "comments"]) => (("pull_requests", Write), comments::create),
        ("PATCH", ["issues", "comments", _]) => (("pull_requests", Write), comments::update),
        ("GET", ["pulls"]) => (("pull_requests", Read), pulls::list),
        ("GET", ["pulls", _]) => (("pull_requests", Read), pulls::one),
        ("GET", ["pulls", _, "files"]) => (("pull_requests", Read), pulls::files),
        _ => return None,
    };
    Some(found)
}
