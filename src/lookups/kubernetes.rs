//! Lookups of secrets at a cluster's API server: a `Secret`, or an object from which an operator creates one. The
//! client requests only metadata, so that no value ever comes here.

use std::collections::BTreeSet;

use reqwest::header::ACCEPT;
use reqwest::{Certificate, StatusCode, Url};
use secrecy::ExposeSecret as _;

use crate::lookups::http::{Http, HttpAnswer, LookupLimits, LookupSettingsError};
use crate::model::facts::FactUnavailable;
use crate::model::id::Namespace;
use crate::support::credential::Credential;
use crate::support::http::OutboundHttp;
use crate::support::percent::encode_segment;

/// Everything but the object's data (Kubernetes 1.15 and later).
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
/// The limit of an answer's bytes; only the status counts.
const ANSWER_BYTES: usize = 64 * 1024;

/// The kinds of objects to look for, in this order; the first hit counts.
const PLACES: [(&str, &str); 4] = [
    ("api/v1", "secrets"),
    ("apis/external-secrets.io/v1", "externalsecrets"),
    ("apis/external-secrets.io/v1beta1", "externalsecrets"),
    ("apis/secrets.hashicorp.com/v1beta1", "vaultstaticsecrets"),
];

/// The settings of a cluster's API server.
#[derive(Debug, Clone)]
pub struct KubernetesSettings {
    /// `https://10.0.0.1:6443`
    pub server: String,
    /// The token, which may `get` these kinds of objects.
    pub token: Credential,
    /// The certificates of who signed the server's, as PEM; `None`: those that the machine trusts.
    pub ca: Option<Vec<u8>>,
}

/// A cluster's API server.
#[derive(Debug)]
pub struct Kubernetes {
    http: Http,
    base: Url,
    host: String,
    token: Credential,
}

impl Kubernetes {
    /// Builds a client of that API server; it sends no request yet.
    ///
    /// # Errors
    /// When the address or the certificates cannot be used.
    pub fn new(
        settings: KubernetesSettings,
        patience: LookupLimits,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        let KubernetesSettings { server, token, ca } = settings;
        let address_error =
            || LookupSettingsError(format!("{server} is not an address of an API server"));
        let base = Url::parse(&format!("{}/", server.trim_end_matches('/')))
            .map_err(|_| address_error())?;
        let host = base.host_str().ok_or_else(address_error)?.to_owned();
        let roots = match ca {
            None => Vec::new(),
            Some(pem) => Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|roots| !roots.is_empty())
                .ok_or_else(|| {
                    LookupSettingsError("`ca` holds no certificate in PEM".to_owned())
                })?,
        };
        let http = Http::new(patience, roots, outbound)?;
        Ok(Self { http, base, host, token })
    }

    /// Returns the keys of a secret; `None` if there is none of that name. Keys cannot be known without its values, so
    /// those that are wanted are taken to be there if the secret is.
    ///
    /// # Errors
    /// [`FactUnavailable`]
    pub async fn keys(
        &self,
        namespace: &Namespace,
        name: &str,
        names: &BTreeSet<String>,
    ) -> Result<Option<BTreeSet<String>>, FactUnavailable> {
        for (group, kind) in PLACES {
            let answer = self.get(group, kind, namespace, name).await?;
            match answer.status {
                StatusCode::OK => return Ok(Some(names.clone())),
                StatusCode::NOT_FOUND => {}
                _ => return Err(self.refusal(kind, namespace, &answer)),
            }
        }
        Ok(None)
    }

    async fn get(
        &self,
        group: &str,
        kind: &str,
        namespace: &Namespace,
        name: &str,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let place = format!("{group}/namespaces/{namespace}/{kind}/{}", encode_segment(name));
        let address = self.base.join(&place).ok();
        let address = address.filter(|_| !matches!(name, "" | "." | "..")).ok_or_else(|| {
            FactUnavailable::new(format!("{name:?} cannot be the name of a secret"))
        })?;
        let token = self.token.text().await.map_err(FactUnavailable::new)?;
        let request = self.http.client().get(address).header(ACCEPT, METADATA);
        self.http.ask(&self.host, request.bearer_auth(token.expose_secret()), ANSWER_BYTES).await
    }

    fn refusal(&self, kind: &str, namespace: &Namespace, answer: &HttpAnswer) -> FactUnavailable {
        let (host, status) = (&self.host, answer.status.as_u16());
        FactUnavailable::new(match answer.status {
            StatusCode::UNAUTHORIZED => {
                format!("the API server {host} does not accept the service's token (401)")
            }
            StatusCode::FORBIDDEN => format!(
                "the API server {host} does not let the service get {kind} in {namespace} (403): \
                 grant `get` on secrets, externalsecrets and vaultstaticsecrets"
            ),
            _ => format!("the API server {host} answers {status} for {kind} in {namespace}"),
        })
    }
}
