//! Authentication of callers of the API and readers of the pages.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::config::credential::Secret;
use crate::config::forge::Forge;
use crate::config::resolver::Resolver;
use crate::model::callers::{ApiToken, GitHubTeams, Pages, Rights, Scope, SessionTimes};
use crate::model::id::TeamName;
use crate::support::globs::Globs;
use crate::support::text::refuse_invisible;

/// A session that is shorter would end while its person reads a page.
const SHORTEST_SESSION: Duration = Duration::from_mins(1);

/// The callers of the API and the readers of the pages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Auth {
    /// Tokens for programs, and for people who look at the pages.
    pub(super) tokens: Option<Vec<Token>>,
    /// People with GitHub tokens of their own, if `forge.github` is set: each has the permissions on an app that GitHub
    /// grants on its repository. `{}` is enough. Default: people cannot call.
    pub(super) github: Option<GitHubCallers>,
    /// The readers of the pages: `token`, everybody with one of the tokens; `open`, everybody who can reach the
    /// listener; either way acts need a sign-in. Default: `token`.
    pub(super) pages: Option<Pages>,
    /// The time for which people stay signed in on the pages.
    pub(super) sessions: Option<Sessions>,
}

/// The time for which people stay signed in on the pages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sessions {
    /// The longest time without a request of the browser, a minute to a day. Default: `8h`.
    idle: Option<String>,
    /// The longest time at all, a minute to a day; a GitHub App's token for a person ends after eight hours anyway.
    /// Default: `24h`.
    longest: Option<String>,
}

/// People with a GitHub token of their own.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct GitHubCallers {
    /// Teams, `ORGANIZATION/TEAM`, whose members may do everything. Default: none.
    admins: Option<Vec<String>>,
    /// Teams whose members may read everything. Default: none; others may read an app if they may read its repository.
    readers: Option<Vec<String>>,
}

/// A token for the API: its name, its location, and its rights. Exactly one of `sha256`, `file` and `env` gives the
/// location; `the-deployer config token` makes one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    /// The name of its user, for logs.
    #[schemars(extend("format" = "line"))]
    name: String,
    /// The SHA-256 of the token, in hexadecimal: as `the-deployer config token` prints it.
    #[serde(default)]
    sha256: Option<String>,
    /// A file with the token.
    #[serde(default)]
    file: Option<String>,
    /// An environment variable with the token.
    #[serde(default)]
    env: Option<String>,
    /// Its scope: `read`, `deploy` or `admin`. Default: `admin`.
    #[serde(default)]
    scope: Option<Scope>,
    /// Its targets, as globs over their names. Default: all.
    #[serde(default)]
    targets: Option<Vec<String>>,
    /// Its apps, as globs over `namespace/slug`. Default: all.
    #[serde(default)]
    apps: Option<Vec<String>>,
}

impl Resolver<'_> {
    pub(super) fn tokens(&mut self, tokens: Vec<Token>) -> Vec<ApiToken> {
        let mut names = Vec::new();
        let api_tokens = tokens.into_iter().enumerate().filter_map(|(n, token)| {
            let path = format!("auth.tokens[{n}]");
            let name = token.name.clone();
            if names.contains(&name) {
                let message = format!("there is a token called {name} already");
                self.report.error(&format!("{path}.name"), message, "give it another name");
            }
            if let Err(message) = refuse_invisible("the name", &name) {
                self.report.error(&format!("{path}.name"), message, "give it another name");
            }
            names.push(name);
            self.token(&path, token)
        });
        api_tokens.collect()
    }

    fn token(&mut self, path: &str, token: Token) -> Option<ApiToken> {
        let Token { name, sha256, file, env, scope, targets, apps } = token;
        let targets = self.globs(&format!("{path}.targets"), targets);
        let apps = self.globs(&format!("{path}.apps"), apps);
        let rights = Arc::new(Rights { scope: scope.unwrap_or_default(), targets, apps });
        let one_of = "give exactly one of `sha256`, `file` and `env`";
        match (sha256, file.is_some() || env.is_some()) {
            (Some(digits), false) => {
                let mut sha256 = [0; 32];
                if hex::decode_to_slice(&digits, &mut sha256).is_err() {
                    let help = "make one with `the-deployer config token`, which prints both";
                    let message = "this is not a SHA-256: 64 hexadecimal digits";
                    self.report.error(&format!("{path}.sha256"), message, help);
                }
                Some(ApiToken { name, sha256, rights })
            }
            (Some(_), true) => {
                self.report.error(path, "this token is given more than once", one_of);
                None
            }
            (None, _) => {
                let secret = self.secret(path, Secret { file, env }, one_of)?;
                let sha256 = sha256_of(&secret);
                Some(ApiToken { name, sha256, rights })
            }
        }
    }

    /// Reads globs; none means all, and an empty list, which would allow nothing, is a mistake.
    fn globs(&mut self, path: &str, globs: Option<Vec<String>>) -> Globs {
        let Some(globs) = globs else { return Globs::default() };
        if globs.is_empty() {
            let message = "an empty list gives the token no rights";
            self.report.error(path, message, "name some, or leave it out for all");
        }
        self.limit_length(path, globs.len());
        self.parse_globs(path, &globs)
    }

    /// Reads the times for which people stay signed in.
    pub(super) fn sessions(&mut self, sessions: Sessions) -> SessionTimes {
        let mut time = |path: &str, text: Option<String>, hours: u64| {
            let time = self.duration(path, text, hours * 3600);
            if time < SHORTEST_SESSION {
                let message = "people would be signed out at once";
                self.report.error(path, message, "use a minute or more");
            }
            SignedDuration::try_from(time).unwrap_or(SignedDuration::from_hours(1))
        };
        SessionTimes {
            idle: time("auth.sessions.idle", sessions.idle, 8),
            longest: time("auth.sessions.longest", sessions.longest, 24),
        }
    }

    /// Reads the people who may call. Everybody can have an account and a repository at GitHub, so the configuration
    /// must name repositories or organizations.
    pub(super) fn callers(&mut self, callers: GitHubCallers, forge: Option<&Forge>) -> GitHubTeams {
        let GitHubCallers { admins, readers } = callers;
        let forge_is_told = self.report.is_broken("forge");
        match forge.and_then(|forge| forge.github.as_ref()) {
            None if forge_is_told => {}
            None => {
                let message = "callers cannot be identified: `forge.github` is not set";
                self.report.error("auth.github", message, "set it, or use `auth.tokens`");
            }
            Some(github) if github.repositories.is_none() && github.organizations.is_none() => {
                let message =
                    "every GitHub user could use the service, with a repository of their own";
                let help = "set `forge.github.organizations` or `forge.github.repositories`";
                self.report.error("auth.github", message, help);
            }
            Some(_) => {}
        }
        GitHubTeams {
            admins: self.teams("auth.github.admins", &admins.unwrap_or_default()),
            readers: self.teams("auth.github.readers", &readers.unwrap_or_default()),
        }
    }

    /// Reads teams by their names; reports invalid names at their places.
    pub(super) fn teams(&mut self, path: &str, names: &[String]) -> Vec<TeamName> {
        self.limit_length(path, names.len());
        let mut teams = Vec::new();
        for (n, name) in names.iter().enumerate() {
            match TeamName::parse(name.as_str()) {
                Ok(team) => teams.push(team),
                Err(error) => {
                    let help = "write it as in its address: `acme/platform`";
                    self.report.error(&format!("{path}[{n}]"), error.to_string(), help);
                }
            }
        }
        teams
    }
}

/// Hashes a token.
pub(super) fn sha256_of(secret: &SecretString) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(secret.expose_secret()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{GITHUB, loaded, refused, sources};

    const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn a_token_says_what_it_is_good_for_and_one_that_says_nothing_for_everything() {
        let text = format!(
            "auth:\n  tokens:\n  - {{name: old, env: TOKEN}}\n  \
             - {{name: ci, sha256: {HASH}, scope: deploy, targets: ['dev-*'], apps: ['devx/*']}}\n"
        );
        let tokens = loaded(&text).settings.tokens;
        let tokens: Vec<_> = tokens.iter().map(|token| token.rights.clone()).collect();
        assert_eq!(
            (tokens[0].scope, tokens[0].targets.match_all(), tokens[0].apps.match_all()),
            (Scope::Admin, true, true)
        );
        assert_eq!(
            (tokens[1].scope, tokens[1].targets.texts()),
            (Scope::Deploy, &["dev-*".to_owned()][..])
        );
        assert_eq!(tokens[1].apps.texts(), ["devx/*"]);
        assert!(!tokens[1].targets.match_all() && !tokens[1].apps.match_all());
    }

    #[test]
    fn globs_of_a_token_that_can_be_read_and_not_compiled_are_told_at_their_place() {
        let glob = format!("a{}b", "?".repeat(200_000));
        let lines =
            refused(&format!("auth: {{tokens: [{{name: a, env: TOKEN, apps: ['{glob}']}}]}}"));
        assert_eq!(
            lines,
            "config.yaml:1:46: this glob cannot be read: error building NFA [configuration]; use `*`, `?`, `[a-z]` and `{one,two}`\n"
        );
    }

    #[test]
    fn people_come_by_github_with_whose_they_are() {
        let people = loaded(&format!("{GITHUB}auth: {{github: {{}}}}\n")).settings.people.unwrap();
        assert!(people.admins.is_empty() && people.readers.is_empty());
        let text = format!(
            "{GITHUB}server: {{listen: '0.0.0.0:80'}}\n\
             auth: {{github: {{admins: [acme/platform], readers: [acme/dev]}}}}\n"
        );
        let people = loaded(&text).settings.people.unwrap();
        assert_eq!(people.admins[0].as_str(), "acme/platform");
        assert_eq!((people.readers[0].organization(), people.readers[0].slug()), ("acme", "dev"));
        assert_eq!(loaded(GITHUB).settings.people, None);
    }

    #[test]
    fn what_cannot_be_meant_is_told_at_its_place() {
        let lines = refused(
            "server: {trusted_proxies: [10.0.0.0/33, proxy]}\n\
             auth:\n  github: {admins: [platform]}\n  tokens:\n  \
             - {name: a, env: TOKEN, targets: [], apps: ['[']}\n  \
             - {name: b, env: TOKEN, scope: write}\n\
             clusters:\n- {name: prod, environment: production, domain: a.b, policies: {deploy_teams: [x]}}\n",
        );
        for expected in [
            "config.yaml:1:28: this is neither an address nor a network",
            "config.yaml:1:41: this is neither an address nor a network",
            "config.yaml:5:27: an empty list gives the token no rights",
            "config.yaml:5:47: this glob cannot be read",
            "`auth.tokens[1].scope` must be one of",
            "config.yaml:8:80: \"x\" is not a legal team",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
        let lines = refused("auth: {github: {admins: [platform]}}\n");
        for expected in [
            "config.yaml:1:8: callers cannot be identified: `forge.github` is not set",
            "config.yaml:1:26: \"platform\" is not a legal team",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
        let forge = GITHUB.replace(", organizations: [acme]", "");
        let lines = refused(&format!("{forge}auth: {{github: {{}}}}\n"));
        assert!(lines.contains("every GitHub user could use the service"), "{lines}");
    }

    #[test]
    fn a_token_is_given_in_exactly_one_way() {
        let lines = refused(
            "auth:\n  tokens:\n  - {name: a}\n  - {name: b, sha256: xyz}\n  - {name: b, sha256: x, env: TOKEN}\n  \
             - {name: d, env: NONE}\n",
        );
        for expected in [
            "this secret is not given",
            "config.yaml:4:23: this is not a SHA-256",
            "config.yaml:5:12: there is a token called b already",
            "this token is given more than once",
            "config.yaml:6:20: the variable NONE is not set",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
        let configuration =
            loaded("auth: {tokens: [{name: a, env: TOKEN}]}\nserver: {listen: 0.0.0.0:80}");
        let sha256 = "88ea7d7a6a2cdfad3a64c6c8ae9dae0eb4ef5bf4b6cc3d1b0fa1ac6a58d3ba1a";
        assert_eq!(hex::encode(configuration.settings.tokens[0].sha256).len(), sha256.len());
    }

    #[test]
    fn a_token_where_its_name_and_place_belong_is_not_shown() {
        for text in [
            "auth: {tokens: [s3cret]}",
            "auth: {tokens: s3cret}",
            "auth:\n  tokens: [{name: a, token: s3cret}]",
        ] {
            let output = format!("{}{:?}", refused(text), sources(Some(text), &[]).texts());
            assert!(!output.contains("s3cret"), "{output}");
        }
        let label =
            "clusters: [{name: a, environment: production, domain: a.b, labels: {token: x}}]";
        loaded(label);
    }

    #[test]
    fn people_stay_signed_in_for_a_day_at_most() {
        let times = |text: &str| loaded(text).settings.sessions;
        let hours = SignedDuration::from_hours;
        let default = times("{}");
        assert_eq!((default.idle, default.longest), (hours(8), hours(24)));
        let set = times("auth: {sessions: {idle: 30m, longest: 2h}}");
        assert_eq!((set.idle, set.longest), (SignedDuration::from_mins(30), hours(2)));
        for (text, expected) in [
            (
                "auth: {sessions: {idle: 59s}}",
                "config.yaml:1:25: people would be signed out at once",
            ),
            (
                "auth: {sessions: {longest: 25h}}",
                "config.yaml:1:28: this is not a duration of at most a day",
            ),
        ] {
            let lines = refused(text);
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
    }

    #[test]
    fn pages_are_behind_the_tokens_unless_they_are_opened() {
        assert_eq!(loaded("{}").settings.pages, Pages::Token);
        assert_eq!(loaded("auth: {pages: open}").settings.pages, Pages::Open);
        assert!(refused("auth: {pages: public}").contains("public"));
    }
}
