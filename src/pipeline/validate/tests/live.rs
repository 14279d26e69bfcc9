//! Live objects on a target, and the deployments that would remove some.

use std::sync::Arc;

use super::facts::{NONE, check_with_facts, facts_on, known_fact, target};
use crate::model::facts::{
    Disk, Fact, Facts, LiveApp, LiveObject, LiveReplicas, NamespaceObjects, ObjectName,
};
use crate::model::id::Slug;
use crate::model::lock::{OnRemoval, OnUnknown, RemovalLimit};
use crate::model::platform::secrets::Delivery;

fn live(objects: &[(&str, &str, &str)]) -> Facts {
    let object = |(version, kind, name): &(&str, &str, &str)| LiveObject {
        api_version: (*version).to_owned(),
        kind: (*kind).to_owned(),
        name: (*name).to_owned(),
    };
    let objects = objects.iter().map(object).collect();
    Facts { live: known_fact(LiveApp { objects, ..LiveApp::default() }), ..facts_on(target()) }
}

#[test]
fn what_keeps_data_is_removed_only_when_somebody_says_so() {
    let disk = ("v1", "PersistentVolumeClaim", "data");
    let before = live(&[("apps/v1", "Deployment", "a"), disk, ("v1", "ConfigMap", "b")]);
    assert_eq!(
        check_with_facts("    {}\n", &before),
        [
            "this deployment would remove PersistentVolumeClaim `data`, and the data in it [stateful] → put back the part that creates it; if it is to go, say so under the target: `removes: [{kind: PersistentVolumeClaim, name: data}]`"
        ]
    );
    let removes = "    removes: [{kind: PersistentVolumeClaim, name: data}]\n";
    assert_eq!(check_with_facts(removes, &before), NONE);
    assert_eq!(
        check_with_facts(removes, &live(&[("apps/v1", "Deployment", "a")])),
        [
            "? 8:15: there is no PersistentVolumeClaim `data` to remove [stateful] → remove this entry: the object is gone already, or the name is wrong"
        ]
    );
    assert_eq!(check_with_facts(removes, &facts_on(target())), NONE, "offline nothing is known");
    assert_eq!(
        check_with_facts("    removes: [{kind: Deployment, name: a}]\n", &live(&[])),
        [
            "? 8:15: Deployment `a` is still rendered, so nothing removes it [stateful] → remove the part that creates it, or remove this entry"
        ]
    );
    let mut stays = before.clone();
    if let Fact::Known { value, .. } = &mut stays.live {
        value.staying = value.objects[1..2].to_vec();
    }
    let messages = check_with_facts("    {}\n", &stays);
    assert!(
        messages[0].contains("out of the manifests: Argo CD leaves it in the cluster"),
        "it does not go, and that is said: {messages:?}"
    );
    // A newer version of its group is the same object.
    assert_eq!(check_with_facts("    {}\n", &live(&[("apps/v1beta1", "Deployment", "a")])), NONE);
    let missing =
        Facts { live: Fact::Missing { why: "m is away".to_owned() }, ..facts_on(target()) };
    let messages = check_with_facts("    {}\n", &missing);
    assert!(
        messages[0]
            .starts_with("it is not known what this deployment would remove: m is away [stateful]"),
        "{messages:?}"
    );
}

#[test]
fn a_live_disk_only_grows() {
    let disk = Disk {
        object: LiveObject {
            api_version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            name: "a.data".to_owned(),
        },
        template: None,
        size: "10Gi".to_owned(),
        class: None,
        access_modes: vec!["ReadWriteOnce".to_owned()],
    };
    let objects = vec![disk.object.clone()];
    let facts = Facts {
        live: known_fact(LiveApp { objects, disks: vec![disk], ..LiveApp::default() }),
        ..facts_on(target())
    };
    let volume = |more: &str| {
        format!(
            "    scaling: {{replicas: 1}}\n    volumes: [{{name: data, mountPath: /data, {more}}}]\n"
        )
    };
    let disks = |more: &str| {
        let mut messages = check_with_facts(&volume(more), &facts);
        messages.retain(|message| message.contains("[disks]"));
        messages
    };
    assert_eq!(disks("size: 20Gi"), NONE);
    assert_eq!(
        disks("size: 5Gi"),
        [
            "9:52: PersistentVolumeClaim `a.data` would shrink from 10Gi to 5Gi: Kubernetes never makes a disk smaller, and the app would not sync again [disks] → put back what it was; for a smaller one take a volume of another name, and move the data"
        ]
    );
    let mode = disks("size: 10Gi, accessMode: ReadWriteMany");
    assert!(mode.len() == 1 && mode[0].contains("from ReadWriteOnce to ReadWriteMany"), "{mode:?}");
    let class = disks("size: 10Gi, storageClass: fast");
    assert!(class.len() == 1 && class[0].starts_with("9:"), "{class:?}");
    assert!(class[0].contains("would get the storage class `fast`: it was made without one"));
    // An older version let it pass: going back is possible, and staying is told.
    let Fact::Known { value: LiveApp { disks: first_disks, objects, .. }, .. } = facts.live else {
        panic!("it is known")
    };
    let disks_now: Vec<Disk> = first_disks
        .iter()
        .map(|disk| Disk { class: Some("fast".to_owned()), ..disk.clone() })
        .collect();
    let live = LiveApp { objects, disks: disks_now, first_disks, ..LiveApp::default() };
    let facts = Facts { live: known_fact(live), ..facts_on(target()) };
    let disks = |more: &str| {
        let mut messages = check_with_facts(&volume(more), &facts);
        messages.retain(|message| message.contains("[disks]"));
        messages
    };
    assert_eq!(disks("size: 10Gi"), NONE);
    let class = disks("size: 10Gi, storageClass: fast");
    assert!(class.len() == 1 && class[0].starts_with("? "), "{class:?}");
    assert!(class[0].contains("was made with the cluster's own"), "{class:?}");
}

#[test]
fn a_disk_that_may_be_left_over_is_told() {
    let claim = |size: &str| Disk {
        object: LiveObject {
            api_version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            name: "a.data".to_owned(),
        },
        template: None,
        size: size.to_owned(),
        class: None,
        access_modes: vec!["ReadWriteOnce".to_owned()],
    };
    let disks = |left_over: Vec<Disk>| {
        let live = known_fact(LiveApp { left_over, ..LiveApp::default() });
        let section = "    scaling: {replicas: 1}\n    volumes: [{name: data, mountPath: /data, size: 5Gi}]\n";
        let mut messages = check_with_facts(section, &Facts { live, ..facts_on(target()) });
        messages.retain(|message| message.contains("[disks]"));
        messages
    };
    assert_eq!(disks(vec![]), NONE);
    let messages = disks(vec![claim("5Gi")]);
    assert!(messages.len() == 1 && messages[0].starts_with("? 9:"), "{messages:?}");
    assert!(
        messages[0].contains("`a.data` with 5Gi was taken out of the manifests and may still be")
    );
    assert!(!messages[0].contains("shrink"), "{messages:?}");
    let larger = disks(vec![claim("10Gi")]);
    assert!(larger.len() == 1 && larger[0].starts_with("? "), "{larger:?}");
    assert!(
        larger[0]
            .contains("if it is, PersistentVolumeClaim `a.data` would shrink from 10Gi to 5Gi")
    );
    assert!(larger[0].contains("kubectl get persistentvolumeclaim a.data"), "{larger:?}");
}

#[test]
fn an_object_of_another_app_is_not_taken() {
    let object = |group: &str, kind: &str, name: &str| ObjectName {
        group: group.into(),
        kind: kind.into(),
        name: name.into(),
    };
    let other_names: Arc<[ObjectName]> =
        [object("", "Service", "bapp"), object("apps", "StatefulSet", "a")].into();
    let own_names: Arc<[ObjectName]> = [object("apps", "Deployment", "a")].into();
    let slug = |slug: &str| Slug::parse(slug).unwrap();
    let apps = [(slug("bapp"), other_names), (slug("a"), own_names)].into();
    let namespace_objects = NamespaceObjects { apps, ..NamespaceObjects::default() };
    let facts = Facts {
        namespace: known_fact(Arc::new(namespace_objects.clone())),
        ..live(&[("apps/v1", "Deployment", "a")])
    };
    let web = "    service: [{ports: [{name: http, number: 8000}]}, {name: NAME, ports: [{name: x, number: 8001}]}]\n";
    assert_eq!(
        check_with_facts(&web.replace("NAME", "other"), &facts),
        NONE,
        "its own, and of another kind"
    );
    assert_eq!(
        check_with_facts(&web.replace("NAME", "bapp"), &facts),
        [
            "8:61: Service `bapp` already belongs to the app `n/bapp` [collision] → choose another name; if that app no longer exists, `bart remove t n/bapp --reason TEXT`"
        ]
    );
    // A Secret that a controller makes of an object counts as an object.
    let secret: Arc<[ObjectName]> = [object("", "Secret", "a.same.example.com")].into();
    let facts_of = |other_names: Arc<[ObjectName]>| {
        let apps = [(slug("bapp"), other_names)].into();
        let namespace =
            known_fact(Arc::new(NamespaceObjects { apps, ..NamespaceObjects::default() }));
        Facts { namespace, ..live(&[("apps/v1", "Deployment", "a")]) }
    };
    let web_at = format!("{}    ingress: [{{host: same.example.com}}]\n", super::WEB);
    let messages = check_with_facts(&web_at, &facts_of(secret));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].starts_with(
            "9:22: Secret `a.same.example.com`, which Certificate a.same.example.com creates, already belongs to the app `n/bapp` [collision]"
        ),
        "{messages:?}"
    );
    let live_facts = Facts { live: live(&[("v1", "Service", "bapp")]).live, ..facts };
    let messages = check_with_facts(&web.replace("NAME", "bapp"), &live_facts);
    assert!(
        messages.len() == 1 && messages[0].starts_with("? 8:61: Service `bapp`"),
        "{messages:?}"
    );
    // An object of another app that cannot be read may have any name.
    let unread = [(slug("a"), "own.yaml".to_owned()), (slug("bapp"), "x.yaml".to_owned())].into();
    let half = Facts {
        namespace: known_fact(Arc::new(NamespaceObjects { unread, ..namespace_objects })),
        ..live(&[("apps/v1", "Deployment", "a")])
    };
    let messages = check_with_facts(&web.replace("NAME", "other"), &half);
    assert!(
        messages.len() == 1
            && messages[0].starts_with("? it is not known which objects `n/bapp` has"),
        "{messages:?}"
    );
}

/// A certificate's Secret and one from a store are one object, also in one app.
#[test]
fn a_secret_is_not_made_twice() {
    let mut target = target();
    target.platform.secrets = serde_json::from_str(r#"{"delivery": "external-secrets"}"#).unwrap();
    let section = |secret: &str| {
        format!(
            "{}    ingress: [{{host: same.example.com}}]\n    secrets: [{{name: {secret}}}]\n",
            super::WEB
        )
    };
    let facts = facts_on(target);
    assert_eq!(check_with_facts(&section("other"), &facts), NONE);
    let messages = check_with_facts(&section("a.same.example.com"), &facts);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].starts_with("10:22: ")
            && messages[0].contains("would both write the Secret `a.same.example.com` [collision]"),
        "{messages:?}"
    );
}

#[test]
fn who_hands_the_number_of_pods_over_to_an_autoscaler_is_told() {
    let live = |autoscaled: bool| {
        let (kind, name) = ("Deployment".to_owned(), "a".to_owned());
        let replicas = vec![LiveReplicas { kind: kind.clone(), name: name.clone(), number: 10 }];
        let autoscaled = autoscaled.then_some((kind, name)).into_iter().collect();
        let live = LiveApp { replicas, autoscaled, ..LiveApp::default() };
        Facts { live: known_fact(live), ..facts_on(target()) }
    };
    let section = "    autoscaling: {horizontal: {minReplicas: 3, maxReplicas: 10, cpu: {averageUtilization: 75}}}\n";
    let replica_messages = |facts: &Facts| {
        let messages = check_with_facts(section, facts);
        messages.into_iter().filter(|message| message.contains("[replicas]")).collect::<Vec<_>>()
    };
    let first = replica_messages(&live(false));
    assert!(first.len() == 1 && first[0].contains("Deployment `a` runs 10 pods"), "{first:?}");
    assert_eq!(replica_messages(&live(true)), NONE);
    // No policy lets pods go because their number is not known.
    let mut lenient = target();
    lenient.policies.unknown = Some(OnUnknown::Warn);
    let missing =
        Facts { live: Fact::Missing { why: "m is away".to_owned() }, ..facts_on(lenient) };
    let unknown = replica_messages(&missing);
    assert!(unknown.len() == 1 && !unknown[0].starts_with('?'), "{unknown:?}");
    assert!(unknown[0].contains("how many pods Deployment `a` runs now"), "{unknown:?}");
    assert_eq!(
        check_with_facts("    {}\n", &missing).len(),
        1,
        "without an autoscaler it is a warning"
    );
}

#[test]
fn who_removes_much_is_stopped_unless_it_is_said() {
    let names = ["b", "c", "d", "e", "f", "g"];
    let maps: Vec<_> = names.iter().map(|name| ("v1", "ConfigMap", *name)).collect();
    let message = "this deployment removes 6 of 6 objects: ConfigMap `b`, ConfigMap `c`, ConfigMap `d`, ConfigMap `e`, ConfigMap `f` and 1 more [removal] → check whether the template, or a large part of the WAML, is missing";
    let entries: Vec<String> =
        names.iter().map(|name| format!("{{kind: ConfigMap, name: {name}}}")).collect();
    let removes = format!("removes: [{}]", entries.join(", "));
    assert_eq!(
        check_with_facts("    {}\n", &live(&maps)),
        [format!("{message}; if they are to go, say so under the target: `{removes}`")]
    );
    assert_eq!(check_with_facts("    {}\n", &live(&maps[..4])), NONE);
    // As the help says it.
    assert_eq!(check_with_facts(&format!("    {removes}\n"), &live(&maps)), NONE);
    let facts_with = |removals: RemovalLimit| {
        let mut target = target();
        target.policies.removals = removals;
        Facts { live: live(&maps).live, ..facts_on(target) }
    };
    let warn = RemovalLimit { action: OnRemoval::Warn, ..RemovalLimit::default() };
    assert_eq!(check_with_facts("    {}\n", &facts_with(warn)), [format!("? {message}")]);
    let higher_limit = RemovalLimit { objects: 7, ..RemovalLimit::default() };
    assert_eq!(check_with_facts("    {}\n", &facts_with(higher_limit)), NONE);
    let whole_share = RemovalLimit { percent: 100, ..RemovalLimit::default() };
    assert_eq!(check_with_facts("    {}\n", &facts_with(whole_share)), NONE);
    let two_objects = RemovalLimit { objects: 2, percent: 0, ..RemovalLimit::default() };
    assert_eq!(check_with_facts("    {}\n", &facts_with(two_objects)).len(), 1);
}

#[test]
fn who_removes_very_much_gets_every_line_to_write() {
    let names: Vec<String> = (0..150).map(|n| format!("a-config-map-{n}")).collect();
    let maps: Vec<_> = names.iter().map(|name| ("v1", "ConfigMap", name.as_str())).collect();
    let messages = check_with_facts("    {}\n", &live(&maps));
    let errors = messages.iter().filter(|message| !message.starts_with('?')).count();
    assert!(errors == 1 && messages.len() > 2, "one thing is wrong: {messages:?}");
    let mut entries = Vec::new();
    for message in &messages {
        let line = message.rsplit_once('`').unwrap().0.rsplit_once('`').unwrap().1;
        let line = line.trim_start_matches("removes: [").trim_end_matches(']');
        assert!(line.starts_with("{kind: ConfigMap, name: ") && line.ends_with('}'), "{line}");
        entries.push(line.to_owned());
    }
    let removes = format!("    removes: [{}]\n", entries.join(", "));
    assert_eq!(check_with_facts(&removes, &live(&maps)), NONE, "as the helps say it, all together");
}

#[test]
fn a_secret_that_another_app_has_is_told_where_its_name_is_written() {
    let mut target = target();
    target.platform.secrets.delivery = Delivery::ExternalSecrets;
    let object = |name: &str| ObjectName {
        group: "external-secrets.io".into(),
        kind: "ExternalSecret".into(),
        name: name.into(),
    };
    let other_names: Arc<[ObjectName]> = [object("listed"), object("of-env")].into();
    let apps = [(Slug::parse("bapp").unwrap(), other_names)].into();
    let namespace_objects = NamespaceObjects { apps, ..NamespaceObjects::default() };
    let facts = Facts { namespace: known_fact(Arc::new(namespace_objects)), ..facts_on(target) };
    let section = "    secrets: [{name: listed, mountPath: /s}]\n    env: [{name: A, secret: {name: of-env, key: k}}]\n";
    let messages = check_with_facts(section, &facts);
    let places: Vec<_> =
        messages.iter().map(|message| message.split(" already belongs").next().unwrap()).collect();
    assert_eq!(places, ["8:22: ExternalSecret `listed`", "9:36: ExternalSecret `of-env`"]);
}
