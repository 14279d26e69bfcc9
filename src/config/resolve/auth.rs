//! Who may call, and from behind which proxies.

use secrecy::SecretString;

use crate::config::file;
use crate::config::resolve::Resolver;
use crate::config::settings::{ApiToken, Network, People};
use crate::model::id::TeamName;
use crate::support::text::refuse_invisible;

impl Resolver<'_> {
    pub(super) fn tokens(&mut self, tokens: Vec<file::auth::Token>) -> Vec<ApiToken> {
        let mut names = Vec::new();
        let resolved = tokens.into_iter().enumerate().filter_map(|(n, token)| {
            let path = format!("auth.tokens[{n}]");
            let name = token.name.clone();
            if names.contains(&name) {
                let message = format!("there is a token called {name} already");
                self.report.wrong(&format!("{path}.name"), message, "give it another name");
            }
            if let Err(message) = refuse_invisible("the name", &name) {
                self.report.wrong(&format!("{path}.name"), message, "give it another name");
            }
            names.push(name);
            self.token(&path, token)
        });
        resolved.collect()
    }

    fn token(&mut self, path: &str, token: file::auth::Token) -> Option<ApiToken> {
        let file::auth::Token { name, sha256, file, env, scope, targets, apps } = token;
        self.globs(&format!("{path}.targets"), targets.as_deref());
        self.globs(&format!("{path}.apps"), apps.as_deref());
        let scope = scope.unwrap_or_default();
        let one_of = "give exactly one of `sha256`, `file` and `env`";
        match (sha256, file.is_some() || env.is_some()) {
            (Some(digits), false) => {
                let mut sha256 = [0; 32];
                if hex::decode_to_slice(&digits, &mut sha256).is_err() {
                    let help = "make one with `the-deployer config token`, which prints both";
                    let message = "this is not a SHA-256: 64 hexadecimal digits";
                    self.report.wrong(&format!("{path}.sha256"), message, help);
                }
                Some(ApiToken { name, sha256, scope, targets, apps })
            }
            (Some(_), true) => {
                self.report.wrong(path, "this token is given more than once", one_of);
                None
            }
            (None, _) => {
                let secret = self.secret(path, file::Secret { file, env }, one_of)?;
                let sha256 = sha256_of(&secret);
                Some(ApiToken { name, sha256, scope, targets, apps })
            }
        }
    }

    /// A list of nothing allows nothing, which nobody means.
    fn globs(&mut self, path: &str, globs: Option<&[String]>) {
        let Some(globs) = globs else { return };
        if globs.is_empty() {
            let message = "with nothing in it, the token is good for nothing";
            self.report.wrong(path, message, "name some, or leave it out for all");
        }
        self.few(path, globs.len());
        self.check_globs(path, globs);
    }

    /// The people who may come. At GitHub everybody can have an account and a repository: whose are
    /// meant must be said.
    pub(super) fn callers(
        &mut self,
        callers: file::auth::GitHubCallers,
        forge: Option<&file::Forge>,
    ) -> People {
        let file::auth::GitHubCallers { admins, readers } = callers;
        let forge_is_told = self.report.is_broken("forge");
        match forge.and_then(|forge| forge.github.as_ref()) {
            None if forge_is_told => {}
            None => {
                let message = "nobody can be asked who they are: `forge.github` is not set";
                self.report.wrong("auth.github", message, "set it, or use `auth.tokens`");
            }
            Some(github) if github.repositories.is_none() && github.organizations.is_none() => {
                let message = "everybody at GitHub could come, with a repository of their own";
                let help = "set `forge.github.organizations` or `forge.github.repositories`";
                self.report.wrong("auth.github", message, help);
            }
            Some(_) => {}
        }
        People {
            admins: self.teams("auth.github.admins", &admins.unwrap_or_default()),
            readers: self.teams("auth.github.readers", &readers.unwrap_or_default()),
        }
    }

    /// The teams of these names; those that cannot be are told at their places.
    pub(super) fn teams(&mut self, path: &str, names: &[String]) -> Vec<TeamName> {
        self.few(path, names.len());
        let mut teams = Vec::new();
        for (n, name) in names.iter().enumerate() {
            match TeamName::parse(name.as_str()) {
                Ok(team) => teams.push(team),
                Err(error) => {
                    let help = "write it as in its address: `acme/platform`";
                    self.report.wrong(&format!("{path}[{n}]"), error.to_string(), help);
                }
            }
        }
        teams
    }

    /// Which team's members may deploy to a target.
    pub(super) fn deploy_teams(&mut self, path: &str, names: &[String]) {
        self.teams(path, names);
    }

    pub(super) fn trusted_proxies(&mut self, texts: &[String]) -> Vec<Network> {
        let path = "server.trusted_proxies";
        self.few(path, texts.len());
        let mut networks = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            if let Some(network) = Network::parse(text) {
                networks.push(network);
            } else {
                let message = "this is neither an address nor a network";
                let help = "write it like 10.1.2.3 or 10.0.0.0/8";
                self.report.wrong(&format!("{path}[{n}]"), message, help);
            }
        }
        networks
    }
}

fn sha256_of(secret: &SecretString) -> [u8; 32] {
    use secrecy::ExposeSecret;
    use sha2::{Digest, Sha256};
    Sha256::digest(secret.expose_secret()).into()
}
