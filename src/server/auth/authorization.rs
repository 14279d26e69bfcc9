//! Authorizes callers: the one place that decides what they may do.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use secrecy::SecretString;

use crate::model::callers::{Rights, Scope};
use crate::model::id::{RepoName, TargetName, TeamName};
use crate::model::person::{IdentityError, RepoPermission};
use crate::server::auth::admission::Authenticator;
use crate::server::auth::caller::{Caller, Resource, RightsSource};
use crate::server::problem::{Problem, ProblemKind};
use crate::store::StoreError;

/// The number of lookups that run at once for one list.
const AT_ONCE: usize = 8;

impl Authenticator {
    /// Fails unless the caller has the permission on the resource. Every handler calls it first.
    pub(crate) async fn authorize(
        &self,
        caller: &Caller,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let decision = match &caller.standing {
            RightsSource::Everybody => Ok(()),
            RightsSource::Token(rights) => self.token_may(caller, rights, scope, resource).await,
            RightsSource::Person(token) => self.person_may(caller, token, scope, resource).await,
            RightsSource::Account => self.account_may(caller, scope, resource).await,
        };
        let allowed = decision.is_ok();
        tracing::debug!(caller = caller.name, ?scope, %resource, allowed, "permission checked");
        decision
    }

    /// Fails unless the caller is a member of the team. Administrators may act for every team; a program is in none.
    /// Where the caller has no token, GitHub is asked on behalf of the repository.
    pub(crate) async fn require_member(
        &self,
        caller: &Caller,
        team: &TeamName,
        repository: &RepoName,
    ) -> Result<(), Problem> {
        let token = match &caller.standing {
            RightsSource::Everybody => return Ok(()),
            RightsSource::Token(rights)
                if rights.hold(Scope::Admin, &Resource::Everywhere, &[]) =>
            {
                return Ok(());
            }
            RightsSource::Token(_) => {
                return Err(forbidden(format!(
                    "this is for members of {team}, and the token {} is no person: a member does it with `bart login`, \
                     or a token of scope `admin` for everything",
                    caller.name
                )));
            }
            RightsSource::Account => {
                return self.account_is_member(caller, team, repository).await;
            }
            RightsSource::Person(token) => token,
        };
        let membership = self.is_in_one(token, &caller.name, std::slice::from_ref(team)).await;
        if matches!(membership, Ok(true)) || self.is_trusted(caller, token, Scope::Admin).await? {
            return Ok(());
        }
        Err(match membership {
            Ok(_) => forbidden(format!(
                "this is for members of {team}, and GitHub does not show {} as one (a classic token needs the scope \
                 read:org to show it)",
                caller.name
            )),
            Err(IdentityError::Forbidden(reason)) => forbidden(format!(
                "this is for members of {team}, and the token cannot show that {} is one: {reason}",
                caller.name
            )),
            Err(error) => identity_problem(error),
        })
    }

    /// Returns whether the caller may see the resource; an error means that this cannot be determined.
    pub(crate) async fn can_read(
        &self,
        caller: &Caller,
        resource: &Resource,
    ) -> Result<bool, Problem> {
        match self.authorize(caller, Scope::Read, resource).await {
            Ok(()) => Ok(true),
            Err(problem) if problem.kind() == ProblemKind::Forbidden => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    /// Returns the elements of a list that the caller may see.
    pub(crate) async fn filter_visible<T>(
        &self,
        caller: &Caller,
        items: Vec<T>,
        resource: impl Fn(&T) -> Resource,
    ) -> Result<Vec<T>, Problem> {
        if matches!(caller.standing, RightsSource::Everybody)
            || self.can_read(caller, &Resource::Everywhere).await?
        {
            return Ok(items);
        }
        let of_items: Vec<Resource> = items.iter().map(resource).collect();
        let distinct: BTreeSet<&Resource> = of_items.iter().collect();
        let requests: Vec<_> =
            distinct.iter().map(|resource| Box::pin(self.read_as(caller, resource))).collect();
        let questions: Vec<Resource> =
            stream::iter(requests).buffered(AT_ONCE).try_collect().await?;
        let unique: BTreeSet<&Resource> = questions.iter().collect();
        let requests: Vec<_> =
            unique.iter().map(|question| Box::pin(self.can_read(caller, question))).collect();
        let answers: Vec<bool> = stream::iter(requests).buffered(AT_ONCE).try_collect().await?;
        let answers: BTreeMap<&Resource, bool> = unique.into_iter().zip(answers).collect();
        let visible = distinct.into_iter().zip(&questions);
        let visible = visible.filter(|(_, question)| answers.get(question) == Some(&true));
        let visible: BTreeSet<&Resource> = visible.map(|(resource, _)| resource).collect();
        let pairs = items.into_iter().zip(&of_items);
        Ok(pairs.filter(|(_, resource)| visible.contains(resource)).map(|(item, _)| item).collect())
    }

    /// Returns the resource that decides whether the caller may see this one: for people the repository, wherever it is
    /// deployed.
    async fn read_as(&self, caller: &Caller, resource: &Resource) -> Result<Resource, Problem> {
        let of_person = matches!(caller.standing, RightsSource::Person(_));
        let repository = match resource {
            Resource::Repository(repository, _) if of_person => Some(repository.clone()),
            Resource::App(..) if of_person => self.repository_of(resource).await?,
            _ => None,
        };
        Ok(repository
            .map_or_else(|| resource.clone(), |repository| Resource::Repository(repository, None)))
    }

    /// Returns the repository by whose permissions GitHub decides; `None` if it is not known.
    pub(super) async fn repository_of(
        &self,
        resource: &Resource,
    ) -> Result<Option<RepoName>, Problem> {
        match resource {
            Resource::Everywhere | Resource::Target(_) => Ok(None),
            Resource::Repository(repository, _) => Ok(Some(repository.clone())),
            Resource::App(target, app) => {
                let ownership = self.deployments.store.ownership(target, app).await;
                Ok(ownership.map_err(|error| unknown(&error))?.app)
            }
        }
    }

    async fn token_may(
        &self,
        caller: &Caller,
        rights: &Rights,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let deployed = match resource {
            Resource::Repository(repository, _) if rights.ask_of_apps(resource) => {
                let deployed = self.deployments.store.list_owned_apps(repository).await;
                deployed.map_err(|error| unknown(&error))?
            }
            _ => Vec::new(),
        };
        if rights.hold(scope, resource, &deployed) {
            return Ok(());
        }
        Err(forbidden(format!(
            "the token {} may not {} {resource}: it is for `{}` on the targets {:?}, apps {:?}",
            caller.name,
            verb(scope),
            rights.scope.as_str(),
            rights.targets,
            rights.apps
        )))
    }

    /// Decides by teams first: a person who may read everything costs one call to GitHub for a whole list. If teams
    /// cannot be read, the permission on the repository may be enough.
    async fn person_may(
        &self,
        caller: &Caller,
        token: &SecretString,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let trust = self.is_trusted(caller, token, scope).await;
        if matches!(trust, Ok(true)) {
            return Ok(());
        }
        match self.by_repository(caller, token, scope, resource).await {
            Err(problem) if problem.kind() == ProblemKind::Forbidden => {
                Err(trust.err().unwrap_or(problem))
            }
            result => result,
        }
    }

    async fn by_repository(
        &self,
        caller: &Caller,
        token: &SecretString,
        scope: Scope,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let target = match resource {
            Resource::Everywhere | Resource::Target(_) => {
                return Err(admin_problem(caller, scope, resource));
            }
            Resource::Repository(_, target) => target.as_ref(),
            Resource::App(target, _) => Some(target),
        };
        let repository = self.repository_of(resource).await?;
        let Some(repository) = repository.filter(|name| self.admission.repositories.allow(name))
        else {
            return Err(hide(caller, resource));
        };
        let level = self.on_repository(token, &repository).await.map_err(identity_problem)?;
        require(caller, scope, resource, &repository, level)?;
        match target {
            Some(target) if scope > Scope::Read => self.is_of_teams(caller, token, target).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn is_trusted(
        &self,
        caller: &Caller,
        token: &SecretString,
        scope: Scope,
    ) -> Result<bool, Problem> {
        let Some(github) = &self.admission.github else { return Ok(false) };
        let mut teams = github.admins.clone();
        if scope == Scope::Read {
            teams.extend(github.readers.iter().cloned());
        }
        match self.is_in_one(token, &caller.name, &teams).await {
            // A token that cannot show teams can still do what needs none.
            Err(IdentityError::Forbidden(_)) => Ok(false),
            result => result.map_err(identity_problem),
        }
    }

    async fn is_of_teams(
        &self,
        caller: &Caller,
        token: &SecretString,
        target: &TargetName,
    ) -> Result<(), Problem> {
        // Of a fleet, each cluster must allow the person.
        for cluster in self.deployments.clusters_of(target) {
            self.is_of_cluster_teams(caller, token, &cluster).await?;
        }
        Ok(())
    }

    async fn is_of_cluster_teams(
        &self,
        caller: &Caller,
        token: &SecretString,
        target: &TargetName,
    ) -> Result<(), Problem> {
        let Some(teams) = self.admission.deploy_teams.get(target) else { return Ok(()) };
        let names: Vec<_> = teams.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        match self.is_in_one(token, &caller.name, teams).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(forbidden(format!(
                "{target} is for members of {names}, and GitHub shows {} in none of them (a \
                 classic token needs the scope read:org to show it)",
                caller.name
            ))),
            Err(IdentityError::Forbidden(reason)) => Err(forbidden(format!(
                "{target} is for members of {names}, and the token cannot show that {} is one: \
                 {reason}",
                caller.name
            ))),
            Err(error) => Err(identity_problem(error)),
        }
    }
}

fn require(
    caller: &Caller,
    scope: Scope,
    resource: &Resource,
    repository: &RepoName,
    level: RepoPermission,
) -> Result<(), Problem> {
    let needed_permission = match scope {
        Scope::Read => RepoPermission::Read,
        Scope::Deploy => RepoPermission::Push,
        Scope::Admin => return Err(admin_problem(caller, scope, resource)),
    };
    match level {
        level if level >= needed_permission => Ok(()),
        RepoPermission::Nothing => Err(hide(caller, resource)),
        RepoPermission::Read | RepoPermission::Push => Err(forbidden(format!(
            "{} may not deploy {resource}: that needs push permission on {repository}, with a token \
             that may write there",
            caller.name
        ))),
    }
}

/// Makes the same problem whether the resource exists or not: a caller who may not see it learns nothing.
pub(super) fn hide(caller: &Caller, resource: &Resource) -> Problem {
    forbidden(format!(
        "{} may not see {resource}, or there is no such thing: GitHub decides by its repository",
        caller.name
    ))
}

fn admin_problem(caller: &Caller, scope: Scope, resource: &Resource) -> Problem {
    let team = match scope {
        Scope::Read => "auth.github.readers",
        Scope::Deploy | Scope::Admin => "auth.github.admins",
    };
    let verb = verb(scope);
    forbidden(format!(
        "{} may not {verb} {resource}: that is for teams of `{team}`, and for API tokens",
        caller.name
    ))
}

fn verb(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "see",
        Scope::Deploy => "act on",
        Scope::Admin => "administer",
    }
}

pub(super) fn forbidden(detail: String) -> Problem {
    Problem::new(ProblemKind::Forbidden, detail)
}

fn unknown(error: &StoreError) -> Problem {
    tracing::error!(%error, "owner of an app could not be read");
    Problem::new(
        ProblemKind::Unavailable,
        "the app's owner cannot be determined now; try again later",
    )
}

/// Makes the problem for an identity that GitHub did not confirm.
pub(super) fn identity_problem(error: IdentityError) -> Problem {
    match error {
        IdentityError::InvalidToken => Problem::new(
            ProblemKind::Unauthorized,
            "GitHub does not know the token: it is wrong, expired or revoked; `bart login` gets a \
             new one",
        ),
        IdentityError::Forbidden(detail) => forbidden(detail),
        IdentityError::RateLimited(wait) => Problem::new(
            ProblemKind::Unavailable,
            "GitHub's rate limit of this token is reached, so your permissions cannot be determined \
             now; try again later",
        )
        .after(wait),
        IdentityError::Unavailable(reason) => Problem::new(
            ProblemKind::Unavailable,
            format!(
                "GitHub cannot be asked for your identity and permissions ({reason}); an API token \
                 still works"
            ),
        ),
    }
}
