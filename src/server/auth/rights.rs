//! What a token of the configuration is good for. Pure.

use crate::model::callers::{Rights, Scope};
use crate::model::id::{AppKey, TargetName};
use crate::server::auth::caller::Subject;

/// An app where it is.
pub(in crate::server) type Place = (TargetName, AppKey);

impl Rights {
    /// Whether they hold that. `deployed` is what is known to be deployed of the repository, where
    /// the subject is one.
    pub(in crate::server) fn hold(
        &self,
        scope: Scope,
        subject: &Subject,
        deployed: &[Place],
    ) -> bool {
        scope <= self.scope && self.reach(scope, subject, deployed)
    }

    /// Whether they are for something on that target.
    pub(in crate::server) fn reach_target(&self, target: &TargetName) -> bool {
        self.targets.is_match(target.as_str())
    }

    /// Whether what is known of a repository matters.
    pub(super) fn ask_of_apps(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Everywhere | Subject::Target(_) | Subject::App(..) => false,
            Subject::Repository(_, Some(_)) => !self.apps.match_all(),
            Subject::Repository(_, None) => !(self.apps.match_all() && self.targets.match_all()),
        }
    }

    /// Of a repository, to see it takes one app that is reached, and to act on it all of them: what
    /// it deploys next cannot be known.
    fn reach(&self, scope: Scope, subject: &Subject, deployed: &[Place]) -> bool {
        let app = |(target, app): &Place| {
            self.targets.is_match(target.as_str()) && self.apps.is_match(&app.to_string())
        };
        match subject {
            Subject::Everywhere => self.targets.match_all() && self.apps.match_all(),
            Subject::Target(target) => {
                self.targets.is_match(target.as_str()) && self.apps.match_all()
            }
            Subject::App(target, key) => app(&(target.clone(), key.clone())),
            Subject::Repository(_, Some(target)) if self.apps.match_all() => {
                self.targets.is_match(target.as_str())
            }
            Subject::Repository(_, None) if self.apps.match_all() && self.targets.match_all() => {
                true
            }
            Subject::Repository(_, target) => {
                let there = |place: &&Place| target.as_ref().is_none_or(|one| *one == place.0);
                let mut those = deployed.iter().filter(there).peekable();
                match scope {
                    Scope::Read => those.any(app),
                    Scope::Deploy | Scope::Admin => those.peek().is_some() && those.all(app),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, RepoName, Slug};
    use crate::support::globs::Globs;

    fn target(name: &str) -> TargetName {
        TargetName::parse(name).unwrap()
    }

    fn key(text: &str) -> AppKey {
        let (namespace, slug) = text.split_once('/').unwrap();
        AppKey { namespace: Namespace::parse(namespace).unwrap(), slug: Slug::parse(slug).unwrap() }
    }

    fn globs(texts: &[&str]) -> Globs {
        Globs::parse(texts.iter().copied()).unwrap()
    }

    fn on(at: &str, app: &str) -> Subject {
        Subject::App(target(at), key(app))
    }

    fn web(at: Option<&str>) -> Subject {
        Subject::Repository(RepoName::parse("acme/web").unwrap(), at.map(target))
    }

    #[test]
    fn a_token_without_limits_is_good_for_everything() {
        let all = Rights::default();
        for subject in [
            Subject::Everywhere,
            Subject::Target(target("prod")),
            on("prod", "devx/web"),
            web(None),
            web(Some("prod")),
        ] {
            assert!(all.hold(Scope::Admin, &subject, &[]), "{subject:?}");
        }
    }

    #[test]
    fn each_scope_holds_those_before_it_and_no_more() {
        use Scope::{Admin, Deploy, Read};
        for (given, asked, held) in [
            (Read, Read, true),
            (Read, Deploy, false),
            (Deploy, Read, true),
            (Deploy, Deploy, true),
            (Deploy, Admin, false),
            (Admin, Deploy, true),
        ] {
            let rights = Rights { scope: given, ..Rights::default() };
            assert_eq!(rights.hold(asked, &on("prod", "devx/web"), &[]), held, "{given:?}");
        }
    }

    #[test]
    fn a_token_for_some_reaches_no_others_and_nothing_that_concerns_all() {
        let dev = Rights { targets: globs(&["dev-*"]), ..Rights::default() };
        let team = Rights { apps: globs(&["devx/*"]), targets: globs(&["*"]), ..Rights::default() };
        for (rights, subject, held) in [
            (&dev, on("dev-1", "devx/web"), true),
            (&dev, on("prod", "devx/web"), false),
            (&dev, Subject::Target(target("dev-1")), true),
            (&dev, Subject::Target(target("prod")), false),
            (&dev, Subject::Everywhere, false),
            (&dev, web(Some("dev-1")), true),
            (&dev, web(Some("prod")), false),
            (&team, on("prod", "devx/web"), true),
            (&team, on("prod", "pay/web"), false),
            (&team, Subject::Target(target("prod")), false),
            (&team, Subject::Everywhere, false),
        ] {
            assert_eq!(rights.hold(Scope::Deploy, &subject, &[]), held, "{rights:?} {subject:?}");
        }
    }

    #[test]
    fn a_repository_is_seen_by_one_of_its_apps_and_acted_on_by_all() {
        let team = Rights { apps: globs(&["devx/*"]), ..Rights::default() };
        let both = [(target("prod"), key("devx/web")), (target("dev"), key("pay/web"))];
        for (scope, subject, deployed, held) in [
            (Scope::Read, web(None), &both[..], true),
            (Scope::Deploy, web(None), &both[..], false),
            (Scope::Deploy, web(Some("prod")), &both[..], true),
            (Scope::Deploy, web(Some("dev")), &both[..], false),
            (Scope::Read, web(Some("dev")), &both[..], false),
            (Scope::Deploy, web(None), &both[..1], true),
            (Scope::Deploy, web(None), &[], false),
            (Scope::Read, web(None), &[], false),
        ] {
            assert_eq!(team.hold(scope, &subject, deployed), held, "{scope:?} {subject:?}");
        }
    }
}
