//! Git's smart HTTP over the HTTP client of the process: four requests, with their credentials.
//!
//! One TLS stack, one proxy setting and one set of limits hold for every connection. The token is in a header only. The
//! module knows requests and bytes; their meaning is known elsewhere.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, Response, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};

use crate::git::transport::failure::{Failure, clean};
use crate::git::transport::token::{TokenAnswer, TokenError, Tokens};
use crate::git::writer::fence::Fence;
use crate::support::http::retry_after::retry_after_seconds;
use crate::support::retry::Disposition;

/// The settings of one repository over HTTP.
#[derive(Debug, Clone)]
pub(in crate::git) struct HttpRemote {
    pub(in crate::git) base: Url,
    pub(in crate::git) client: Client,
    pub(in crate::git) tokens: Tokens,
    /// The longest silence of a server before the exchange is cut.
    pub(in crate::git) silence: Duration,
    /// The longest a whole request may take.
    pub(in crate::git) total: Duration,
    pub(in crate::git) runtime: tokio::runtime::Handle,
    /// The fence; when it closes, every exchange is cut.
    pub(in crate::git) fence: Fence,
}

/// One of the four requests of the protocol.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Exchange {
    service: &'static str,
    advertise: bool,
    /// The most bytes of an answer.
    pub(in crate::git) limit: u64,
}

const MIB: u64 = 1024 * 1024;

/// An advertisement has a line a branch: 64 MiB is half a million of them. A pack can be a whole
/// repository's tip: 2 GiB. The report of a push is a few lines.
impl Exchange {
    pub(in crate::git) const UPLOAD_PACK_REFS: Self =
        Self { service: "git-upload-pack", advertise: true, limit: 64 * MIB };
    pub(in crate::git) const UPLOAD_PACK: Self =
        Self { service: "git-upload-pack", advertise: false, limit: 2048 * MIB };
    pub(in crate::git) const RECEIVE_PACK_REFS: Self =
        Self { service: "git-receive-pack", advertise: true, limit: 64 * MIB };
    pub(in crate::git) const RECEIVE_PACK: Self =
        Self { service: "git-receive-pack", advertise: false, limit: 16 * MIB };

    fn content_type(self) -> String {
        let kind = if self.advertise { "advertisement" } else { "result" };
        format!("application/x-{}-{kind}", self.service)
    }

    /// Returns true if the request may change something.
    pub(in crate::git) fn is_push(self) -> bool {
        self.service == "git-receive-pack" && !self.advertise
    }
}

impl HttpRemote {
    /// Returns the remote with that fence.
    pub(in crate::git) fn within(&self, fence: &Fence) -> Self {
        Self { fence: fence.clone(), ..self.clone() }
    }

    /// Sends a request; once more with another token, where there is one, if the host answers 401.
    pub(in crate::git) fn send(
        &self,
        exchange: Exchange,
        body: Vec<u8>,
    ) -> Result<Response, Failure> {
        let request = self.request(exchange, body);
        let repeat = request.try_clone();
        let token = self.token(self.tokens.any())?;
        let refused_token = match (self.send_once(exchange, request, token.as_ref()), token) {
            (Err(Failure::Unauthorized { status: 401 }), Some(token)) => token,
            (result, _) => return result,
        };
        // The host let nothing in, so that nothing can be done twice.
        match (repeat, self.token(self.tokens.request_another(&refused_token))?) {
            (Some(request), Some(token)) => self.send_once(exchange, request, Some(&token)),
            _ => Err(Failure::Unauthorized { status: 401 }),
        }
    }

    /// Sends a request, and waits for the whole of its answer.
    pub(in crate::git) fn send_and_read(
        &self,
        exchange: Exchange,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let mut response = self.send(exchange, body)?;
        let mut answer = Vec::new();
        while let Some(chunk) = self.chunk(&mut response)? {
            answer.extend_from_slice(&chunk);
            if answer.len() as u64 > exchange.limit {
                return Err(Failure::TooLarge(exchange.limit));
            }
        }
        Ok(answer)
    }

    /// Returns the next bytes of an answer.
    pub(in crate::git) fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let chunk = self.within_silence(response.chunk())?;
        Ok(chunk.map(Into::into))
    }

    /// Waits for the server's answer, unless it is silent for too long or the fence closes. The
    /// fence is looked at first: who stood still sends nothing more.
    fn within_silence<T>(
        &self,
        response: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.fence.closed() => Err(Failure::LeaseOver),
                response = tokio::time::timeout(self.silence, response) => response
                    .map_err(|_| Failure::silent(self.silence))?
                    .map_err(|error| Failure::of(&error)),
            }
        })
    }

    fn request(&self, exchange: Exchange, body: Vec<u8>) -> reqwest::RequestBuilder {
        let Exchange { service, advertise, .. } = exchange;
        let (method, tail) = if advertise {
            (Method::GET, format!("/info/refs?service={service}"))
        } else {
            (Method::POST, format!("/{service}"))
        };
        let address = format!("{}{tail}", self.base.as_str().trim_end_matches('/'));
        let request = self.client.request(method, address).timeout(self.total);
        let request =
            request.header("User-Agent", "git/2.0 (the-deployer)").header("Pragma", "no-cache");
        if advertise {
            return request;
        }
        request
            .header("Content-Type", format!("application/x-{service}-request"))
            .header("Accept", exchange.content_type())
            .body(body)
    }

    fn send_once(
        &self,
        exchange: Exchange,
        request: reqwest::RequestBuilder,
        token: Option<&SecretString>,
    ) -> Result<Response, Failure> {
        let request = match token {
            Some(token) => request.basic_auth("x-access-token", Some(token.expose_secret())),
            None => request,
        };
        // Not before the runtime is entered: sending begins with a timer.
        let response = self.within_silence(async { request.send().await })?;
        check(&response, &self.base, &exchange.content_type())?;
        Ok(response)
    }

    /// Waits for the source of tokens, no longer than for the host itself.
    fn token(
        &self,
        token_request: impl Future<Output = TokenAnswer>,
    ) -> Result<Option<SecretString>, Failure> {
        let bounded = async { tokio::time::timeout(self.silence, token_request).await };
        let answer = self.runtime.block_on(bounded).unwrap_or_else(|_| {
            let why = format!("its issuer did not answer for {} s", self.silence.as_secs_f32());
            Err(TokenError { why, next: Disposition::Retry { after: None } })
        });
        Ok(answer?)
    }
}

/// Judges an answer by its head alone.
fn check(response: &Response, base: &Url, expected: &str) -> Result<(), Failure> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    // Before the status: a push that is sent on arrives there as a question, without the token, and
    // what is answered to that says nothing about the repository.
    if let Some(to) = redirected_to(response.url(), base) {
        return Err(Failure::Moved { to });
    }
    judge(response.status(), retry_after_seconds(response.headers()))?;
    let content_type = header(CONTENT_TYPE).unwrap_or("no content type");
    if content_type.split(';').next().map(str::trim) != Some(expected) {
        return Err(Failure::NotGit(clean(content_type)));
    }
    Ok(())
}

/// Returns the repository that a redirect led to, if the answer came from elsewhere.
fn redirected_to(from: &Url, base: &Url) -> Option<String> {
    if from.origin() == base.origin() && from.path().starts_with(base.path()) {
        return None;
    }
    let tails = ["/info/refs", "/git-receive-pack", "/git-upload-pack"];
    let path = tails.iter().find_map(|tail| from.path().strip_suffix(tail));
    let path = path.unwrap_or_else(|| from.path());
    Some(clean(&format!("{}{path}", from.origin().ascii_serialization())))
}

fn judge(status: StatusCode, wait: Option<Duration>) -> Result<(), Failure> {
    let number = status.as_u16();
    match number {
        200 => Ok(()),
        // GitHub's limits come as 403 or 429; of the 403s only a limit says how long to wait.
        403 | 503 if wait.is_some() => Err(Failure::Limited { status: number, wait }),
        429 => Err(Failure::Limited { status: number, wait }),
        401 | 403 => Err(Failure::Unauthorized { status: number }),
        404 | 410 => Err(Failure::NotFound { status: number }),
        _ => Err(Failure::Server { status: number }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, wait: Option<u64>) -> Option<Failure> {
        let status = StatusCode::from_u16(status).unwrap();
        judge(status, wait.map(Duration::from_secs)).err()
    }

    #[test]
    fn a_status_says_what_to_do_next() {
        assert_eq!(judged(200, None), None);
        assert_eq!(judged(401, None), Some(Failure::Unauthorized { status: 401 }));
        assert_eq!(judged(403, None), Some(Failure::Unauthorized { status: 403 }));
        assert_eq!(judged(404, None), Some(Failure::NotFound { status: 404 }));
        assert_eq!(judged(502, None), Some(Failure::Server { status: 502 }));
        let wait = Some(Duration::from_mins(1));
        assert_eq!(judged(403, Some(60)), Some(Failure::Limited { status: 403, wait }));
        assert_eq!(judged(429, None), Some(Failure::Limited { status: 429, wait: None }));
    }

    #[test]
    fn who_is_sent_on_is_told_the_repositorys_address() {
        let url = |text: &str| Url::parse(text).unwrap();
        let base = url("https://git.example.com/o/n.git");
        let to = |from: &str| redirected_to(&url(from), &base);
        assert_eq!(to("https://git.example.com/o/n.git/git-receive-pack"), None);
        for tail in ["/info/refs?service=git-receive-pack", "/git-receive-pack", "/git-upload-pack"]
        {
            let from = format!("https://git.example.com/p/m.git{tail}");
            assert_eq!(to(&from).as_deref(), Some("https://git.example.com/p/m.git"));
        }
        let elsewhere = to("https://example.net/o/n.git/info/refs");
        assert_eq!(elsewhere.as_deref(), Some("https://example.net/o/n.git"));
    }
}
