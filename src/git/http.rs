//! Git's smart HTTP over the HTTP client of the process: four requests, and who we are in each.
//!
//! So that one TLS stack, one proxy setting and one set of limits hold for every connection. The
//! token travels in a header only. Knows requests and bytes; what they mean is known elsewhere.

use std::time::Duration;

use reqwest::{Client, Method, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};

use crate::git::fence::Fence;
use crate::git::token::{Answer, NoToken, Tokens};
use crate::git::wire::{self, Failure};
use crate::support::retry::Disposition;

/// How to reach one repository over HTTP.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) base: Url,
    pub(super) client: Client,
    pub(super) tokens: Tokens,
    /// The longest silence of a server that we sit through.
    pub(super) silence: Duration,
    /// The longest a whole request may take.
    pub(super) total: Duration,
    pub(super) runtime: tokio::runtime::Handle,
    /// When it closes, every exchange is cut.
    pub(super) fence: Fence,
}

/// One of the four requests of the protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    service: &'static str,
    advertise: bool,
    /// The most bytes of an answer.
    pub(super) limit: u64,
}

const MIB: u64 = 1024 * 1024;

/// An advertisement has a line a branch: 64 MiB is half a million of them. A pack can be a whole
/// repository's tip: 2 GiB. The report of a push is a few lines.
impl Exchange {
    pub(super) const UPLOAD_PACK_REFS: Self =
        Self { service: "git-upload-pack", advertise: true, limit: 64 * MIB };
    pub(super) const UPLOAD_PACK: Self =
        Self { service: "git-upload-pack", advertise: false, limit: 2048 * MIB };
    pub(super) const RECEIVE_PACK_REFS: Self =
        Self { service: "git-receive-pack", advertise: true, limit: 64 * MIB };
    pub(super) const RECEIVE_PACK: Self =
        Self { service: "git-receive-pack", advertise: false, limit: 16 * MIB };

    fn content_type(self) -> String {
        let kind = if self.advertise { "advertisement" } else { "result" };
        format!("application/x-{}-{kind}", self.service)
    }

    /// Whether what is sent may change something.
    pub(super) fn is_push(self) -> bool {
        self.service == "git-receive-pack" && !self.advertise
    }
}

impl Wire {
    /// The same within that fence.
    pub(super) fn within(&self, fence: &Fence) -> Self {
        Self { fence: fence.clone(), ..self.clone() }
    }

    /// Sends a request; once more with another token, where there is one, if the host answers 401.
    pub(super) fn send(&self, exchange: Exchange, body: Vec<u8>) -> Result<Response, Failure> {
        let request = self.request(exchange, body);
        let again = request.try_clone();
        let token = self.token(self.tokens.any())?;
        let refused = match (self.once(exchange, request, token.as_ref()), token) {
            (Err(Failure::Unauthorized { status: 401 }), Some(token)) => token,
            (other, _) => return other,
        };
        // The host let nothing in, so that nothing can be done twice.
        match (again, self.token(self.tokens.instead_of(&refused))?) {
            (Some(request), Some(token)) => self.once(exchange, request, Some(&token)),
            _ => Err(Failure::Unauthorized { status: 401 }),
        }
    }

    /// Sends a request, and waits for the whole of its answer.
    pub(super) fn whole(&self, exchange: Exchange, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let mut response = self.send(exchange, body)?;
        let mut answer = Vec::new();
        while let Some(chunk) = self.chunk(&mut response)? {
            answer.extend_from_slice(&chunk);
            if answer.len() as u64 > exchange.limit {
                return Err(Failure::TooLarge { limit: exchange.limit });
            }
        }
        Ok(answer)
    }

    /// The next bytes of an answer.
    pub(super) fn chunk(&self, response: &mut Response) -> Result<Option<Vec<u8>>, Failure> {
        let chunk = self.heard(response.chunk())?;
        Ok(chunk.map(Into::into))
    }

    /// What the server says, unless it is silent for too long or the fence closes. That is looked at
    /// first: who stood still sends nothing more.
    fn heard<T>(&self, said: impl Future<Output = reqwest::Result<T>>) -> Result<T, Failure> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.fence.closed() => Err(Failure::LeaseOver),
                said = tokio::time::timeout(self.silence, said) => said
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

    fn once(
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
        let response = self.heard(async { request.send().await })?;
        wire::check(&response, &self.base, &exchange.content_type())?;
        Ok(response)
    }

    /// Waits for the source of tokens, no longer than for the host itself.
    fn token(&self, asked: impl Future<Output = Answer>) -> Result<Option<SecretString>, Failure> {
        let bounded = async { tokio::time::timeout(self.silence, asked).await };
        let answer = self.runtime.block_on(bounded).unwrap_or_else(|_| {
            let why =
                format!("whoever issues it said nothing for {} s", self.silence.as_secs_f32());
            Err(NoToken { why, next: Disposition::Retry { after: None } })
        });
        Ok(answer?)
    }
}
