//! Authenticates a request: finds the caller of its token and its origin, and applies the rate limits.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

use crate::model::audit::AuthMethod;
use crate::model::id::TargetName;
use crate::model::person::{IdentityError, Person};
use crate::server::auth::admission::{Authenticator, STRANGERS};
use crate::server::auth::authorization::identity_problem;
use crate::server::auth::caller::{Caller, RightsSource};
use crate::server::auth::client_ip::{peer, subscriber};
use crate::server::auth::configured_tokens::{AgentIdentity, holder};
use crate::server::auth::sessions::BrowserSession;
use crate::server::problem::{Problem, ProblemKind};
use crate::support::sync::lock;

/// The prefixes of people's tokens at GitHub ("About authentication to GitHub", GitHub Docs).
const USER_PREFIXES: [&str; 4] = ["ghp_", "gho_", "ghu_", "github_pat_"];
/// The prefixes of tokens of GitHub Apps.
const APP_PREFIXES: [&str; 2] = ["ghs_", "ghr_"];
/// The longest token, in bytes; an App's of 2026 has some 520 characters.
const LONGEST: usize = 2048;

/// The routes that a caller uses, which decides how it sends its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerSurface {
    /// The API: with a bearer token.
    Api,
    /// The pages: with the cookie of a session, with a bearer token, or with the token as the password, which is what
    /// browsers know.
    Page,
}

impl Authenticator {
    /// Returns the request with its caller, or the problem.
    pub(crate) async fn admit(
        &self,
        request: Request,
        surface: CallerSurface,
    ) -> Result<Request, Problem> {
        self.is_for_us(&request)?;
        let (mut parts, body) = request.into_parts();
        let address = self.client_ip(&parts.extensions, &parts.headers);
        let session = match surface {
            CallerSurface::Page => self.session_of(&parts).await?,
            CallerSurface::Api => None,
        };
        let caller = match &session {
            Some(session) => session.caller.clone(),
            None => self.identify(&parts.headers, address, surface).await?.at(&parts, address),
        };
        self.check_rate(&caller)?;
        parts.extensions.insert(caller);
        if let Some(session) = session {
            parts.extensions.insert(session);
        }
        Ok(Request::from_parts(parts, body))
    }

    /// Returns a request to a public page with its session, if it has one; anybody may read the page.
    pub(crate) async fn admit_anybody(&self, request: Request) -> Result<Request, Problem> {
        self.is_for_us(&request)?;
        let (mut parts, body) = request.into_parts();
        if let Some(session) = self.session_of(&parts).await? {
            self.check_rate(&session.caller)?;
            parts.extensions.insert(session);
        }
        parts.extensions.insert(Caller::anonymous("anybody"));
        Ok(Request::from_parts(parts, body))
    }

    /// Returns the session of a request, if it has one.
    pub(crate) async fn session_of(
        &self,
        parts: &Parts,
    ) -> Result<Option<BrowserSession>, Problem> {
        if self.needs_no_token() {
            return Ok(None);
        }
        let address = self.client_ip(&parts.extensions, &parts.headers);
        let session = self.session(&parts.headers).await?;
        Ok(session.map(|session| {
            let caller = session.caller.clone().at(parts, address);
            BrowserSession { caller, ..session }
        }))
    }

    /// Checks that a request has the token of a cluster's agent. A wrong one counts as any other wrong token.
    pub(crate) async fn admit_agent(
        &self,
        parts: &Parts,
        cluster: &TargetName,
    ) -> Result<(), Problem> {
        let unauthorized = |detail| Problem::new(ProblemKind::Unauthorized, detail);
        let Some(text) = bearer(&parts.headers) else {
            let detail = "send the token of the cluster's agent as `Authorization: Bearer TOKEN`";
            return Err(unauthorized(detail));
        };
        let now = self.deployments.clock.now();
        let api_tokens = &self.admission.tokens;
        match self.agents.identify(cluster, &text, api_tokens, now).await {
            AgentIdentity::Matches => Ok(()),
            AgentIdentity::OtherCluster(agent) => {
                tracing::warn!(%agent, %cluster, "report of another cluster refused");
                let detail = format!(
                    "the token is that of the agent of {agent}, which may not report for {cluster}"
                );
                Err(Problem::new(ProblemKind::Forbidden, detail))
            }
            AgentIdentity::Unreadable => {
                let detail = "the service cannot read the token of the cluster's agent at present; its log says why";
                Err(Problem::new(ProblemKind::Unavailable, detail))
            }
            AgentIdentity::Unknown => {
                let address = self.client_ip(&parts.extensions, &parts.headers);
                let client = address.map_or_else(|| "unknown".to_owned(), subscriber);
                self.pay(&client)?;
                tracing::info!(from = client, "agent's token refused");
                let detail = "the token is not that of an agent: give the agent the text of \
                              `clusters[].agent.token`";
                Err(unauthorized(detail))
            }
        }
    }

    /// Returns the origin of a request, if the server listens on a socket.
    pub(crate) fn client_ip(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        peer(extensions).map(|peer| self.admission.proxies.origin(peer, headers))
    }

    async fn identify(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        surface: CallerSurface,
    ) -> Result<Caller, Problem> {
        if self.needs_no_token() {
            return Ok(Caller::anonymous("unknown, on this machine"));
        }
        let token = match surface {
            CallerSurface::Api => bearer(headers),
            CallerSurface::Page => password(headers).or_else(|| bearer(headers)),
        };
        let Some(text) = token else {
            return Err(Problem::new(
                ProblemKind::Unauthorized,
                self.describe_credentials(surface),
            ));
        };
        self.identify_token(text, address, surface).await
    }

    /// Authenticates a token, whatever it may be.
    pub(super) async fn identify_token(
        &self,
        text: String,
        address: Option<IpAddr>,
        surface: CallerSurface,
    ) -> Result<Caller, Problem> {
        if let Some(token) = holder(&self.admission.tokens, &text) {
            tracing::debug!(token = token.name, "API token accepted");
            return Ok(Caller::new(
                &token.name,
                AuthMethod::Token,
                RightsSource::Token(token.rights.clone()),
            ));
        }
        self.authenticate_unknown(text, address, surface).await
    }

    /// Checks the host: if no token is needed, a page of another site may have led the browser here.
    pub(crate) fn is_for_us(&self, request: &Request) -> Result<(), Problem> {
        if self.needs_no_token() { self.admission.site.check_host(request) } else { Ok(()) }
    }

    /// Returns whether callers need no token.
    pub(crate) fn needs_no_token(&self) -> bool {
        self.admission.tokens.is_empty() && self.admission.github.is_none()
    }

    fn describe_credentials(&self, surface: CallerSurface) -> &'static str {
        match (surface, self.admission.github.is_some()) {
            (CallerSurface::Api, false) => {
                "send a configured API token as `Authorization: Bearer TOKEN`"
            }
            (CallerSurface::Api, true) => {
                "send a GitHub token or a configured API token as `Authorization: Bearer TOKEN`; \
                 `bart login` gets one"
            }
            (CallerSurface::Page, false) => {
                "give a configured API token as the password; any name will do"
            }
            (CallerSurface::Page, true) => {
                "give a GitHub token or a configured API token as the password; any name will do"
            }
        }
    }

    /// Authenticates a token that is not configured. An unknown token pays for a wrong one before it is checked, so
    /// that many at once pay each, and gets that back unless it is wrong. Configured tokens, and those that GitHub knew
    /// a little earlier, are not limited.
    async fn authenticate_unknown(
        &self,
        text: String,
        address: Option<IpAddr>,
        surface: CallerSurface,
    ) -> Result<Caller, Problem> {
        let client = address.map_or_else(|| "unknown".to_owned(), subscriber);
        let token = SecretString::from(text.as_str());
        let is_persons = self.admission.github.is_some() && is_of_person(&text);
        let is_known = is_persons && self.known_person(&token);
        if !is_known {
            self.pay(&client)?;
        }
        let person = if is_persons {
            self.identify_person(&token, is_known).await
        } else {
            Err(self.unknown_token(&text, surface))
        };
        let is_unauthorized =
            person.as_ref().is_err_and(|problem| problem.kind() == ProblemKind::Unauthorized);
        match (is_unauthorized, is_known) {
            (true, true) => drop(self.pay(&client)),
            (false, false) => lock(&self.failures).release(&client),
            (true, false) | (false, true) => {}
        }
        if is_unauthorized {
            tracing::info!(from = client, "token refused");
        }
        Ok(Caller::new(person?.login, AuthMethod::GitHub, RightsSource::Person(token)))
    }

    pub(super) fn pay(&self, client: &str) -> Result<(), Problem> {
        lock(&self.failures).try_acquire(client, self.deployments.clock.now()).map_err(|wait| {
            tracing::warn!(from = client, "token rate limit reached");
            let detail = "too many wrong tokens came from your address";
            Problem::new(ProblemKind::TooMany, detail).after(wait)
        })
    }

    /// Finds the person of a token. At most [`STRANGERS`] unknown tokens are looked up at once.
    pub(super) async fn identify_person(
        &self,
        token: &SecretString,
        is_known: bool,
    ) -> Result<Person, Problem> {
        let take_place = || {
            self.strangers.try_acquire().map_err(|_| {
                tracing::warn!(most = STRANGERS, "limit of concurrent token checks reached");
                let detail = "too many new tokens arrived at once; try again later";
                Problem::new(ProblemKind::TooMany, detail).after(Duration::from_secs(1))
            })
        };
        let _place = if is_known { None } else { Some(take_place()?) };
        self.person(token).await.map_err(login_problem)
    }

    fn unknown_token(&self, text: &str, surface: CallerSurface) -> Problem {
        let detail = match (self.admission.github.is_some(), surface) {
            (true, _) if APP_PREFIXES.iter().any(|begin| text.starts_with(begin)) => {
                "this is the token of a GitHub App, such as jobs have, and not a person's: use an \
                 API token of the service"
            }
            (false, CallerSurface::Api) => "the API token is not a configured one",
            (true, CallerSurface::Api) => {
                "the token is neither a configured API token nor a person's at GitHub"
            }
            (_, CallerSurface::Page) => self.describe_credentials(surface),
        };
        Problem::new(ProblemKind::Unauthorized, detail)
    }

    /// Counts a request of the caller against its rate limit. Callers without a token are not counted: they are on one
    /// machine.
    pub(crate) fn check_rate(&self, caller: &Caller) -> Result<(), Problem> {
        if matches!(caller.standing, RightsSource::Everybody) {
            return Ok(());
        }
        let now = self.deployments.clock.now();
        lock(&self.calls).try_acquire(&caller.account(), now).map_err(|wait| {
            let most = self.admission.requests_per_minute;
            tracing::warn!(caller = caller.account(), most, "request rate limit reached");
            let detail = format!("{} made more than {most} requests in a minute", caller.name);
            Problem::new(ProblemKind::TooMany, detail).after(wait)
        })
    }
}

/// Makes the problem of a failed login: a token that GitHub refuses is a wrong one.
pub(crate) fn login_problem(error: IdentityError) -> Problem {
    match error {
        IdentityError::Forbidden(detail) => Problem::new(ProblemKind::Unauthorized, detail),
        error => identity_problem(error),
    }
}

fn is_of_person(text: &str) -> bool {
    let legal = text.len() <= LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
    legal && USER_PREFIXES.iter().any(|begin| text.starts_with(begin))
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, text) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| text.trim().to_owned())
}

/// Returns the password of HTTP Basic, as a browser sends it.
fn password(headers: &HeaderMap) -> Option<String> {
    let (scheme, text) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    login.split_once(':').map(|(_, password)| password.to_owned())
}
