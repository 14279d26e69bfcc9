//! Decides what the owner of a GitHub account may do who came without a token: another system has named the account. The
//! rules are those of people with a token. GitHub is asked with the service's own credentials, and nothing is cached.

use crate::forge::error::ForgeError;
use crate::model::callers::Scope;
use crate::model::id::TeamName;
use crate::server::auth::admission::Authenticator;
use crate::server::auth::authorization::{forbidden, hide};
use crate::server::auth::caller::{Caller, Resource};
use crate::server::problem::{Problem, ProblemKind};

impl Authenticator {
    /// Fails unless the account may deploy the app: it may push to its repository and is in a team of each cluster, or
    /// is in a team of administrators. Other rights need a token.
    pub(super) async fn account_may(
        &self,
        caller: &Caller,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let Some(github) = &self.admission.github else {
            return Err(forbidden("people may not act here: `auth.github` is not set".to_owned()));
        };
        let (Scope::Deploy, Resource::App(target, _)) = (scope, resource) else {
            return Err(forbidden(format!("{} needs a token for {resource}", caller.name)));
        };
        let repository = self.repository_of(resource).await?;
        let Some(repository) = repository.filter(|name| self.admission.repositories.allow(name))
        else {
            return Err(hide(caller, resource));
        };
        let forge = &self.deployments.forge;
        let is_in = async |teams: &[TeamName]| {
            forge
                .is_in_one(&repository, &caller.name, teams)
                .await
                .map_err(|error| unreachable_problem(&error))
        };
        let is_trusted = is_in(&github.admins).await;
        if matches!(is_trusted, Ok(true)) {
            return Ok(());
        }
        let may_push = forge.may_push(&repository, &caller.name).await;
        if !may_push.map_err(|error| unreachable_problem(&error))? {
            // Where teams cannot be read, a team might have allowed it.
            is_trusted?;
            return Err(forbidden(format!(
                "{} may not deploy {resource}: that needs push permission on its repository",
                caller.name
            )));
        }
        // Of a fleet, each cluster must allow the person.
        for cluster in self.deployments.clusters_of(target) {
            let Some(teams) = self.admission.deploy_teams.get(&cluster) else { continue };
            if !is_in(teams).await? {
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
}

fn unreachable_problem(error: &ForgeError) -> Problem {
    tracing::warn!(%error, "permissions of an account could not be read");
    let detail =
        "GitHub cannot be asked for your permissions now; nothing was done, try again later";
    Problem::new(ProblemKind::Unavailable, detail)
}
