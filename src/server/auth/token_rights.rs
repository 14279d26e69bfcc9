//! The rights of API tokens in the configuration. Pure.

use crate::model::callers::{Rights, Scope};
use crate::model::id::{AppKey, TargetName};
use crate::server::auth::caller::Resource;

/// An app on a target.
pub(super) type AppOnTarget = (TargetName, AppKey);

impl Rights {
    /// Returns whether the rights include the scope on the resource. `deployed` has the known apps of the repository,
    /// if the resource is one.
    pub(crate) fn hold(&self, scope: Scope, resource: &Resource, deployed: &[AppOnTarget]) -> bool {
        scope <= self.scope && self.reach(scope, resource, deployed)
    }

    /// Returns whether the rights include something on that target.
    pub(crate) fn reach_target(&self, target: &TargetName) -> bool {
        self.targets.is_match(target.as_str())
    }

    /// Returns whether the known apps of a repository matter.
    pub(super) fn ask_of_apps(&self, resource: &Resource) -> bool {
        match resource {
            Resource::Everywhere | Resource::Target(_) | Resource::App(..) => false,
            Resource::Repository(_, Some(_)) => !self.apps.match_all(),
            Resource::Repository(_, None) => !(self.apps.match_all() && self.targets.match_all()),
        }
    }

    /// Returns whether the rights reach the resource. To read a repository they must reach one of its apps, to act on
    /// it all of them: its next deployment may be of any.
    fn reach(&self, scope: Scope, resource: &Resource, deployed: &[AppOnTarget]) -> bool {
        let app = |(target, app): &AppOnTarget| {
            self.targets.is_match(target.as_str()) && self.apps.is_match(&app.to_string())
        };
        match resource {
            Resource::Everywhere => self.targets.match_all() && self.apps.match_all(),
            Resource::Target(target) => {
                self.targets.is_match(target.as_str()) && self.apps.match_all()
            }
            Resource::App(target, key) => app(&(target.clone(), key.clone())),
            Resource::Repository(_, Some(target)) if self.apps.match_all() => {
                self.targets.is_match(target.as_str())
            }
            Resource::Repository(_, None) if self.apps.match_all() && self.targets.match_all() => {
                true
            }
            Resource::Repository(_, target) => {
                let is_on_target =
                    |place: &&AppOnTarget| target.as_ref().is_none_or(|target| *target == place.0);
                let mut places = deployed.iter().filter(is_on_target).peekable();
                match scope {
                    Scope::Read => places.any(app),
                    Scope::Deploy | Scope::Admin => places.peek().is_some() && places.all(app),
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

    fn on(target_name: &str, app: &str) -> Resource {
        Resource::App(target(target_name), key(app))
    }

    fn web(target_name: Option<&str>) -> Resource {
        Resource::Repository(RepoName::parse("acme/web").unwrap(), target_name.map(target))
    }

    #[test]
    fn a_token_without_limits_is_good_for_everything() {
        let rights = Rights::default();
        for resource in [
            Resource::Everywhere,
            Resource::Target(target("prod")),
            on("prod", "devx/web"),
            web(None),
            web(Some("prod")),
        ] {
            assert!(rights.hold(Scope::Admin, &resource, &[]), "{resource:?}");
        }
    }

    #[test]
    fn each_scope_holds_those_before_it_and_no_more() {
        use Scope::{Admin, Deploy, Read};
        for (granted_scope, required_scope, is_held) in [
            (Read, Read, true),
            (Read, Deploy, false),
            (Deploy, Read, true),
            (Deploy, Deploy, true),
            (Deploy, Admin, false),
            (Admin, Deploy, true),
        ] {
            let rights = Rights { scope: granted_scope, ..Rights::default() };
            assert_eq!(
                rights.hold(required_scope, &on("prod", "devx/web"), &[]),
                is_held,
                "{granted_scope:?}"
            );
        }
    }

    #[test]
    fn a_token_for_some_reaches_no_others_and_nothing_that_concerns_all() {
        let dev = Rights { targets: globs(&["dev-*"]), ..Rights::default() };
        let team = Rights { apps: globs(&["devx/*"]), targets: globs(&["*"]), ..Rights::default() };
        for (rights, resource, is_held) in [
            (&dev, on("dev-1", "devx/web"), true),
            (&dev, on("prod", "devx/web"), false),
            (&dev, Resource::Target(target("dev-1")), true),
            (&dev, Resource::Target(target("prod")), false),
            (&dev, Resource::Everywhere, false),
            (&dev, web(Some("dev-1")), true),
            (&dev, web(Some("prod")), false),
            (&team, on("prod", "devx/web"), true),
            (&team, on("prod", "pay/web"), false),
            (&team, Resource::Target(target("prod")), false),
            (&team, Resource::Everywhere, false),
        ] {
            assert_eq!(
                rights.hold(Scope::Deploy, &resource, &[]),
                is_held,
                "{rights:?} {resource:?}"
            );
        }
    }

    #[test]
    fn a_repository_is_seen_by_one_of_its_apps_and_acted_on_by_all() {
        let team = Rights { apps: globs(&["devx/*"]), ..Rights::default() };
        let places = [(target("prod"), key("devx/web")), (target("dev"), key("pay/web"))];
        for (scope, resource, deployed, is_held) in [
            (Scope::Read, web(None), &places[..], true),
            (Scope::Deploy, web(None), &places[..], false),
            (Scope::Deploy, web(Some("prod")), &places[..], true),
            (Scope::Deploy, web(Some("dev")), &places[..], false),
            (Scope::Read, web(Some("dev")), &places[..], false),
            (Scope::Deploy, web(None), &places[..1], true),
            (Scope::Deploy, web(None), &[], false),
            (Scope::Read, web(None), &[], false),
        ] {
            assert_eq!(team.hold(scope, &resource, deployed), is_held, "{scope:?} {resource:?}");
        }
    }
}
