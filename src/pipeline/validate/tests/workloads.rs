//! Volumes and jobs.

use serde_json::json;

use super::{WEB, check_section, rendered};

#[test]
fn a_volume_is_one_thing() {
    assert_eq!(
        check_section(
            "    volumes: [{name: a, mountPath: /a, size: 1Gi, accessMode: ReadWriteMany, files: {}}, {name: b, mountPath: /b, storageClass: fast, accessMode: ReadOnlyMany}, {name: c, mountPath: /c, size: 0, accessMode: ReadOnlyMany, storageClass: A_b}, {name: secret-d, mountPath: /d, files: {../x: y}}]\n    secrets: [{name: d, mountPath: /e}]\n"
        ),
        [
            "8:78: the volume `a` is both a disk and files [volumes]",
            "8:129: `storageClass` is of disks, and this is none [volumes]",
            "8:147: `accessMode` is of disks, and this is none [volumes]",
            "8:193: a disk needs a size above 0 [volumes]",
            "8:236: `A_b` is not a legal name of a storage class [volumes]",
            "8:249: `secret-d` is the name of the volume for the secret `d` [volumes]",
            "8:288: `../x` is not a legal name of a file [volumes]",
        ]
    );
}

#[test]
fn a_disk_for_one_pod_has_one_pod() {
    let disk = "    volumes: [{name: a, mountPath: /a, size: 1Gi}]\n";
    assert_eq!(
        check_section(disk),
        [
            "8:15: the disk `a` is for one pod, and the app has several pods (the default of `backend-default`) [volumes]"
        ]
    );
    assert_eq!(
        check_section(&format!("{disk}    scaling: {{replicas: 1}}\n")),
        Vec::<String>::new()
    );
    assert_eq!(
        check_section(&format!(
            "{disk}    scaling: {{replicas: 1}}\n    autoscaling: {{horizontal: {{maxReplicas: 3, cpu: {{averageUtilization: 75}}}}}}\n"
        )),
        [
            "8:15: the disk `a` is for one pod, and the app is scaled by load [volumes]",
            "9:25: `scaling.replicas` does nothing: the number of replicas is the autoscaler's [ignored]",
        ]
    );
    let shared = disk.replace("1Gi", "1Gi, accessMode: ReadWriteMany");
    assert_eq!(check_section(&shared), Vec::<String>::new());
    assert_eq!(
        check_section(&format!("{disk}    scaling: {{replicas: 1, maxSurge: 1}}\n")),
        [
            "9:38: `scaling.maxSurge` does nothing: with the disk `a` the old pod goes before the new one comes [ignored]"
        ]
    );
}

#[test]
fn pods_are_replaced_when_a_file_has_changed() {
    let annotation = |content: &str| {
        let section = format!(
            "    volumes: [{{name: a, mountPath: /a, files: {{x: '{content}'}}}}]\n    annotations: {{own: kept}}\n"
        );
        let annotations = &rendered(&section)["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(annotations["own"], json!("kept"));
        annotations["the-deployer.dev/files"].as_str().unwrap().to_owned()
    };
    assert_eq!(annotation("1"), annotation("1"));
    assert_ne!(annotation("1"), annotation("2"));
    let without_files = rendered("    volumes: [{name: a, mountPath: /a}]\n");
    assert_eq!(without_files["spec"]["template"]["metadata"]["annotations"], json!(null));
}

#[test]
fn a_job_has_a_schedule_that_comes() {
    let job = |more: &str| check_section(&format!("    template: cronjob-default\n{more}"));
    assert_eq!(
        job(""),
        ["8:5: `cronjob-default@latest` runs on a schedule, and there is none [cron]"]
    );
    assert_eq!(
        job("    cron: {timeZone: UTC}\n"),
        ["9:5: `cronjob-default@latest` runs on a schedule, and there is none [cron]"]
    );
    assert_eq!(
        job("    cron: {schedule: '* * * * 7', timeZone: europe/berlin}\n"),
        [
            "9:22: `7` is no day of the week: 7 is out of range [cron]",
            "9:45: there is no time zone `europe/berlin` [cron]",
        ]
    );
    assert_eq!(
        job("    cron: {schedule: '@daily', timeZone: Asia/Kolkata}\n"),
        Vec::<String>::new()
    );
    assert_eq!(
        job(&format!("    cron: {{schedule: '@daily'}}\n{WEB}    ingress: [{{hostPrefix: a}}]\n")),
        [
            "10:5: the template `cronjob-default@latest` does not use `service` [unused]",
            "11:5: the template `cronjob-default@latest` does not use `ingress` [unused]",
        ]
    );
}

#[test]
fn runs_of_a_job_share_no_disk_at_once() {
    let job = |cron: &str| {
        check_section(&format!(
            "    template: cronjob-default\n    cron: {{schedule: '@daily'{cron}}}\n    volumes: [{{name: a, mountPath: /a, size: 1Gi}}]\n"
        ))
    };
    assert_eq!(job(""), Vec::<String>::new());
    let message = "10:15: the disk `a` is for one pod, and two runs may use it at once [volumes]";
    assert_eq!(job(", concurrency: Allow"), [message]);
    assert_eq!(job(", concurrency: null"), [message]);
}

fn readiness_of(section: &str) -> serde_json::Value {
    let pod = &rendered(section)["spec"]["template"]["spec"];
    pod["containers"][0]["readinessProbe"].clone()
}

/// The template's `/health` is never answered where gRPC is served, so that no pod became ready.
#[test]
fn a_grpc_port_is_asked_for_its_health_unless_the_waml_says_how() {
    let ports = "    service: [{ports: [{name: api, number: 9000}, {name: web, number: 80, targetPort: 8000}]}]\n    grpc: {port: api}\n";
    let grpc = serde_json::json!({"port": 9000});
    assert_eq!(readiness_of(ports)["grpc"], grpc);
    assert_eq!(
        readiness_of("    service: [{ports: [{name: grpc, number: 9000}]}]\n")["grpc"],
        grpc
    );
    assert_eq!(
        readiness_of("    service: [{ports: [{name: x, number: 9000}]}]\n    grpc: {}\n")["grpc"],
        grpc
    );
    for (readiness, key, expected) in [
        ("{port: web}", "httpGet", serde_json::json!({"path": "/health", "port": "web"})),
        ("{path: /x}", "httpGet", serde_json::json!({"path": "/x", "port": "api"})),
        ("{path: null}", "tcpSocket", serde_json::json!({"port": "api"})),
        ("{type: tcp}", "tcpSocket", serde_json::json!({"port": "api"})),
        ("{type: http}", "httpGet", serde_json::json!({"path": "/health", "port": "api"})),
        ("{service: a.B}", "grpc", serde_json::json!({"port": 9000, "service": "a.B"})),
        ("{type: grpc, port: web}", "grpc", serde_json::json!({"port": 8000})),
        ("{command: [/x]}", "exec", serde_json::json!({"command": ["/x"]})),
    ] {
        let probe = readiness_of(&format!("{ports}    probes: {{readiness: {readiness}}}\n"));
        assert_eq!(probe[key], expected, "{readiness}: {probe}");
    }
}

#[test]
fn ways_of_probing_that_contradict_each_other_are_told() {
    let check_startup = |startup: &str| {
        check_section(&format!(
            "    service: [{{ports: [{{name: a, number: 1}}, {{name: b, number: 2}}]}}]\n    probes: {{startup: {startup}}}\n"
        ))
    };
    for (probe, expected) in [
        (
            "{type: tcp, path: /x}",
            "the startup probe asks by a TCP connection, which has no `path`",
        ),
        ("{type: grpc, command: [x]}", "the startup probe asks by gRPC, which has no `command`"),
        ("{service: x}", "the startup probe asks by a TCP connection, which has no `service`"),
        ("{command: [x], port: a}", "the startup probe asks by a command, which has no `port`"),
        ("{type: exec}", "the startup probe has no command"),
        ("{type: http}", "the startup probe has no path"),
    ] {
        let messages = check_startup(probe);
        assert!(
            matches!(messages.as_slice(), [message] if message.contains(expected)),
            "{probe}: {messages:?}"
        );
    }
    let two_ports =
        "    service: [{ports: [{name: a, number: 1}, {name: b, number: 2}]}]\n    grpc: {}\n";
    assert_eq!(
        check_section(two_ports),
        ["9:5: the app does not say which port serves gRPC [grpc]"]
    );
}

/// Returns the alerts of a section, by their names in Prometheus.
fn alerts_on(platform: serde_json::Value, section: &str) -> Vec<String> {
    let text = format!("{}deploy:\n  t:\n{section}", super::HEAD);
    let rendered = super::plan_on(&text, serde_json::from_value(platform).unwrap()).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "prometheusrule.yaml").unwrap();
    let rules: serde_json::Value = serde_yaml::from_slice(&file.bytes).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_app_whose_pods_are_not_ready_has_alerts() {
    let alerts = alerts_on(json!({}), "    {}\n");
    for name in ["ContainerNotReady", "NoReplicasAvailable"] {
        assert!(alerts.iter().any(|alert| alert == name), "{alerts:?}");
    }
}

/// An alert that nothing measures never fires, and its owner would rely on it.
#[test]
fn a_redis_has_alerts_where_something_measures_it_and_a_cache_may_be_full() {
    let redis_alerts = |platform: serde_json::Value, redis: &str| -> Vec<String> {
        let mut alerts = alerts_on(platform, &format!("    redis: {redis}\n"));
        alerts.retain(|name| name.starts_with("Redis"));
        alerts
    };
    assert_eq!(redis_alerts(json!({}), "{persistent: true}"), Vec::<String>::new());
    let measured = json!({"cloud": {"redis_exporter": "oliver006/redis_exporter:v1.80.0"}});
    let own_source = json!({"monitoring": {"redis": {"source": "exporter"}}});
    for platform in [measured, own_source] {
        let names = ["RedisDown", "RedisMemory", "RedisRejectedConnections", "RedisEvictions"];
        assert_eq!(redis_alerts(platform.clone(), "{persistent: true}"), names);
        assert_eq!(
            redis_alerts(platform, "{}"),
            ["RedisDown", "RedisRejectedConnections", "RedisEvictions"]
        );
    }
}
