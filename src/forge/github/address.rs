//! The addresses of a GitHub for people and for git, derived from its API's address. Pure.

use reqwest::Url;

use crate::model::id::RepoName;
use crate::support::host::is_loopback;

/// Returns the address that people know a GitHub by, without a slash at its end: `https://github.com`, a company's own
/// `https://NAME.ghe.com`, an Enterprise Server's `https://HOST`.
pub fn web_url(api_url: &str) -> String {
    let url = api_url.trim_end_matches('/').trim_end_matches("/api/v3").trim_end_matches('/');
    match url.split_once("://api.") {
        Some((scheme, host)) if host == "github.com" || host.ends_with(".ghe.com") => {
            format!("{scheme}://{host}")
        }
        _ => url.to_owned(),
    }
}

/// The reason why a GitHub's tokens are not used for a git repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressMismatch {
    /// The repository is on another host.
    #[error("it is not on {0}")]
    OtherHost(String),
    /// The connection is not encrypted: everybody on the way could read the token.
    #[error("it is not reached by https, and a token would be sent there unencrypted")]
    InTheClear,
    /// The path does not have two parts.
    #[error("its address does not end in OWNER/NAME")]
    NoName,
}

/// Returns the repository at a git address, if it is one of that GitHub. A port does not count: git and the API may
/// have different ones.
///
/// # Errors
/// The reason why the App's tokens must not go to that address.
pub fn repository_at(api_url: &str, git_url: &str) -> Result<RepoName, AddressMismatch> {
    let web = web_url(api_url);
    let host = |url: &str| Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let own_host = host(&web).ok_or_else(|| AddressMismatch::OtherHost(web.clone()))?;
    let elsewhere = || AddressMismatch::OtherHost(own_host.clone());
    let url = Url::parse(git_url).map_err(|_| elsewhere())?;
    if url.host_str() != Some(&own_host) {
        return Err(elsewhere());
    }
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&own_host)) {
        return Err(AddressMismatch::InTheClear);
    }
    let path = url.path().trim_matches('/');
    let name = path.strip_suffix(".git").unwrap_or(path);
    RepoName::parse(name.to_owned()).map_err(|_| AddressMismatch::NoName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_know_a_github_by_its_host() {
        for (api, web) in [
            ("https://api.github.com", "https://github.com"),
            ("https://api.github.com/", "https://github.com"),
            ("https://api.acme.ghe.com", "https://acme.ghe.com"),
            ("https://github.acme.com/api/v3", "https://github.acme.com"),
            ("https://api.acme.com/api/v3/", "https://api.acme.com"),
            ("http://127.0.0.1:8080/api/v3", "http://127.0.0.1:8080"),
        ] {
            assert_eq!(web_url(api), web, "{api}");
        }
    }

    #[test]
    fn a_repository_is_found_by_its_address() {
        let at = |api, git| repository_at(api, git).map(|name| name.to_string());
        for git in [
            "https://github.com/acme/manifests.git",
            "https://github.com/acme/manifests",
            "https://GitHub.com:443/acme/manifests/",
        ] {
            assert_eq!(at("https://api.github.com", git), Ok("acme/manifests".to_owned()), "{git}");
        }
        let local = at("http://127.0.0.1:1/api/v3", "http://127.0.0.1:2/acme/m.git");
        assert_eq!(local, Ok("acme/m".to_owned()));
    }

    #[test]
    fn no_token_goes_elsewhere_or_in_the_clear() {
        let error_of = |git| repository_at("https://api.github.com", git).unwrap_err();
        for git in [
            "https://gitlab.com/acme/m.git",
            "https://github.com.evil.example/acme/m.git",
            "https://evil.example/github.com/acme/m.git",
            "/srv/github.com/acme/m.git",
            "https://api.github.com/acme/m.git",
        ] {
            assert_eq!(error_of(git), AddressMismatch::OtherHost("github.com".to_owned()), "{git}");
        }
        assert_eq!(error_of("http://github.com/acme/m.git"), AddressMismatch::InTheClear);
        for git in ["https://github.com/acme", "https://github.com/a/b/c.git", "https://github.com"]
        {
            assert_eq!(error_of(git), AddressMismatch::NoName, "{git}");
        }
    }
}
