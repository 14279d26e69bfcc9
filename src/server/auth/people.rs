//! Asks GitHub about people with their own tokens, and caches the answers for a short while.

use secrecy::{ExposeSecret, SecretString};

use crate::model::id::{RepoName, TeamName};
use crate::model::person::{IdentityError, Person, RepoPermission};
use crate::server::auth::admission::Authenticator;
use crate::server::auth::token_cache::{
    Lookup, TokenFingerprint, TokenQuestion, TokenReply, decide,
};
use crate::support::sync::lock;

impl Authenticator {
    /// Returns whether GitHub knew that token now or a little earlier.
    pub(super) fn known_person(&self, token: &SecretString) -> bool {
        let token = self.fingerprint(token);
        let lookup =
            lock(&self.people).look_up(&token, &TokenQuestion::Who, self.deployments.clock.now());
        matches!(lookup, Lookup::Fresh(reply) | Lookup::Stale(reply) if reply.is_yes())
    }

    /// Returns the person who has that token.
    pub(super) async fn person(&self, token: &SecretString) -> Result<Person, IdentityError> {
        match self.ask(token, TokenQuestion::Who).await? {
            TokenReply::Is(Some(person)) => Ok(person),
            TokenReply::Is(None)
            | TokenReply::May(_)
            | TokenReply::IsMember(_)
            | TokenReply::Hidden(_) => Err(IdentityError::InvalidToken),
        }
    }

    /// Returns the person's permission on a repository.
    pub(super) async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<RepoPermission, IdentityError> {
        match self.ask(token, TokenQuestion::On(repository.clone())).await? {
            TokenReply::May(level) => Ok(level),
            TokenReply::Is(_) | TokenReply::IsMember(_) | TokenReply::Hidden(_) => {
                Ok(RepoPermission::Nothing)
            }
        }
    }

    /// Returns whether the person, under that name, is in one of the teams.
    pub(super) async fn is_in_one(
        &self,
        token: &SecretString,
        login: &str,
        teams: &[TeamName],
    ) -> Result<bool, IdentityError> {
        let mut refusal = None;
        for team in teams {
            match self.ask(token, TokenQuestion::In(team.clone(), login.to_owned())).await {
                Ok(TokenReply::IsMember(true)) => return Ok(true),
                // The token may still show a team of another organization.
                Ok(TokenReply::Hidden(detail)) | Err(IdentityError::Forbidden(detail)) => {
                    refusal = Some(detail);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        refusal.map_or(Ok(false), |detail| Err(IdentityError::Forbidden(detail)))
    }

    async fn ask(
        &self,
        token: &SecretString,
        question: TokenQuestion,
    ) -> Result<TokenReply, IdentityError> {
        let print = self.fingerprint(token);
        let now = self.deployments.clock.now();
        let earlier_reply = match lock(&self.people).look_up(&print, &question, now) {
            Lookup::Fresh(reply) => return Ok(reply),
            Lookup::Stale(reply) => Some(reply),
            Lookup::Miss => None,
        };
        let forge = &self.deployments.forge;
        let wait = lock(&self.people).wait(&print, now);
        let reply = match (wait, &question) {
            (Some(remaining), _) => Err(IdentityError::RateLimited(remaining)),
            (None, TokenQuestion::Who) => {
                forge.person(token).await.map(|person| TokenReply::Is(Some(person)))
            }
            (None, TokenQuestion::On(repository)) => {
                forge.on_repository(token, repository).await.map(TokenReply::May)
            }
            (None, TokenQuestion::In(team, login)) => {
                forge.is_member(token, login, team).await.map(TokenReply::IsMember)
            }
        };
        lock(&self.people).note(&print, question, &reply, now);
        decide(reply, earlier_reply)
    }

    fn fingerprint(&self, token: &SecretString) -> TokenFingerprint {
        self.admission.key.fingerprint(token.expose_secret())
    }
}
