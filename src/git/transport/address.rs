//! The addresses that an operator may write for a repository. Pure.
//!
//! No text before an `@` is ever printed: an address with a password in it is refused, and must not reach a log on its
//! way out.

use std::path::PathBuf;

use crate::model::ssh::SshAddress;

/// A repository's address, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryAddress {
    /// A bare repository on this machine.
    Local(PathBuf),
    /// A repository behind git's smart HTTP; without a slash at its end, query or credentials.
    Http(reqwest::Url),
    /// A repository behind ssh.
    Ssh(SshAddress),
}

impl RepositoryAddress {
    /// Reads a path, a `file://`, `http://`, `https://` or `ssh://` address, or `USER@HOST:PATH`.
    ///
    /// # Errors
    /// A sentence with what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file://") {
            return local(path);
        }
        if SshAddress::is_meant(text) {
            return SshAddress::parse(text).map(Self::Ssh);
        }
        match text.split_once("://") {
            Some(("http" | "https", _)) => http(text),
            Some((scheme, _)) => Err(format!(
                "a repository cannot be reached by {:?}: use https:// with a token file, ssh:// \
                 with a key, or a path",
                scheme.chars().take(20).collect::<String>()
            )),
            None => local(text),
        }
    }
}

/// Prints the address in the form that people may see.
impl std::fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Http(url) => f.write_str(url.as_str()),
            Self::Ssh(address) => address.fmt(f),
        }
    }
}

fn local(path: &str) -> Result<RepositoryAddress, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the address of the repository is empty".to_owned());
    }
    Ok(RepositoryAddress::Local(PathBuf::from(path)))
}

fn http(text: &str) -> Result<RepositoryAddress, String> {
    // The parser's own message could repeat a password, so it is not passed on.
    let mut url = reqwest::Url::parse(text)
        .map_err(|_| "the address of the repository is not a URL".to_owned())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address of the repository holds a user name or password: \
             write it without, and put the token into the token file"
            .to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the address of the repository holds a `?` or `#`: write it without".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(RepositoryAddress::Http(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_files_http_and_ssh_are_addresses() {
        let path = |text: &str| RepositoryAddress::Local(PathBuf::from(text));
        assert_eq!(RepositoryAddress::parse("./x/m.git"), Ok(path("./x/m.git")));
        assert_eq!(RepositoryAddress::parse("file:///srv/m.git"), Ok(path("/srv/m.git")));
        let address = RepositoryAddress::parse("https://git.example/a/m.git/").unwrap();
        assert_eq!(address.to_string(), "https://git.example/a/m.git");
        for text in ["git@git.example:a/m.git", "ssh://git@git.example:2222/a/m.git"] {
            let Ok(RepositoryAddress::Ssh(address)) = RepositoryAddress::parse(text) else {
                panic!("{text}")
            };
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        for text in [
            "https://user:hunter2@git.example/m.git",
            "https://hunter2@git.example/m.git",
            "https://user:hunter2@[::1",
        ] {
            let error = RepositoryAddress::parse(text).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = RepositoryAddress::parse("https://a:b@git.example/m").unwrap_err();
        assert!(error.contains("token file"), "{error}");
    }

    #[test]
    fn what_we_cannot_speak_is_refused_with_a_way_out() {
        for text in ["git+ssh://git@h/x", "git://h/x", "ext::sh -c x", "github.com:o/n", ""] {
            assert!(RepositoryAddress::parse(text).is_err(), "{text}");
        }
        assert!(RepositoryAddress::parse("git://h/x").unwrap_err().contains("https://"));
    }
}
