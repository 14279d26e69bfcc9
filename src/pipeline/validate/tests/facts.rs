//! Facts, and the violations that rules derive from them.

use std::collections::BTreeMap;

use super::{HEAD, WEB, plan_with};
use crate::model::facts::{Fact, Facts, Ownership, RegistryImage};
use crate::model::id::{AppKey, ImageDigest, Namespace, RepoName, Slug, TargetName};
use crate::model::lock::{ImageDigests, Lock, LockScope, OnUnknown, Policies, Window};
use crate::model::platform::Platform;
use crate::model::platform::secrets::{Delivery, Secrets};
use crate::model::route::Route;
use crate::model::target::{Clusters, Environment, Target};
use crate::model::violation::Severity;

const NOW: &str = "2026-08-21T12:00:00Z"; // a Friday

pub(super) fn target() -> Target {
    let name = TargetName::parse("t").unwrap();
    Target { environment: Environment::Production, ..Target::unconfigured(name) }
}

pub(super) fn facts_on(target: Target) -> Facts {
    let clusters = Clusters::from_targets([target]);
    Facts::without_lookups(NOW.parse().unwrap(), clusters)
}

pub(super) fn known_fact<T>(value: T) -> Fact<T> {
    Fact::Known { value, at: NOW.parse().unwrap() }
}

/// Checks a section for the target `t`: warnings with a question mark, help behind.
pub(super) fn check_with_facts(section: &str, facts: &Facts) -> Vec<String> {
    let violations = match plan_with(&format!("{HEAD}deploy:\n  t:\n{section}"), facts) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    };
    let text = |v: &crate::model::violation::Violation| {
        let mark = if v.severity == Severity::Warning { "? " } else { "" };
        format!("{mark}{v} → {}", v.help.as_deref().unwrap_or_default()).replace(".weave.yaml:", "")
    };
    violations.iter().map(text).collect()
}

pub(super) fn app(slug: &str) -> AppKey {
    AppKey { namespace: Namespace::parse("n").unwrap(), slug: Slug::parse(slug).unwrap() }
}

fn repo(name: &str) -> RepoName {
    RepoName::parse(name).unwrap()
}

pub(super) const NONE: [&str; 0] = [];

#[test]
fn a_host_and_path_belong_to_one_app() {
    let section = |paths: &str| {
        format!("{WEB}    ingress: [{{hostPrefix: h, paths: [{paths}], port: 8000}}]\n")
    };
    let route = |host: &str, path: &str, owner: &str| Route {
        host: host.to_owned(),
        path: path.to_owned(),
        app: app(owner),
        repository: Some(repo("O/b")),
    };
    let with_routes =
        |routes: &[Route]| Facts { routes: known_fact(routes.to_vec()), ..facts_on(target()) };
    let is_taken_message = "`h.t.internal/api` already belongs to `n/b` [hosts] → choose another host or path, or take it out of the WAML of `n/b` first; if that app no longer exists, `bart remove t n/b --reason TEXT`";
    let longest =
        "routers choose the longest path; use another host if the apps do not belong together";
    let inside_message = format!(
        "? 9:46: requests for `h.t.internal/api/v2` are also under `/api`: `n/b` gets those [hosts] → {longest}"
    );
    let outside_message = format!(
        "? 9:46: requests for `h.t.internal/api` are also under `/`: `n/b` no longer gets those [hosts] → {longest}"
    );
    let at = format!("9:46: {is_taken_message}");
    let cases: [(&str, &str, &str, Vec<&str>); 8] = [
        ("{path: /api}", "h.t.internal", "/api", vec![&at]),
        ("{path: /api}", "H.T.internal", "/api/", vec![&at]),
        ("{path: /api}", "other.t.internal", "/api", vec![]),
        ("{path: /api}", "h.t.internal", "/apis", vec![]),
        ("{path: /api}", "h.t.internal", "/web", vec![]),
        ("{path: /api}", "h.t.internal", "/api/v2", vec![&inside_message]),
        ("{path: /api}", "h.t.internal", "/", vec![&outside_message]),
        ("{path: /api}, {path: /x}", "h.t.internal", "/api", vec![&at]),
    ];
    for (paths, host, path, expected) in cases {
        let messages = check_with_facts(&section(paths), &with_routes(&[route(host, path, "b")]));
        assert_eq!(messages, expected, "{paths} beside {host}{path}");
    }
    let own_messages = check_with_facts(
        &section("{path: /api}"),
        &with_routes(&[route("h.t.internal", "/api", "a")]),
    );
    assert_eq!(own_messages, NONE);
    let whole_host = format!("{WEB}    ingress: [{{hostPrefix: h}}]\n");
    let messages = check_with_facts(&whole_host, &with_routes(&[route("h.t.internal", "/", "b")]));
    assert!(
        messages[0].starts_with("9:28: `h.t.internal/` already belongs to `n/b`"),
        "{messages:?}"
    );
}

#[test]
fn a_path_inside_or_around_another_owners_is_refused_unless_it_is_live_already() {
    let section = |path: &str| {
        format!("{WEB}    ingress: [{{hostPrefix: h, paths: [{{path: {path}}}], port: 8000}}]\n")
    };
    let route = |host: &str, path: &str, repository: Option<&str>, slug: &str| Route {
        host: host.to_owned(),
        path: path.to_owned(),
        app: app(slug),
        repository: repository.map(repo),
    };
    let facts_with = |other_route: Route, own_routes: Vec<Route>| Facts {
        routes: known_fact(vec![other_route]),
        own_routes: known_fact(own_routes),
        ..facts_on(target())
    };
    // The repository is o/a.
    for (own_path, host, other_path, expected) in [
        ("/login", "h.t.internal", "/", "`h.t.internal/login` is inside `h.t.internal/`"),
        ("/", "h.t.internal", "/login", "`h.t.internal/` is around `h.t.internal/login`"),
        ("/login", "*.t.internal", "/", "`h.t.internal/login` is inside `*.t.internal/`"),
        ("/", "*.t.internal", "/", "`h.t.internal/` is inside `*.t.internal/`"),
    ] {
        for repository in [Some("p/b"), None] {
            let messages = check_with_facts(
                &section(own_path),
                &facts_with(route(host, other_path, repository, "b"), vec![]),
            );
            let [message] = &messages[..] else { panic!("{messages:?}") };
            let start = format!("9:46: {expected}, which belongs to another owner: `n/b` [hosts]");
            assert!(message.starts_with(&start), "{message}");
            let way_out = message.contains("`the-deployer owners move n/b --target t");
            assert_eq!(way_out, repository.is_none(), "{message}");
            let own_routes = vec![route("H.t.internal", own_path, None, "a")];
            let live =
                said_of(&section(own_path), route(host, other_path, repository, "b"), own_routes);
            assert!(live.starts_with("? 9:46: requests for"), "it was there before: {live}");
        }
        let message =
            said_of(&section(own_path), route(host, other_path, Some("O/b"), "b"), vec![]);
        assert!(message.starts_with("? 9:46: requests for"), "{message}");
    }
}

/// Returns the one violation beside another app's route.
fn said_of(section: &str, theirs: Route, own: Vec<Route>) -> String {
    let facts = Facts {
        routes: known_fact(vec![theirs]),
        own_routes: known_fact(own),
        ..facts_on(target())
    };
    let messages = check_with_facts(section, &facts);
    let [message] = &messages[..] else { panic!("{messages:?}") };
    message.clone()
}

#[test]
fn secrets_exist_and_have_their_keys() {
    let section = "    secrets: [{name: s, mountPath: /s}, {name: o, mountPath: /o, optional: true}]\n    env: [{name: A, secret: {name: s, key: pasword}}, {name: B, secret: {name: gone, key: x}}]\n";
    let answer = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        known_fact(BTreeMap::from([
            ("s".to_owned(), Some(keys)),
            ("o".to_owned(), None),
            ("gone".to_owned(), None),
        ]))
    };
    let facts = Facts { secrets: answer(&["password"]), ..facts_on(target()) };
    let help = "create it in the namespace `n` of the cluster first, or correct the name";
    assert_eq!(
        check_with_facts(section, &facts),
        [
            format!("? 8:48: there is no secret `o` in the namespace `n` [secrets] → {help}"),
            "9:44: the secret `s` has no key `pasword` [secrets] → did you mean `password`?"
                .to_owned(),
            format!("9:80: there is no secret `gone` in the namespace `n` [secrets] → {help}"),
        ]
    );
    let mut target_with_vault = target();
    target_with_vault.platform.secrets.vault.address = Some("https://vault.example.com".to_owned());
    let messages = check_with_facts(
        section,
        &Facts { secrets: answer(&["pasword"]), ..facts_on(target_with_vault) },
    );
    assert_eq!(
        messages.last().unwrap(),
        &format!(
            "9:80: there is no secret `gone` [secrets] → write it to `n/a/gone` of the engine `secret` in Vault, or {help}"
        )
    );
    let mut vault = target();
    vault.platform = Platform {
        secrets: Secrets { delivery: Delivery::ExternalSecrets, ..Secrets::default() },
        ..Platform::default()
    };
    let facts = Facts { secrets: answer(&["pasword"]), ..facts_on(vault) };
    let messages = check_with_facts(section, &facts);
    let last = messages.last().unwrap();
    assert!(last.contains("there is no secret `gone` in Vault [secrets] → write it to `n/a/gone` of the engine `secret` first"), "{messages:?}");
    assert_eq!(check_with_facts("    {}\n", &facts), NONE);
}

#[test]
fn an_image_tag_is_in_its_registry() {
    let image = |value| image_facts([("ghcr.io/o/a:1", known_fact(value))], target());
    let present = RegistryImage::Present { digest: None };
    assert_eq!(check_with_facts("    image: {registry: ghcr.io}\n", &image(present)), NONE);
    let elsewhere = "    image: {registry: ghcr.io, repository: o/b}\n";
    assert_eq!(
        check_with_facts(elsewhere, &image(RegistryImage::Absent)),
        NONE,
        "of another image"
    );
    let messages =
        check_with_facts("    image: {registry: ghcr.io}\n", &image(RegistryImage::Absent));
    assert_eq!(
        messages,
        [
            "8:5: there is no image `ghcr.io/o/a:1` [image-tag] → wait until the build has pushed it, deploy a tag that is there, or correct `image`"
        ]
    );
    let at = "2026-08-21T11:54:30Z".parse().unwrap();
    let absent = Fact::Known { value: RegistryImage::Absent, at };
    let old = image_facts([("ghcr.io/o/a:1", absent)], target());
    let messages = check_with_facts("    image: {registry: ghcr.io}\n", &old);
    assert!(
        messages[0].contains("there is no image `ghcr.io/o/a:1` (as of 5m ago)"),
        "{messages:?}"
    );
}

fn image_facts<const N: usize>(images: [(&str, Fact<RegistryImage>); N], target: Target) -> Facts {
    let images = images.map(|(name, fact)| (name.to_owned(), fact));
    Facts { images: images.into(), ..facts_on(target) }
}

fn digest() -> ImageDigest {
    ImageDigest::parse(format!("sha256:{}", "ab".repeat(32))).unwrap()
}

#[test]
fn the_images_of_other_containers_are_in_their_registries_too() {
    let section = "    initContainers: [{name: i, image: 'ghcr.io/x/a:2'}, {name: j}]\n    \
                   sidecars: [{name: c, image: 'ghcr.io/x/c:3'}]\n";
    let facts = image_facts(
        [
            ("ghcr.io/x/a:2", known_fact(RegistryImage::Absent)),
            ("ghcr.io/x/c:3", Fact::Missing { why: "c is away".to_owned() }),
        ],
        target(),
    );
    let messages = check_with_facts(section, &facts);
    let places: Vec<&str> = messages.iter().map(|m| m.split(" →").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "8:39: there is no image `ghcr.io/x/a:2` [image-tag]",
            "9:33: it is not known whether `ghcr.io/x/c:3` is in its registry: c is away [image-tag]",
        ]
    );
}

#[test]
fn a_target_can_require_that_the_digests_of_images_are_known() {
    let check_on = |policy, fact| {
        let policies = Policies { image_digests: policy, ..Policies::default() };
        let target = Target { policies, ..target() };
        check_with_facts(
            "    image: {registry: ghcr.io}\n",
            &image_facts([("ghcr.io/o/a:1", fact)], target),
        )
    };
    let present = |digest| known_fact(RegistryImage::Present { digest });
    assert_eq!(check_on(Some(ImageDigests::Required), present(Some(digest()))), NONE);
    for policy in [None, Some(ImageDigests::Off), Some(ImageDigests::Known)] {
        assert_eq!(check_on(policy, present(None)), NONE);
        assert_eq!(check_on(policy, Fact::NotAsked), NONE);
    }
    let start = "8:5: the digest of `ghcr.io/o/a:1` is not known, and the target requires it [image-tag] → ";
    for (fact, help) in [
        (present(None), "its registry does not say it: name the image by `@sha256:…`, or sets the"),
        (
            Fact::NotAsked,
            "an operator adds its registry to `registries` of the configuration, or sets the",
        ),
    ] {
        let messages = check_on(Some(ImageDigests::Required), fact);
        assert!(
            messages.len() == 1 && messages[0].starts_with(&format!("{start}{help}")),
            "{messages:?}"
        );
    }
}

#[test]
fn images_are_named_by_the_digest_that_is_known_as_the_target_wants_it() {
    let section =
        "    image: {registry: ghcr.io}\n    sidecars: [{name: c, image: 'ghcr.io/x/c:3'}]\n";
    let image_lines = |policy, environment| {
        let policies = Policies { image_digests: policy, ..Policies::default() };
        let target = Target { environment, policies, ..target() };
        let present = || known_fact(RegistryImage::Present { digest: Some(digest()) });
        let facts =
            image_facts([("ghcr.io/o/a:1", present()), ("ghcr.io/x/c:3", present())], target);
        let rendered = plan_with(&format!("{HEAD}deploy:\n  t:\n{section}"), &facts).unwrap();
        let texts =
            rendered.files.iter().map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
        let lines: Vec<String> = texts
            .flat_map(|text| {
                text.lines()
                    .filter(|line| line.contains(" image: "))
                    .map(|line| line.trim().replace('"', ""))
                    .collect::<Vec<_>>()
            })
            .collect();
        lines
    };
    let pinned =
        ["image: ghcr.io/x/c:3", "image: ghcr.io/o/a:1"].map(|line| format!("{line}@{}", digest()));
    let by_tag = ["image: ghcr.io/x/c:3", "image: ghcr.io/o/a:1"].map(str::to_owned);
    let (production, development) = (Environment::Production, Environment::Development);
    for (policy, environment, expected) in [
        (None, production, &pinned),
        (None, development, &by_tag),
        (Some(ImageDigests::Known), development, &pinned),
        (Some(ImageDigests::Required), development, &pinned),
        (Some(ImageDigests::Off), production, &by_tag),
    ] {
        let lines = image_lines(policy, environment);
        assert!(
            expected.iter().all(|line| lines.iter().any(|l| l.trim_start_matches("- ") == line)),
            "{policy:?} {environment:?}: {lines:?}"
        );
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}

#[test]
fn a_feature_branch_does_not_reach_production() {
    let check_branches = |globs: Option<&[&str]>, branches: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let policies = Policies { branches: globs.map(texts), ..Policies::default() };
        let facts = facts_on(Target { policies, ..target() });
        check_with_facts("    {}\n", &Facts { branches: known_fact(texts(branches)), ..facts })
    };
    for branch in ["main", "release/1.0", "release/1/hot"] {
        assert_eq!(check_branches(Some(&["main", "release/*"]), &["x", branch]), NONE, "{branch}");
    }
    assert_eq!(check_branches(None, &[]), NONE);
    let help = "`t` takes `main` and `release/*`: merge the commit there and deploy it again";
    for (branches, branch_text) in [
        (&[][..], "on none of the branches"),
        (&["x"], "on `x`, which is none of the branches"),
        (&["x", "y"], "on `x` and others, none of them one of the branches"),
    ] {
        assert_eq!(
            check_branches(Some(&["main", "release/*"]), branches),
            [format!("the commit 00000000 is {branch_text} that `t` takes [branch] → {help}")]
        );
    }
    assert_eq!(check_branches(Some(&["["]), &["["]).len(), 1);
}

#[test]
fn an_app_belongs_to_who_deployed_it_first() {
    let check_owner = |app: Option<&str>, namespace: &[&str]| {
        let owner = Ownership {
            app: app.map(repo),
            namespace: namespace.iter().map(|name| repo(name)).collect(),
        };
        check_with_facts("    {}\n", &Facts { owner: known_fact(owner), ..facts_on(target()) })
    };
    // The repository is o/a.
    assert_eq!(check_owner(None, &[]), NONE);
    assert_eq!(check_owner(Some("O/A"), &["p/x"]), NONE);
    assert_eq!(check_owner(None, &["p/x", "o/other"]), NONE);
    assert_eq!(
        check_owner(Some("o/b"), &["o/b"]),
        [
            "3:7: `n/a` on `t` belongs to o/b, not to o/a [owner] → choose another slug; if the app has moved, an operator records its new owner: `the-deployer owners move n/a --target t --to o/a --reason TEXT`"
        ]
    );
    assert_eq!(
        check_owner(None, &["p/x", "p/y"]),
        [
            "5:12: the namespace `n` on `t` has apps of `p`, and o/a has another owner [owner] → choose a namespace of your own; to let the repository in, an operator gives it the app: `the-deployer owners move n/a --target t --to o/a --reason TEXT`"
        ]
    );
}

#[test]
fn a_lock_stops_whom_it_is_for_until_it_runs_out() {
    let check_beside = |overlapping: &[TargetName], scope: LockScope, until: Option<&str>| {
        let lock = Lock {
            scope,
            reason: "the database moves".to_owned(),
            by: "ada".to_owned(),
            since: "2026-08-20T09:30:00Z".parse().unwrap(),
            until: until.map(|until| until.parse().unwrap()),
        };
        let (locks, overlapping) = (known_fact(vec![lock]), overlapping.to_vec());
        check_with_facts("    {}\n", &Facts { locks, overlapping, ..facts_on(target()) })
    };
    let check_lock = |scope: LockScope, until: Option<&str>| check_beside(&[], scope, until);
    let t = || TargetName::parse("t").unwrap();
    assert_eq!(
        check_lock(LockScope::App(t(), app("a")), Some("2026-08-22T08:00:00Z")),
        [
            "`n/a` on `t` is locked by ada since 2026-08-20 09:30 UTC, until 2026-08-22 08:00 UTC: the database moves [locks] → deploy again after that, or ask ada to unlock it: `bart locks` shows its id, `bart unlock ID --reason TEXT` removes it"
        ]
    );
    for (scope, subject) in [
        (LockScope::Everything, "everything"),
        (LockScope::Target(t()), "`t`"),
        (LockScope::Owner("A@b.c".to_owned()), "every app of A@b.c"),
    ] {
        assert_eq!(
            check_lock(scope, None),
            [format!(
                "{subject} is locked by ada since 2026-08-20 09:30 UTC, until it is unlocked: the database moves [locks] → ask ada to unlock it: `bart locks` shows its id, `bart unlock ID --reason TEXT` removes it"
            )]
        );
    }
    assert_eq!(check_lock(LockScope::Everything, Some(NOW)), NONE);
    assert_eq!(check_lock(LockScope::App(t(), app("b")), None), NONE);
    let fleet = TargetName::parse("u").unwrap();
    assert_eq!(check_lock(LockScope::Target(fleet.clone()), None), NONE);
    let stopped =
        check_beside(std::slice::from_ref(&fleet), LockScope::Target(fleet.clone()), None);
    assert!(stopped[0].contains("`u` is locked by ada"), "{stopped:?}");
}

#[test]
fn a_target_takes_deployments_in_its_windows() {
    let check_window = |days: &str, from: &str, closed: bool| {
        let window = Window {
            days: days.to_owned(),
            from: from.to_owned(),
            to: "17:00".to_owned(),
            time_zone: Some("Europe/Berlin".to_owned()),
            closed,
            reason: closed.then(|| "the weekend is near".to_owned()),
        };
        let policies = Policies { windows: vec![window], ..Policies::default() };
        check_with_facts("    {}\n", &facts_on(Target { policies, ..target() }))
    };
    assert_eq!(check_window("mon-fri", "09:00", false), NONE); // it is 14:00
    assert_eq!(
        check_window("mon-thu", "09:00", false),
        [
            "`t` takes no deployments at this time [windows] → deploy again from Monday, 2026-08-24 09:00 CEST on"
        ]
    );
    assert_eq!(
        check_window("fri", "13:00", true),
        [
            "`t` takes no deployments at this time: the weekend is near [windows] → deploy again from Friday, 2026-08-21 17:00 CEST on"
        ]
    );
    let messages = check_window("someday", "09:00", false);
    assert!(messages[0].contains("a window of `t` cannot be read"), "{messages:?}");
}

/// Returns the violations with every fact missing, under a policy, in an environment.
fn missing(unknown: Option<OnUnknown>, environment: Environment) -> Vec<String> {
    let branches = Some(vec!["main".to_owned()]);
    let policies = Policies { branches, unknown, ..Policies::default() };
    let facts = facts_on(Target { environment, policies, ..target() });
    let facts = Facts {
        routes: Fact::Missing { why: "r is away".to_owned() },
        secrets: Fact::Missing { why: "s is away".to_owned() },
        images: BTreeMap::from([(
            "ghcr.io/o/a:1".to_owned(),
            Fact::Missing { why: "i is away".to_owned() },
        )]),
        branches: Fact::Missing { why: "b is away".to_owned() },
        owner: Fact::Missing { why: "o is away".to_owned() },
        locks: Fact::Missing { why: "l is away".to_owned() },
        ..facts
    };
    check_with_facts(
        &format!(
            "{WEB}    ingress: [{{hostPrefix: h}}]\n    secrets: [{{name: s, mountPath: /s}}]\n"
        ),
        &facts,
    )
}

#[test]
fn what_could_not_be_found_out_is_told_by_the_policy_of_the_target() {
    let lines = [
        "9:5: it is not known whether other apps have these hosts: r is away [hosts]",
        "10:5: it is not known whether the secrets exist: s is away [secrets]",
        "it is not known whether `ghcr.io/o/a:1` is in its registry: i is away [image-tag]",
        "it is not known whether the commit is on a branch that the target takes: b is away [branch]",
        "it is not known who owns the app and its namespace: o is away [owner]",
        "it is not known whether a lock stops the deployment: l is away [locks]",
    ];
    let fail = "deploy again once the lookup works, or let an operator set the target's `policies.unknown: warn`";
    let warn = "check it yourself: the target's policy lets the deployment pass without the lookup";
    let fails: Vec<String> = lines.iter().map(|line| format!("{line} → {fail}")).collect();
    let warns: Vec<String> = lines.iter().map(|line| format!("? {line} → {warn}")).collect();
    let sorted_messages = |unknown, environment| {
        let mut messages = missing(unknown, environment);
        messages.sort();
        messages
    };
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted_messages(None, Environment::Production), sorted(fails.clone()));
    assert_eq!(sorted_messages(Some(OnUnknown::Fail), Environment::Development), sorted(fails));
    assert_eq!(sorted_messages(None, Environment::Development), sorted(warns.clone()));
    assert_eq!(sorted_messages(Some(OnUnknown::Warn), Environment::Production), sorted(warns));
}
