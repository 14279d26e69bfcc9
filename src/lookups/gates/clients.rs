//! The clients for gates: they send questions, refuse answers that are none, and leave the rest to what is pure.

use jiff::Timestamp;
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret as _;

use crate::lookups::gates::hosts::{self, GateHosts, HostAccess};
use crate::lookups::gates::promql::{self, ValueBound};
use crate::lookups::gates::{
    GateReply, GateServer, GateSettings, MAX_ADDRESS_BYTES, MAX_ANSWER_BYTES, alerts,
};
use crate::lookups::http::{Http, HttpAnswer, LookupLimits, LookupSettingsError};
use crate::model::facts::FactUnavailable;
use crate::support::http::OutboundHttp;
use crate::support::secret_mask::mask_secrets;
use crate::support::text::{reveal_invisible, truncate_chars};

/// The limit of questions at once of each kind. Every rollout waits for one gate at most, so that a hundred rollouts
/// whose gates hang take no turn from others.
const AT_ONCE: usize = 100;
/// The limit of a reply's characters: it has texts of others.
const MAX_REPLY_CHARS: usize = 400;

/// The clients for gates; they have sent no request yet.
#[derive(Debug)]
pub struct GateClients {
    prometheus: Option<ApiClient>,
    alertmanager: Option<ApiClient>,
    hosts: GateHosts,
    /// For hosts that the operator names.
    named: Http,
    /// For hosts that a glob covers: it connects to public addresses only.
    public: Http,
}

impl GateClients {
    /// Builds the clients of the settings.
    ///
    /// # Errors
    /// When a client cannot be made of its settings.
    pub fn new(
        settings: GateSettings,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        let GateSettings { prometheus, alertmanager, http_hosts, http_timeout } = settings;
        let limits = LookupLimits { one_try: http_timeout, at_once: AT_ONCE };
        let named = Http::new(limits, Vec::new(), outbound)?;
        let public = outbound.public_builder().and_then(|builder| named.with_client(builder));
        let public = public.map_err(|error| LookupSettingsError(error.to_string()))?;
        let server = |settings: Option<GateServer>| {
            settings.map(|settings| ApiClient::new(settings, outbound)).transpose()
        };
        Ok(Self {
            prometheus: server(prometheus)?,
            alertmanager: server(alertmanager)?,
            hosts: GateHosts::new(&http_hosts, outbound.public_only()),
            named,
            public,
        })
    }

    /// Asks the address for an answer of 2xx.
    pub async fn ask_http(&self, url: &str) -> GateReply {
        reply(self.http(url).await)
    }

    /// Asks Prometheus for the query's only value, and compares it with the bound.
    pub async fn ask_promql(&self, query: &str, bound: ValueBound<'_>) -> GateReply {
        reply(self.promql(query, bound).await)
    }

    /// Asks Alertmanager for alerts that fire and have these labels: neither silenced nor inhibited.
    pub async fn ask_alerts(&self, matchers: &[String], now: Timestamp) -> GateReply {
        reply(self.alerts(matchers, now).await)
    }

    async fn http(&self, url: &str) -> Result<GateReply, FactUnavailable> {
        let (url, access) = self.hosts.check(url).map_err(FactUnavailable::new)?;
        let client = match access {
            HostAccess::Named => &self.named,
            HostAccess::Public => &self.public,
        };
        let host = hosts::authority(&url);
        let answer = client.send_once(&host, client.client().get(url), MAX_ANSWER_BYTES).await?;
        refuse_long(&host, &answer)?;
        let value = format!("{host} answers {}", answer.status);
        if answer.status.is_redirection() {
            let reason = format!(
                "{value}, a redirect, which is not followed: write the address that it leads to"
            );
            return Err(FactUnavailable::new(reason));
        }
        Ok(if answer.status.is_success() {
            GateReply::Passed(value)
        } else {
            GateReply::NotPassed(value)
        })
    }

    async fn promql(
        &self,
        query: &str,
        bound: ValueBound<'_>,
    ) -> Result<GateReply, FactUnavailable> {
        let server = configured(self.prometheus.as_ref(), "Prometheus", "gates.prometheus")?;
        let limit = bound.limit().map_err(FactUnavailable::new)?;
        let timeout = format!("{}ms", server.settings.timeout.as_millis());
        let parameters = [("query", query), ("timeout", &timeout)];
        let answer = server.get("api/v1/query", &parameters).await?;
        refuse_long(&server.host, &answer)?;
        if answer.status != StatusCode::OK {
            let reason = promql::read_error(&answer.body);
            return Err(server.refusal("Prometheus", answer.status, reason));
        }
        let reply = promql::judge(&answer.body, bound, limit);
        reply.map_err(|reason| FactUnavailable::new(mask(&reason)))
    }

    async fn alerts(
        &self,
        matchers: &[String],
        now: Timestamp,
    ) -> Result<GateReply, FactUnavailable> {
        let server = configured(self.alertmanager.as_ref(), "Alertmanager", "gates.alertmanager")?;
        let mut parameters =
            vec![("active", "true"), ("silenced", "false"), ("inhibited", "false")];
        parameters.extend(matchers.iter().map(|matcher| ("filter", matcher.as_str())));
        let exchange = async {
            let alerts = server.get_ok("api/v2/alerts", &parameters).await?;
            // Afterwards: a start between the two is then seen.
            let status = server.get_ok("api/v2/status", &[]).await?;
            Ok((alerts, status))
        };
        let elapsed = |_| Err(server.elapsed());
        let exchange = tokio::time::timeout(server.settings.timeout, exchange).await;
        let (alerts, status) = exchange.unwrap_or_else(elapsed)?;
        alerts::judge(&alerts, &status, now).map_err(FactUnavailable::new)
    }

    /// Checks that Prometheus and Alertmanager can be asked, where they are configured; returns what is wrong by the
    /// part's name in the configuration.
    pub async fn check(&self) -> Vec<(&'static str, FactUnavailable)> {
        let mut faults = Vec::new();
        if self.prometheus.is_some()
            && let Err(reason) = self.promql("1", ValueBound::AtMost("1")).await
        {
            faults.push(("prometheus", reason));
        }
        if let Some(server) = &self.alertmanager {
            let status = server.get_ok("api/v2/status", &[]).await;
            // However short it runs.
            let judge = |status: Vec<u8>| {
                alerts::judge(b"[]", &status, Timestamp::MAX).map_err(FactUnavailable::new)
            };
            faults.extend(status.and_then(judge).err().map(|reason| ("alertmanager", reason)));
        }
        faults
    }
}

/// A server with an API.
#[derive(Debug)]
struct ApiClient {
    http: Http,
    base: Url,
    host: String,
    settings: GateServer,
}

impl ApiClient {
    fn new(settings: GateServer, outbound: &OutboundHttp) -> Result<Self, LookupSettingsError> {
        let address_error = || LookupSettingsError("a server of gates has no address".to_owned());
        let address = format!("{}/", settings.url.trim_end_matches('/'));
        let base = Url::parse(&address).map_err(|_| address_error())?;
        let host = base.host_str().ok_or_else(address_error)?.to_owned();
        let limits = LookupLimits { one_try: settings.timeout, at_once: AT_ONCE };
        Ok(Self { http: Http::new(limits, Vec::new(), outbound)?, base, host, settings })
    }

    async fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<HttpAnswer, FactUnavailable> {
        let url = self.base.join(path);
        let mut url = url.map_err(|error| FactUnavailable::new(error.to_string()))?;
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        if url.as_str().len() > MAX_ADDRESS_BYTES {
            return Err(FactUnavailable::new(format!(
                "the gate's question takes more than {MAX_ADDRESS_BYTES} bytes: use a recorded rule, or fewer matchers"
            )));
        }
        let mut request = self.http.client().get(url);
        request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.settings.token {
            let token = token.text().await.map_err(FactUnavailable::new)?;
            request = request.bearer_auth(token.expose_secret());
        }
        self.http.send_once(&self.host, request, MAX_ANSWER_BYTES).await
    }

    /// Returns the body of an answer with the status 200.
    async fn get_ok(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<u8>, FactUnavailable> {
        let answer = self.get(path, parameters).await?;
        refuse_long(&self.host, &answer)?;
        if answer.status == StatusCode::OK {
            return Ok(answer.body);
        }
        Err(self.refusal("Alertmanager", answer.status, alerts::read_error(&answer.body)))
    }

    fn elapsed(&self) -> FactUnavailable {
        FactUnavailable::new(format!(
            "{} did not answer within {:?}",
            self.host, self.settings.timeout
        ))
    }

    fn refusal(&self, name: &str, status: StatusCode, reason: Option<String>) -> FactUnavailable {
        let (host, code) = (&self.host, status.as_u16());
        FactUnavailable::new(match (status, reason) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                format!(
                    "{name} at {host} does not accept the service's token, or needs one ({code})"
                )
            }
            (status, _) if status.is_redirection() => format!(
                "{name} at {host} redirects ({code}), where the service's token does not go: configure the \
                 address that it leads to"
            ),
            (_, Some(reason)) => format!("{name} at {host} answers {code}: {}", mask(&reason)),
            (_, None) => format!("{name} at {host} answers {code}"),
        })
    }
}

fn configured<'a>(
    client: Option<&'a ApiClient>,
    name: &str,
    key: &str,
) -> Result<&'a ApiClient, FactUnavailable> {
    client.ok_or_else(|| {
        FactUnavailable::new(format!(
            "the service has no {name} to ask: an operator configures one under `{key}`"
        ))
    })
}

fn refuse_long(host: &str, answer: &HttpAnswer) -> Result<(), FactUnavailable> {
    if !answer.cut {
        return Ok(());
    }
    let most = MAX_ANSWER_BYTES / 1024 / 1024;
    Err(FactUnavailable::new(format!(
        "{host} answers with more than {most} MiB, which is not read"
    )))
}

fn reply(result: Result<GateReply, FactUnavailable>) -> GateReply {
    match result {
        Ok(GateReply::Passed(value)) => GateReply::Passed(mask(&value)),
        Ok(GateReply::NotPassed(value)) => GateReply::NotPassed(mask(&value)),
        Ok(GateReply::Unanswered(reason)) | Err(FactUnavailable(reason)) => {
            GateReply::Unanswered(mask(&reason))
        }
    }
}

/// Makes a text with parts of others one that can be shown and stored.
fn mask(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate_chars(&reveal_invisible(&mask_secrets(&line)), MAX_REPLY_CHARS).into_owned()
}
