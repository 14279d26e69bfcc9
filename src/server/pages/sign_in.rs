//! The page on which people sign in and out, and the forms behind it.
//!
//! ```text
//! GET  /account             who has signed in; the ways to sign in
//! POST /sign-in/github      cookie of the sign-in ─▶ page that leads to GitHub
//! GET  /sign-in/callback    state, code ─▶ session ─▶ 303 to where the reader came from
//! POST /sign-in/token       token ─▶ session
//! POST /sign-out            ends this session, or all of the account
//! ```
//!
//! Before a sign-in begins there is no cookie. These routes have a few slots of their own: who floods them keeps no
//! page and no act from anybody.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts as _, Request, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::server::auth::{BrowserSession, FinishedSignIn, SignInStart, equal_texts, local_path};
use crate::server::call::{QueryPairs, bad};
use crate::server::pages::acts::form::{FORM_TOKEN, read_public_form};
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::{fault, html, with_forms};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;
use crate::support::percent::encode_segment;

/// The number of sign-ins that are handled at once.
const AT_ONCE: usize = 16;
/// The header by which a page leads on to another.
const REFRESH: HeaderName = HeaderName::from_static("refresh");
/// The largest form of a sign-in, in bytes: a token and a path.
const LARGEST_FORM: usize = 8 * 1024;

/// Builds the routes of sign-ins.
pub(in crate::server) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    Router::new()
        .route("/account", get(account))
        .route("/sign-in/github", post(begin))
        .route("/sign-in/callback", get(finish))
        .route("/sign-in/token", post(with_token))
        .route("/sign-out", post(sign_out))
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .layer(from_fn_with_state((shared.clone(), slots), guarded))
}

/// Takes a slot, and refuses forms of other sites. A form is read within the time for bodies.
async fn guarded(
    State((shared, slots)): State<(Arc<Shared>, Arc<Semaphore>)>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let _slot = slots.try_acquire().map_err(|_| {
        tracing::warn!(most = AT_ONCE, "limit of concurrent sign-ins reached");
        let detail = "too many people sign in at once; try again";
        Problem::new(ProblemKind::TooMany, detail).after(Duration::from_secs(1))
    })?;
    shared.state.auth.is_for_us(&request)?;
    if request.method() == Method::POST {
        shared.state.auth.check_origin(request.headers())?;
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

#[derive(Template)]
#[template(path = "acts/account.html")]
struct AccountPage<'a> {
    frame: Frame,
    /// The person or token that has signed in, and how.
    account: Option<(&'a str, &'a str)>,
    /// The token of the forms of the session.
    token: &'a str,
    /// True if no sign-in is needed.
    is_open: bool,
    /// The code host at which people sign in.
    host: Option<&'a str>,
    takes_tokens_of_people: bool,
    /// The path to which a sign-in leads back.
    to: &'a str,
    problem: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "acts/leaving.html")]
struct LeavingPage<'a> {
    frame: Frame,
    url: &'a str,
    host: &'a str,
}

fn account_frame(title: &str) -> Frame {
    Frame { title: title.to_owned(), section: PageSection::Account, ..Frame::default() }
}

async fn account(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let query = QueryPairs::from_request_parts(&mut parts, &shared).await?;
    let to = local_path(query.value("to").unwrap_or("/"));
    account_page(&shared, &parts, &to, None).await
}

/// Shows the page, with what is wrong if an attempt failed.
async fn account_page(
    shared: &Shared,
    parts: &Parts,
    to: &str,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let auth = &shared.state.auth;
    let session = auth.session_of(parts).await?;
    let caller = session.as_ref().map(|session| &session.caller);
    let page = AccountPage {
        frame: account_frame("account"),
        account: caller.map(|caller| (&*caller.name, caller.via.as_str())),
        token: session.as_ref().map_or("", |session| session.form_token.as_str()),
        is_open: auth.needs_no_token(),
        host: auth.sign_in_host(),
        takes_tokens_of_people: auth.admission.github.is_some(),
        to,
        problem: problem.map(Problem::detail),
    };
    let status = problem.and_then(|problem| StatusCode::from_u16(problem.kind().status()).ok());
    let text = page.render().map_err(PageError::from).map_err(fault)?;
    Ok(with_forms(html(status.unwrap_or(StatusCode::OK), text)))
}

/// Begins a sign-in at GitHub. The answer is a page and no redirect: a redirect of a form would have to be in the
/// policy of the page before, with every address to which GitHub may lead on.
async fn begin(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let field = read_public_form(request, &shared).await?;
    let auth = &shared.state.auth;
    let SignInStart { url, cookie } = auth.begin_sign_in(&field("to").unwrap_or_default())?;
    let host = auth.sign_in_host().unwrap_or_default();
    let page = LeavingPage { frame: account_frame("sign in"), url: &url, host };
    let text = page.render().map_err(PageError::from).map_err(fault)?;
    let mut response = html(StatusCode::OK, text);
    response.headers_mut().append(SET_COOKIE, cookie);
    let onward = HeaderValue::from_str(&format!("0; url={url}"));
    response.headers_mut().insert(REFRESH, onward.map_err(|_| bad("this leads nowhere"))?);
    Ok(response)
}

/// Ends a sign-in with what GitHub has sent the browser back with.
async fn finish(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let query = QueryPairs::from_request_parts(&mut parts, &shared).await?;
    let value = |name: &str| query.value(name).unwrap_or_default();
    let finished = if value("error").is_empty() {
        shared.state.auth.finish_sign_in(&parts, value("state"), value("code")).await
    } else {
        // What stands in the address is anybody's.
        let detail = match value("error") {
            "access_denied" => "you did not let GitHub tell this service who you are",
            _ => "GitHub did not sign you in",
        };
        Err(bad(detail))
    };
    match finished {
        Ok(FinishedSignIn { path, cookies }) => {
            let mut response = see_other(&path);
            for cookie in cookies {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
            Ok(response)
        }
        Err(problem) => account_page(&shared, &parts, "/", Some(&problem)).await,
    }
}

/// Signs in with a token.
async fn with_token(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let field = read_public_form(Request::from_parts(parts.clone(), body), &shared).await?;
    let to = local_path(&field("to").unwrap_or_default());
    let auth = &shared.state.auth;
    let address = auth.client_ip(&parts.extensions, &parts.headers);
    let token = field("token").map(|token| token.trim().to_owned()).unwrap_or_default();
    let signed_in = if auth.needs_no_token() {
        Err(bad("this service needs no sign-in"))
    } else if token.is_empty() {
        Err(bad("write a token"))
    } else {
        auth.sign_in_with_token(token, address).await
    };
    match signed_in {
        Ok(cookie) => {
            let mut response = see_other(&to);
            response.headers_mut().append(SET_COOKIE, cookie);
            Ok(response)
        }
        Err(problem) => account_page(&shared, &parts, &to, Some(&problem)).await,
    }
}

/// Ends the session, or all sessions of the account.
async fn sign_out(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let auth = &shared.state.auth;
    let (parts, body) = request.into_parts();
    let Some(session) = auth.session_of(&parts).await? else { return Ok(see_other("/account")) };
    let field = read_public_form(Request::from_parts(parts, body), &shared).await?;
    if !equal_texts(&field(FORM_TOKEN).unwrap_or_default(), &session.form_token) {
        let detail = "the form is not of your present session: open the page again";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    let cookie = auth.end_session(&session, field("everywhere").is_some()).await?;
    let mut response = see_other("/account");
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Leads a reader whose token the code host takes no more to a new sign-in; the session is over.
pub(super) async fn unless_revoked(
    shared: &Shared,
    session: Option<BrowserSession>,
    sign_in: &str,
    response: Response,
) -> Response {
    let is_refused = response.status() == StatusCode::UNAUTHORIZED;
    let Some(session) = session.filter(|_| is_refused) else { return response };
    match shared.state.auth.end_session(&session, false).await {
        Ok(cookie) => {
            let mut response = see_other(sign_in);
            if let Some(cookie) = cookie {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns the path of the page on which one signs in, to come back to the address.
pub(super) fn sign_in_page_for(uri: &Uri) -> String {
    let to = uri.path_and_query().map_or("/", |path| path.as_str());
    format!("/account?to={}", encode_segment(&local_path(to)))
}

/// Answers with a redirect that a browser follows with GET.
pub(super) fn see_other(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(location) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
