//! What callers may do: asked in one place.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use secrecy::SecretString;

use crate::model::deployment::Deployment;
use crate::model::id::{RepoName, TargetName};
use crate::model::person::{NotKnown, OnRepository};
use crate::server::Shared;
use crate::server::auth::caller::{Caller, Standing, Subject};
use crate::server::auth::rights::Place;
use crate::server::auth::{Rights, Scope};
use crate::server::problem::{Kind, Problem};
use crate::store::StoreError;

/// How many questions of one list are asked at once.
const AT_ONCE: usize = 8;

impl Shared {
    /// Whether the caller may do that. Asked first by every handler.
    pub(in crate::server) async fn may(
        &self,
        caller: &Caller,
        scope: Scope,
        subject: &Subject,
    ) -> Result<(), Problem> {
        let allowed = match &caller.standing {
            Standing::Everybody => Ok(()),
            Standing::Token(rights) => self.token_may(caller, rights, scope, subject).await,
            Standing::Person(token) => self.person_may(caller, token, scope, subject).await,
        };
        let may = allowed.is_ok();
        tracing::debug!(caller = caller.name, ?scope, %subject, may, "asked whether one may");
        allowed
    }

    /// Whether the caller may see a deployment: what it is of when it has been read, and its
    /// repository, which is what GitHub knows.
    pub(in crate::server) async fn may_see(
        &self,
        caller: &Caller,
        deployment: &Deployment,
    ) -> Result<(), Problem> {
        self.may(caller, Scope::Read, &seen_as(caller, deployment)).await
    }

    /// Whether the caller may see that; an error is that it cannot be found out.
    pub(in crate::server) async fn sees(
        &self,
        caller: &Caller,
        subject: &Subject,
    ) -> Result<bool, Problem> {
        self.allows(self.may(caller, Scope::Read, subject).await)
    }

    /// Whether the caller may stop a deployment: who may deploy what it is of.
    pub(in crate::server) async fn may_stop(
        &self,
        caller: &Caller,
        deployment: &Deployment,
    ) -> Result<(), Problem> {
        self.may(caller, Scope::Deploy, &seen_as(caller, deployment)).await
    }

    /// Those of a list that the caller may see.
    pub(in crate::server) async fn seen<T>(
        &self,
        caller: &Caller,
        items: Vec<T>,
        subject: impl Fn(&T) -> Subject,
    ) -> Result<Vec<T>, Problem> {
        if matches!(caller.standing, Standing::Everybody)
            || self.allows(self.may(caller, Scope::Read, &Subject::Everywhere).await)?
        {
            return Ok(items);
        }
        let of_items: Vec<Subject> = items.iter().map(subject).collect();
        let distinct = distinct(&of_items);
        let asking: Vec<_> =
            distinct.iter().map(|one| Box::pin(self.read_as(caller, one))).collect();
        let questions: Vec<Subject> = stream::iter(asking).buffered(AT_ONCE).try_collect().await?;
        let once = self::distinct(&questions);
        let asking: Vec<_> = once.iter().map(|one| Box::pin(self.sees(caller, one))).collect();
        let answers: Vec<bool> = stream::iter(asking).buffered(AT_ONCE).try_collect().await?;
        let allowed = |item: &Subject| {
            let asked = distinct.iter().position(|one| *one == item);
            let asked = asked.and_then(|place| questions.get(place));
            let mut both = once.iter().zip(&answers);
            both.any(|(one, yes)| Some(*one) == asked && *yes)
        };
        let both = items.into_iter().zip(&of_items);
        Ok(both.filter(|(_, subject)| allowed(subject)).map(|(item, _)| item).collect())
    }

    /// What is asked to find out whether the caller may see that: of people their repositories,
    /// wherever they are deployed to.
    async fn read_as(&self, caller: &Caller, subject: &Subject) -> Result<Subject, Problem> {
        let of_person = matches!(caller.standing, Standing::Person(_));
        Ok(match subject {
            Subject::Repository(repository, _) if of_person => {
                Subject::Repository(repository.clone(), None)
            }
            Subject::App(target, app) if of_person => {
                let found = self.state.deployments.store.ownership(target, app).await;
                let found = found.map_err(|error| unknown(&error))?.app;
                found.map_or_else(|| subject.clone(), |one| Subject::Repository(one, None))
            }
            _ => subject.clone(),
        })
    }

    /// Those of a list of deployments that the caller may see.
    pub(in crate::server) async fn seen_deployments(
        &self,
        caller: &Caller,
        deployments: Vec<Deployment>,
    ) -> Result<Vec<Deployment>, Problem> {
        self.seen(caller, deployments, |one| seen_as(caller, one)).await
    }

    #[expect(clippy::unused_self, reason = "it reads as a question to the same")]
    fn allows(&self, answer: Result<(), Problem>) -> Result<bool, Problem> {
        match answer {
            Ok(()) => Ok(true),
            Err(problem) if problem.kind() == Kind::Forbidden => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    async fn token_may(
        &self,
        caller: &Caller,
        rights: &Rights,
        scope: Scope,
        subject: &Subject,
    ) -> Result<(), Problem> {
        let deployed = match subject {
            Subject::Repository(repository, _) if rights.ask_of_apps(subject) => {
                self.deployed(repository).await?
            }
            _ => Vec::new(),
        };
        if rights.hold(scope, subject, &deployed) {
            return Ok(());
        }
        Err(forbidden(format!(
            "the token {} may not {} {subject}: it is for `{}` on the targets {:?}, apps {:?}",
            caller.name,
            verb(scope),
            rights.scope.as_str(),
            rights.targets,
            rights.apps
        )))
    }

    async fn deployed(&self, repository: &RepoName) -> Result<Vec<Place>, Problem> {
        let deployed = self.state.deployments.store.owned_by(repository).await;
        deployed.map_err(|error| unknown(&error))
    }

    /// Teams first: who may read everything, asks GitHub once for a whole list. Where they cannot
    /// be asked about, the repository may be known to be enough.
    async fn person_may(
        &self,
        caller: &Caller,
        token: &SecretString,
        scope: Scope,
        subject: &Subject,
    ) -> Result<(), Problem> {
        let trusted = self.is_trusted(caller, token, scope).await;
        if matches!(trusted, Ok(true)) {
            return Ok(());
        }
        match self.by_repository(caller, token, scope, subject).await {
            Err(refused) if refused.kind() == Kind::Forbidden => {
                Err(trusted.err().unwrap_or(refused))
            }
            said => said,
        }
    }

    async fn by_repository(
        &self,
        caller: &Caller,
        token: &SecretString,
        scope: Scope,
        subject: &Subject,
    ) -> Result<(), Problem> {
        let (repository, target) = match subject {
            Subject::Everywhere | Subject::Target(_) => return Err(of_all(caller, scope, subject)),
            Subject::Repository(repository, target) => (Some(repository.clone()), target.as_ref()),
            Subject::App(target, app) => {
                let found = self.state.deployments.store.ownership(target, app).await;
                (found.map_err(|error| unknown(&error))?.app, Some(target))
            }
        };
        let repositories = &self.state.webhook.rules.repositories;
        let Some(repository) = repository.filter(|one| repositories.allow(one)) else {
            return Err(unseen(caller, subject));
        };
        let level = self.on_repository(token, &repository).await.map_err(not_told)?;
        enough(caller, scope, subject, &repository, level)?;
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
        let Some(github) = &self.state.admission.github else { return Ok(false) };
        let mut teams = github.admins.clone();
        if scope == Scope::Read {
            teams.extend(github.readers.iter().cloned());
        }
        match self.is_in_one(token, &caller.name, &teams).await {
            // A token that cannot show teams is good for what needs none.
            Err(NotKnown::Refused(_)) => Ok(false),
            said => said.map_err(not_told),
        }
    }

    async fn is_of_teams(
        &self,
        caller: &Caller,
        token: &SecretString,
        target: &TargetName,
    ) -> Result<(), Problem> {
        let Some(teams) = self.state.admission.deploy_teams.get(target) else { return Ok(()) };
        let names: Vec<_> = teams.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        match self.is_in_one(token, &caller.name, teams).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(forbidden(format!(
                "{target} is for members of {names}, and GitHub shows {} in none of them (a \
                 classic token needs the scope read:org to show it)",
                caller.name
            ))),
            Err(NotKnown::Refused(why)) => Err(forbidden(format!(
                "{target} is for members of {names}, and the token cannot show that {} is one: \
                 {why}",
                caller.name
            ))),
            Err(other) => Err(not_told(other)),
        }
    }
}

/// Each once, in their order.
fn distinct(subjects: &[Subject]) -> Vec<&Subject> {
    let mut found: Vec<&Subject> = Vec::new();
    for subject in subjects {
        if !found.contains(&subject) {
            found.push(subject);
        }
    }
    found
}

/// A token of ours is for apps; GitHub knows repositories.
fn seen_as(caller: &Caller, deployment: &Deployment) -> Subject {
    let request = &deployment.request;
    match (&caller.standing, &deployment.app) {
        (Standing::Everybody | Standing::Token(_), Some(app)) => {
            Subject::App(request.target.clone(), app.clone())
        }
        (_, _) => {
            Subject::Repository(request.release.repository.clone(), Some(request.target.clone()))
        }
    }
}

fn enough(
    caller: &Caller,
    scope: Scope,
    subject: &Subject,
    repository: &RepoName,
    level: OnRepository,
) -> Result<(), Problem> {
    let needed = match scope {
        Scope::Read => OnRepository::Read,
        Scope::Deploy => OnRepository::Push,
        Scope::Admin => return Err(of_all(caller, scope, subject)),
    };
    match level {
        level if level >= needed => Ok(()),
        OnRepository::Nothing => Err(unseen(caller, subject)),
        OnRepository::Read | OnRepository::Push => Err(forbidden(format!(
            "{} may not deploy {subject}: that needs push permission on {repository}, with a token \
             that may write there",
            caller.name
        ))),
    }
}

/// Whether it is there or not: who may not see it, is told no more.
fn unseen(caller: &Caller, subject: &Subject) -> Problem {
    forbidden(format!(
        "{} may not see {subject}, or there is no such thing: GitHub decides by its repository",
        caller.name
    ))
}

fn of_all(caller: &Caller, scope: Scope, subject: &Subject) -> Problem {
    let team = match scope {
        Scope::Read => "auth.github.readers",
        Scope::Deploy | Scope::Admin => "auth.github.admins",
    };
    let verb = verb(scope);
    forbidden(format!(
        "{} may not {verb} {subject}: that is for teams of `{team}`, and for API tokens",
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

fn forbidden(detail: String) -> Problem {
    Problem::new(Kind::Forbidden, detail)
}

fn unknown(error: &StoreError) -> Problem {
    tracing::error!(%error, "whose an app is cannot be found out");
    Problem::new(Kind::Unavailable, "whose the app is cannot be found out now; come again")
}

/// What GitHub did not tell, as callers are told.
pub(super) fn not_told(error: NotKnown) -> Problem {
    match error {
        NotKnown::Rejected => Problem::new(
            Kind::Unauthorized,
            "GitHub does not know the token: it is wrong, expired or revoked; `bart login` gets a \
             new one",
        ),
        NotKnown::Refused(why) => forbidden(why),
        NotKnown::Wait(wait) => Problem::new(
            Kind::Unavailable,
            "GitHub lets this token ask nothing for a while, so it cannot be found out what you may",
        )
        .after(wait),
        NotKnown::Down(why) => Problem::new(
            Kind::Unavailable,
            format!(
                "GitHub cannot be asked who you are and what you may ({why}); an API token works \
                 nevertheless"
            ),
        ),
    }
}
