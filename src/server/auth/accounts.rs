//! Decides what the owner of a GitHub account may do who came without a token: another system has named the account. The
//! rules are those of people with a token. GitHub is asked with the service's own credentials.
//!
//! An answer counts for as long as one about a token does. None counts for longer while GitHub is down: nobody waits for a
//! button in an outage who could not use a token.

use std::hash::Hash;

use crate::forge::error::ForgeError;
use crate::model::callers::Scope;
use crate::model::id::{RepoName, TeamName};
use crate::model::person::RepoPermission;
use crate::server::auth::account_cache::AccountAnswers;
use crate::server::auth::admission::Authenticator;
use crate::server::auth::authorization::{forbidden, hide};
use crate::server::auth::caller::{Caller, Resource};
use crate::server::auth::token_cache::{FRESH, FRESH_NO};
use crate::server::problem::{Problem, ProblemKind};
use crate::support::sync::lock;

impl Authenticator {
    /// Fails unless the account may see or deploy the app: it has that permission on its repository and, to deploy, is in
    /// a team of each cluster; or it is in a team of administrators, or of readers. Other rights need a token.
    pub(super) async fn account_may(
        &self,
        caller: &Caller,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let Some(github) = &self.admission.github else { return Err(no_people()) };
        let target = match resource {
            Resource::App(target, _) => Some(target),
            Resource::Repository(_, target) => target.as_ref(),
            Resource::Everywhere | Resource::Target(_) => {
                return Err(needs_token(caller, resource));
            }
        };
        let (mut trusted_teams, needed_permission) = match scope {
            Scope::Read => (github.readers.clone(), RepoPermission::Read),
            Scope::Deploy => (Vec::new(), RepoPermission::Push),
            Scope::Admin => return Err(needs_token(caller, resource)),
        };
        trusted_teams.extend(github.admins.iter().cloned());
        let repository = self.repository_of(resource).await?;
        let Some(repository) = repository.filter(|name| self.admission.repositories.allow(name))
        else {
            return Err(hide(caller, resource));
        };
        let is_trusted = self.account_is_in_one(caller, &repository, &trusted_teams).await;
        if matches!(is_trusted, Ok(true)) {
            return Ok(());
        }
        if self.account_on(caller, &repository).await? < needed_permission {
            // Where teams cannot be read, a team might have allowed it.
            is_trusted?;
            return Err(match scope {
                Scope::Read => hide(caller, resource),
                Scope::Deploy | Scope::Admin => forbidden(format!(
                    "{} may not deploy {resource}: that needs push permission on its repository",
                    caller.name
                )),
            });
        }
        let Some(target) = target.filter(|_| scope > Scope::Read) else { return Ok(()) };
        // Of a fleet, each cluster must allow the person.
        for cluster in self.deployments.clusters_of(target) {
            let Some(teams) = self.admission.deploy_teams.get(&cluster) else { continue };
            if !self.account_is_in_one(caller, &repository, teams).await? {
                let names: Vec<_> = teams.iter().map(ToString::to_string).collect();
                return Err(forbidden(format!(
                    "{cluster} is for members of {}, and GitHub shows {} in none of them",
                    names.join(", "),
                    caller.name
                )));
            }
        }
        Ok(())
    }

    /// Fails unless the account is in the team, or in one of administrators; the team belongs to the repository's owner.
    pub(super) async fn account_is_member(
        &self,
        caller: &Caller,
        team: &TeamName,
        repository: &RepoName,
    ) -> Result<(), Problem> {
        let Some(github) = &self.admission.github else { return Err(no_people()) };
        let membership = self.account_is_in_one(caller, repository, std::slice::from_ref(team));
        let membership = membership.await;
        if matches!(membership, Ok(true))
            || self.account_is_in_one(caller, repository, &github.admins).await?
        {
            return Ok(());
        }
        membership?;
        Err(forbidden(format!(
            "this is for members of {team}, and GitHub does not show {} as one",
            caller.name
        )))
    }

    async fn account_on(
        &self,
        caller: &Caller,
        repository: &RepoName,
    ) -> Result<RepoPermission, Problem> {
        let key = (repository.clone(), caller.name.clone());
        let asking = self.deployments.forge.permission_of(repository, &caller.name);
        let is_yes = |level: &RepoPermission| *level > RepoPermission::Nothing;
        self.answer_about(&self.accounts.permissions, key, asking, is_yes).await
    }

    /// Returns whether the account is in one of the teams, as far as the repository's owner has them.
    async fn account_is_in_one(
        &self,
        caller: &Caller,
        repository: &RepoName,
        teams: &[TeamName],
    ) -> Result<bool, Problem> {
        for team in teams {
            let key = (team.clone(), repository.clone(), caller.name.clone());
            let teams = std::slice::from_ref(team);
            let asking = self.deployments.forge.is_in_one(repository, &caller.name, teams);
            let is_yes = |is_member: &bool| *is_member;
            if self.answer_about(&self.accounts.memberships, key, asking, is_yes).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the cached answer, or asks; a refusal is cached for a shorter time.
    async fn answer_about<K: Clone + Eq + Hash, V: Clone>(
        &self,
        answers: &AccountAnswers<K, V>,
        key: K,
        asking: impl Future<Output = Result<V, ForgeError>>,
        is_yes: impl Fn(&V) -> bool,
    ) -> Result<V, Problem> {
        let now = self.deployments.clock.now();
        if let Some(answer) = lock(answers).get(&key, now) {
            return Ok(answer);
        }
        let answer = asking.await.map_err(|error| unreachable_problem(&error))?;
        let age = if is_yes(&answer) { FRESH } else { FRESH_NO };
        if let Ok(until) = now.checked_add(age) {
            lock(answers).put(key, answer.clone(), until);
        }
        Ok(answer)
    }
}

fn no_people() -> Problem {
    forbidden("people may not act here: `auth.github` is not set".to_owned())
}

fn needs_token(caller: &Caller, resource: &Resource) -> Problem {
    forbidden(format!("{} needs a token for {resource}", caller.name))
}

fn unreachable_problem(error: &ForgeError) -> Problem {
    tracing::warn!(%error, "permissions of an account could not be read");
    let detail = "GitHub cannot be asked for your permissions now; try again later";
    Problem::new(ProblemKind::Unavailable, detail)
}
