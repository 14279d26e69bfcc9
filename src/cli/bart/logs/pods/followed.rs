//! The containers of an app whose logs are followed: which of them are open, and which are taken up at each look at the
//! pods. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::pods::PodSummary;

/// The largest number of containers that are read at the same time: a caller may have twenty logs.
pub(super) const MAX_CONTAINERS: usize = 20;
/// The most last lines of a log: a container that starts later is read from its beginning.
const MAX_LINES: u32 = 10_000;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodContainerName {
    pub(super) pod: String,
    pub(super) container: String,
}

/// The containers that are followed.
#[derive(Debug)]
pub(super) struct FollowedContainers<'a> {
    /// The only name of a container that counts.
    wanted: Option<&'a str>,
    /// The last lines of those that are there at the first look.
    lines: u32,
    is_begun: bool,
    /// No pod lists the wanted name: there may be no such container at all.
    is_guess: bool,
    open: BTreeSet<PodContainerName>,
    /// The restarts of the pod at which the log of each was opened last. A container that was restarted has another log.
    opened: BTreeMap<PodContainerName, u32>,
    /// Those for which there was no place.
    left_out: BTreeSet<PodContainerName>,
    /// Those of which a line was read.
    read: BTreeSet<PodContainerName>,
    /// Those whose log broke off: it goes on where it is by then.
    broken_off: BTreeSet<PodContainerName>,
    /// Those whose log could not be read, and is tried again: they may not have started.
    awaited: BTreeSet<PodContainerName>,
    /// Those that people were told of.
    told: BTreeSet<PodContainerName>,
}

/// The containers whose logs are opened at a look, each with its number of last lines, and remarks for people.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenUp {
    pub(super) opened: Vec<(PodContainerName, u32)>,
    pub(super) notes: Vec<String>,
}

impl<'a> FollowedContainers<'a> {
    pub(super) fn new(wanted: Option<&'a str>, lines: u32) -> Self {
        Self {
            wanted,
            lines,
            is_begun: false,
            is_guess: false,
            open: BTreeSet::new(),
            opened: BTreeMap::new(),
            left_out: BTreeSet::new(),
            read: BTreeSet::new(),
            broken_off: BTreeSet::new(),
            awaited: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    /// Chooses the logs that are opened now; they count as open from now on.
    pub(super) fn take_up(&mut self, pods: &[PodSummary]) -> TakenUp {
        let mut update = TakenUp::default();
        let containers = list_containers(pods, self.wanted);
        self.is_guess = self.wanted.is_some_and(|container| !is_listed(pods, container));
        let is_there = |name: &PodContainerName| containers.iter().any(|(one, _)| one == name);
        self.opened.retain(|name, _| is_there(name));
        let sets = [
            &mut self.left_out,
            &mut self.read,
            &mut self.broken_off,
            &mut self.awaited,
            &mut self.told,
        ];
        for set in sets {
            set.retain(is_there);
        }
        let mut left_out = 0;
        for (name, restarts) in containers {
            let is_same_run = self.opened.get(&name).is_some_and(|opened| *opened >= restarts);
            if self.open.contains(&name) || is_same_run {
                continue;
            }
            let PodContainerName { pod, container } = &name;
            if self.open.len() >= MAX_CONTAINERS {
                if self.left_out.insert(name.clone()) {
                    left_out += 1;
                }
                continue;
            }
            let is_again = self.awaited.remove(&name);
            if self.is_begun && !is_again {
                update.notes.push(format!("{pod} {container} is followed from now on, too"));
            }
            // One that had no place is as old as the others.
            let is_new = self.is_begun && !self.left_out.remove(&name);
            let lines = if self.broken_off.remove(&name) {
                0
            } else if is_new {
                MAX_LINES
            } else {
                self.lines
            };
            self.open.insert(name.clone());
            self.opened.insert(name.clone(), restarts);
            update.opened.push((name, lines));
        }
        if left_out > 0 {
            let text = format!(
                "{left_out} more containers are left out: {MAX_CONTAINERS} are followed at the same time"
            );
            update.notes.push(text);
        }
        self.is_begun = true;
        update
    }

    /// Notes that a line of a container was read.
    pub(super) fn mark_read(&mut self, name: &PodContainerName) {
        if !self.read.contains(name) {
            self.read.insert(name.clone());
        }
    }

    /// Notes that the log of a container could not be opened, or broke off. If that may pass, it is opened again at the
    /// next look. Returns true if people are to hear of it.
    pub(super) fn fail(&mut self, name: &PodContainerName, may_pass: bool) -> bool {
        self.open.remove(name);
        let was_read = self.read.remove(name);
        if may_pass && !self.is_guess {
            self.opened.remove(name);
            self.awaited.insert(name.clone());
            if was_read {
                self.broken_off.insert(name.clone());
            }
        }
        self.told.insert(name.clone()) || was_read
    }

    /// Checks whether there are containers whose logs are tried again.
    pub(super) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Notes that the log of a container has ended.
    pub(super) fn end(&mut self, name: &PodContainerName) {
        self.open.remove(name);
    }
}

/// Lists the containers of the pods that count, each with the restarts of its pod. A name that no pod lists may be that
/// of a container which runs before the others.
pub(super) fn list_containers(
    pods: &[PodSummary],
    wanted: Option<&str>,
) -> Vec<(PodContainerName, u32)> {
    let name = |pod: &PodSummary, container: &str| {
        let name = PodContainerName { pod: pod.name.clone(), container: container.to_owned() };
        (name, pod.restarts)
    };
    match wanted {
        Some(wanted) if !is_listed(pods, wanted) => {
            pods.iter().map(|pod| name(pod, wanted)).collect()
        }
        Some(wanted) => pods
            .iter()
            .filter(|pod| has_container(pod, wanted))
            .map(|pod| name(pod, wanted))
            .collect(),
        None => {
            let names = |pod: &'_ PodSummary| {
                let names = pod.containers.iter().map(|container| name(pod, &container.name));
                names.collect::<Vec<_>>()
            };
            pods.iter().flat_map(names).collect()
        }
    }
}

fn is_listed(pods: &[PodSummary], container: &str) -> bool {
    pods.iter().any(|pod| has_container(pod, container))
}

fn has_container(pod: &PodSummary, wanted: &str) -> bool {
    pod.containers.iter().any(|container| container.name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::pods::PodContainer;

    fn pod(name: &str, containers: &[&str], restarts: u32) -> PodSummary {
        let container =
            |name: &&str| PodContainer { name: (*name).to_owned(), image: String::new() };
        PodSummary {
            name: name.to_owned(),
            workload_kind: "Deployment".to_owned(),
            workload: "shop".to_owned(),
            phase: "Running".to_owned(),
            ready: true,
            restarts,
            reason: None,
            message: None,
            exit_code: None,
            created_at: None,
            containers: containers.iter().map(container).collect(),
        }
    }

    fn names(opened: &[(PodContainerName, u32)]) -> Vec<String> {
        opened.iter().map(|(one, lines)| format!("{}/{} {lines}", one.pod, one.container)).collect()
    }

    #[test]
    fn a_container_is_chosen_by_its_name() {
        let pods = [pod("a", &["shop", "proxy"], 0), pod("b", &["shop"], 0), pod("c", &[], 0)];
        let names = |wanted| {
            let all = list_containers(&pods, wanted);
            all.iter().map(|(one, _)| format!("{}/{}", one.pod, one.container)).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["a/shop", "a/proxy", "b/shop"]);
        assert_eq!(names(Some("shop")), ["a/shop", "b/shop"]);
        assert_eq!(names(Some("setup")), ["a/setup", "b/setup", "c/setup"], "maybe an init one");
        assert!(list_containers(&[], Some("shop")).is_empty());
    }

    #[test]
    fn a_container_that_starts_later_or_again_is_taken_up_once_and_said_to_be() {
        let mut followed = FollowedContainers::new(None, 7);
        let (a, b) = (pod("a", &["shop"], 0), pod("b", &["shop"], 0));
        assert_eq!(names(&followed.take_up(std::slice::from_ref(&a)).opened), ["a/shop 7"]);
        assert_eq!(followed.take_up(std::slice::from_ref(&a)), TakenUp::default(), "it is open");
        let taken = followed.take_up(&[a.clone(), b.clone()]);
        assert_eq!(names(&taken.opened), ["b/shop 10000"], "from its beginning");
        assert_eq!(taken.notes, ["b shop is followed from now on, too"]);
        let shop = PodContainerName { pod: "a".to_owned(), container: "shop".to_owned() };
        followed.end(&shop);
        assert_eq!(followed.take_up(&[a, b.clone()]), TakenUp::default(), "its log has ended");
        let again = followed.take_up(&[pod("a", &["shop"], 1), b]);
        assert_eq!(names(&again.opened), ["a/shop 10000"], "it was restarted");
    }

    #[test]
    fn a_container_that_has_not_started_is_tried_again_and_complained_of_once() {
        let mut followed = FollowedContainers::new(None, 7);
        let pods = [pod("a", &["shop"], 0)];
        assert_eq!(names(&followed.take_up(&pods).opened), ["a/shop 7"]);
        let shop = PodContainerName { pod: "a".to_owned(), container: "shop".to_owned() };
        assert!(followed.fail(&shop, true), "it is waiting to start");
        assert!(followed.are_awaited());
        let again = followed.take_up(&pods);
        assert_eq!((names(&again.opened), again.notes), (vec!["a/shop 10000".to_owned()], vec![]));
        assert!(!followed.fail(&shop, true), "said once");
        followed.take_up(&pods);
        followed.mark_read(&shop);
        assert!(followed.fail(&shop, true), "it broke off");
        assert_eq!(names(&followed.take_up(&pods).opened), ["a/shop 0"], "it goes on");
        followed.fail(&shop, false);
        assert!(!followed.are_awaited() && followed.take_up(&pods).opened.is_empty());
    }

    #[test]
    fn twenty_are_followed_and_one_without_a_place_gets_that_of_one_that_ends() {
        let mut followed = FollowedContainers::new(None, 7);
        let pods: Vec<_> = (0..23).map(|n| pod(&n.to_string(), &["shop"], 0)).collect();
        let taken = followed.take_up(&pods);
        assert_eq!(taken.opened.len(), 20);
        let note = "3 more containers are left out: 20 are followed at the same time";
        assert_eq!(taken.notes, [note]);
        assert_eq!(followed.take_up(&pods), TakenUp::default(), "said once");
        let first = PodContainerName { pod: "0".to_owned(), container: "shop".to_owned() };
        followed.end(&first);
        let taken = followed.take_up(&pods);
        assert_eq!(names(&taken.opened), ["20/shop 7"]);
    }
}
