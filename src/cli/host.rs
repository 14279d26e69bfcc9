//! Reads the service's code host from `/api/v1/forge`.

use super::client::ServiceEndpoint;
use super::error::CliError;
use crate::api::service::CodeHostAnswer;

/// The code host of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// Git repositories in a folder of the service.
    Local,
    /// GitHub.
    GitHub {
        /// The API's address, without a slash at its end.
        api_url: String,
        /// The address for browsers, without a slash at its end.
        web_url: String,
        /// The client id for logins from a terminal.
        client_id: Option<String>,
    },
}

impl Host {
    /// Returns whether a git remote at that host can be one of its repositories; a local one may be cloned from
    /// anywhere.
    pub(super) fn may_have(&self, remote_host: &str) -> bool {
        match self {
            Self::Local => true,
            Self::GitHub { web_url, .. } => {
                let url = reqwest::Url::parse(web_url).ok();
                let host = url.as_ref().and_then(|url| url.host_str());
                let ssh = remote_host.strip_prefix("ssh.").unwrap_or(remote_host);
                host.is_none_or(|host| host.eq_ignore_ascii_case(ssh))
            }
        }
    }

    /// Reads the code host from the service.
    pub(super) async fn fetch(server: &ServiceEndpoint) -> Result<Self, CliError> {
        let view: CodeHostAnswer = server.get("/api/v1/forge", &[]).await?;
        read(view).map_err(|why| CliError::io(format!("{}: {why}", server.url())))
    }
}

fn read(view: CodeHostAnswer) -> Result<Host, String> {
    let CodeHostAnswer { kind, api_url, web_url, login } = view;
    match (kind.as_str(), api_url, web_url) {
        ("local", ..) => Ok(Host::Local),
        ("github", Some(api_url), Some(web_url)) if is_one_github(&api_url, &web_url) => {
            Ok(Host::GitHub {
                api_url: api_url.trim_end_matches('/').to_owned(),
                web_url: web_url.trim_end_matches('/').to_owned(),
                client_id: login.map(|login| login.client_id),
            })
        }
        ("github", ..) => Err("it does not name the addresses of its GitHub".to_owned()),
        (other, ..) => Err(format!("this bart does not know its code host {other:?}")),
    }
}

/// Returns whether both addresses belong to one GitHub: a token comes from one, and is sent to the other.
fn is_one_github(api_url: &str, web_url: &str) -> bool {
    let host = |url: &str| {
        let url = reqwest::Url::parse(url).ok()?;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()))
    };
    let (Some((api, api_port)), Some((web, web_port))) = (host(api_url), host(web_url)) else {
        return false;
    };
    api_port == web_port && (api == web || api == format!("api.{web}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_addresses_are_of_one_github() {
        for (api, web, expected) in [
            ("https://api.github.com", "https://github.com", true),
            ("https://github.acme.com/api/v3", "https://github.acme.com", true),
            ("http://127.0.0.1:1/api/v3", "http://127.0.0.1:1", true),
            ("https://evil.example", "https://github.com", false),
            ("https://github.com.evil.example", "https://github.com", false),
            ("http://api.github.com", "https://github.com", false),
            ("nonsense", "https://github.com", false),
        ] {
            assert_eq!(is_one_github(api, web), expected, "{api} {web}");
        }
    }

    #[test]
    fn a_remote_at_another_host_is_none_of_the_services_repositories() {
        let host = Host::GitHub {
            api_url: "https://api.github.com".to_owned(),
            web_url: "https://github.com".to_owned(),
            client_id: None,
        };
        for (remote, expected) in [
            ("github.com", true),
            ("ssh.github.com", true),
            ("gitlab.com", false),
            ("github.example.com", false),
        ] {
            assert_eq!(host.may_have(remote), expected, "{remote}");
            assert!(Host::Local.may_have(remote));
        }
    }
}
