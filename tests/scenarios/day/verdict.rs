//! The check at the end of the day, held against the model: the store, the repository, GitHub.

use std::collections::{BTreeMap, BTreeSet};

use the_deployer::model::deployment::{Deployment, State};

use crate::harness::git::Files;
use crate::scenarios::day::model::{End, Lane, Line};
use crate::scenarios::day::{Day, ROLLBACKS, TARGETS};

impl Day<'_> {
    pub(super) async fn holds(&self) {
        assert_eq!(self.model.ends.len(), self.asked + ROLLBACKS);
        let all = self.deployer.deployments().await;
        let by_number: BTreeMap<i64, &Deployment> =
            all.iter().map(|one| (one.request.forge_id, one)).collect();
        self.store_holds(&by_number);
        self.holds_hold().await;
        self.repository_holds(&by_number);
        self.github_holds(&by_number);
    }

    fn store_holds(&self, by_number: &BTreeMap<i64, &Deployment>) {
        assert_eq!(by_number.len(), self.model.ends.len(), "each once");
        for (number, (lane, end)) in &self.model.ends {
            let one = by_number[number];
            let changed = one.pushed.as_ref().map(|pushed| pushed.changed);
            let expected = match end {
                End::Succeeded { commit } => (State::Succeeded, Some(*commit)),
                End::RolledBack => (State::Succeeded, Some(true)),
                End::Refused { .. } => (State::Failed, None),
                End::Superseded => (State::Superseded, None),
            };
            assert_eq!((one.state, changed), expected, "{number}: {}", one.summary);
            assert_eq!(one.request.target.as_str(), TARGETS[lane.target]);
            let rules: BTreeSet<&str> = one.violations.iter().map(|v| &*v.rule).collect();
            let (lock, hold) = match end {
                End::Refused { lock, hold } => (*lock, *hold),
                _ => (false, false),
            };
            assert_eq!((rules.contains("locks"), rules.contains("hold")), (lock, hold), "{number}");
            assert_eq!(one.rollback.is_some(), *end == End::RolledBack, "{number}");
        }
    }

    async fn holds_hold(&self) {
        let holds = self.deployer.stepped().store().holds(None).await.unwrap();
        let found: BTreeSet<(String, String)> =
            holds.iter().map(|hold| (hold.target.to_string(), hold.app.to_string())).collect();
        let held = self.model.lanes.iter().filter(|(_, line)| line.held);
        let held = held.map(|(lane, _)| (TARGETS[lane.target].to_owned(), lane.app().to_string()));
        assert_eq!(found, held.collect(), "held are those that nobody deployed to since");
    }

    fn repository_holds(&self, by_number: &BTreeMap<i64, &Deployment>) {
        let bare = self.deployer.manifests();
        let files = bare.files();
        let id = |number: &i64| by_number[number].id.to_string();
        let format = "--format=%(trailers:key=Deploy-Id,key=Rollback-Id,valueonly,separator=%x20)";
        let log = bare.run(&["log", "--reverse", format, "main"]);
        let written: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
        let expected: usize = self.model.lanes.values().map(|line| line.written.len()).sum();
        assert_eq!(written.len(), expected, "one commit of each that changed something");
        for (lane, line) in &self.model.lanes {
            let ours: Vec<String> = line.written.iter().map(id).collect();
            let theirs: Vec<&str> =
                written.iter().copied().filter(|one| ours.iter().any(|id| id == one)).collect();
            assert_eq!(theirs, ours, "the commits of {lane:?}, in order");
            lane_holds(*lane, line, &files, id);
        }
    }

    fn github_holds(&self, by_number: &BTreeMap<i64, &Deployment>) {
        for (number, (lane, end)) in &self.model.ends {
            let told = self.deployer.github.told(*number);
            let shown = self.model.lanes.get(lane).and_then(|line| line.shown);
            let last = match end {
                End::Succeeded { .. } | End::RolledBack if shown == Some(*number) => "success",
                End::Succeeded { .. } | End::RolledBack | End::Superseded => "inactive",
                End::Refused { .. } => "failure",
            };
            let about = &by_number[number].summary;
            assert_eq!(told.last().map(String::as_str), Some(last), "{number}: {told:?}, {about}");
            let different: BTreeSet<&String> = told.iter().collect();
            assert_eq!(different.len(), told.len(), "{number}: each once: {told:?}");
        }
    }
}

fn lane_holds(lane: Lane, wanted: &Line, files: &Files, id: impl Fn(&i64) -> String) {
    let folder = lane.folder();
    let of = |inner: &str| {
        let prefix = format!("{folder}/{inner}/");
        let inside = files.iter().filter_map(|(path, text)| {
            Some((path.strip_prefix(&prefix)?.to_owned(), text.clone()))
        });
        inside.collect::<Files>()
    };
    let prefix = format!("{folder}/");
    let present: BTreeSet<String> = files
        .keys()
        .filter_map(|path| Some(path.strip_prefix(&prefix)?.split('/').next()?.to_owned()))
        .collect();
    let kept = wanted.kept.iter().map(|(number, _)| id(number));
    let kept: BTreeSet<String> = kept.chain(["latest".to_owned()]).collect();
    assert_eq!(present, kept, "{lane:?}: the newest five, and what is live");
    let (live, tag) = wanted.live.as_ref().unwrap();
    let latest = of("latest");
    assert_eq!(latest, of(&id(live)), "{lane:?}: `latest` is what is live");
    assert!(latest["deployment.yaml"].contains(&format!(":{tag}")), "{lane:?}: its tag is {tag}");
    let application = format!("apps/{}/devx.app-{}.yaml", TARGETS[lane.target], lane.app);
    assert!(files.contains_key(&application), "{application}");
}
