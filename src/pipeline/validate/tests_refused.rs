//! What Kubernetes, or a registry, would refuse is refused here, at its place.

use super::{WEB, rendered, said};

#[test]
fn images_have_names_that_registries_take() {
    assert_eq!(
        said("    image: {registry: 'ghcr.io ', repository: Acme/App}\n"),
        [
            "8:23: `ghcr.io ` is not a registry [image]",
            "8:47: `Acme/App` is not the name of an image [image]",
        ]
    );
    let long = "a".repeat(200);
    let both = said(&format!("    image: {{registry: a.b/{long}, repository: {long}}}\n"));
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].ends_with("is not the name of an image [image]"), "{both:?}");
    assert_eq!(said("    image: {repository: 'localhost:5000/acme/app'}\n"), Vec::<String>::new());
}

#[test]
fn secrets_have_names_and_keys_that_can_exist() {
    assert_eq!(
        said(
            "    env: [{name: A, secret: {name: a.b, key: c.D_e}}, {name: B, secret: {name: A_b, key: 'x y'}}, {name: C, secret: {name: c, key: ..}}]\n    secrets: [{name: a.b}, {name: a..b}]\n"
        ),
        [
            "8:80: `A_b` is not a legal name of a Secret [names]",
            "8:90: `x y` is not a legal key of a Secret [env]",
            "8:132: `..` is not a legal key of a Secret [env]",
            "9:35: `a..b` is not a legal name of a Secret [names]",
        ]
    );
}

#[test]
fn a_mounted_secret_is_a_volume_with_a_legal_name() {
    let long = "a".repeat(250);
    let deployment = rendered(&format!(
        "    secrets: [{{name: plain, mountPath: /a}}, {{name: a.b, mountPath: /b}}, {{name: a-b, mountPath: /c}}, {{name: {long}, mountPath: /d}}]\n"
    ));
    let pod = &deployment["spec"]["template"]["spec"];
    let named = |list: &serde_json::Value, key: &str| {
        let texts = list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap());
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let volumes = named(&pod["volumes"], "name");
    assert_eq!(volumes[0], "secret-plain");
    assert_eq!(volumes[2], "secret-a-b");
    assert!(volumes[1].starts_with("secret-a-b-"), "{volumes:?}");
    assert!(volumes.iter().all(|name| crate::model::id::is_rfc1123_label(name)), "{volumes:?}");
    assert_eq!(named(&pod["containers"][0]["volumeMounts"], "name"), volumes);
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "a.b");
}

#[test]
fn a_volume_has_a_folder_of_its_own() {
    assert_eq!(
        said(
            "    secrets: [{name: a, mountPath: //}, {name: b, mountPath: /x}, {name: c, mountPath: /./x/}]\n"
        ),
        [
            "8:36: `//` is not a folder in the container [volumes]",
            "8:88: `/./x/` is already the folder of `secrets[1].mountPath` [volumes]",
        ]
    );
}

#[test]
fn probes_are_those_that_kubernetes_takes() {
    assert_eq!(
        said(&format!(
            "{WEB}    probes:\n      liveness: {{command: [], path: null}}\n      readiness: {{path: '', successThreshold: 2}}\n      startup: {{port: http, successThreshold: 2}}\n"
        )),
        [
            "10:18: the liveness probe has an empty command [probes]",
            "11:25: the readiness probe has an empty path [probes]",
            "12:47: a startup probe succeeds at the first time [probes]",
        ]
    );
}

#[test]
fn a_disruption_has_one_number_and_no_more_than_all() {
    assert_eq!(
        said("    disruption: {minAvailable: 1, maxUnavailable: 1}\n"),
        ["8:51: a disruption has `minAvailable` or `maxUnavailable`, not both [disruption]"]
    );
    assert_eq!(
        said("    disruption: {maxUnavailable: 101%}\n"),
        ["8:34: 101% of the pods cannot be away [disruption]"]
    );
    assert_eq!(said("    disruption: {minAvailable: 1}\n"), Vec::<String>::new());
}

#[test]
fn numbers_fit_into_32_bits() {
    assert_eq!(
        said("    disruption: {maxUnavailable: 2147483648}\n    scaling: {maxSurge: 2147483648}\n"),
        [
            "8:34: `2147483648` is neither a number nor a percentage [disruption]",
            "9:25: `2147483648` is neither a number nor a percentage [scaling]",
        ]
    );
    assert_eq!(said("    scaling: {maxSurge: 2147483647}\n"), Vec::<String>::new());
}

#[test]
fn grpc_is_served_at_a_port_of_tcp() {
    let service = "    service: [{ports: [{name: api, number: 9000, targetPort: 9001}, {name: dns, number: 53, protocol: UDP}]}]\n";
    let grpc = |port: &str| said(&format!("{service}    grpc: {{port: {port}}}\n"));
    for port in ["api", "9000", "9001"] {
        assert_eq!(grpc(port), Vec::<String>::new(), "{port}");
    }
    for port in ["dns", "53", "nope", "''"] {
        let found = grpc(port);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("9:18: no service has the TCP port "), "{found:?}");
        assert!(found[0].ends_with("that serves gRPC [grpc]"), "{found:?}");
    }
}

#[test]
fn what_others_decide_is_not_set_in_silence() {
    let hpa = "    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n";
    assert_eq!(
        said(&format!("{hpa}    scaling: {{replicas: 4}}\n")),
        ["9:25: `scaling.replicas` does nothing: the number of replicas is the autoscaler's [ignored]"]
    );
    // The template's own number stays without a word.
    assert_eq!(said(hpa), Vec::<String>::new());
    assert_eq!(
        said(
            "    service: [{port: 80, ports: [{name: a, number: 81}]}]\n    ingress: [{hostPrefix: a, port: 80, paths: [{servicePort: 81}]}]\n    image: {registry: ghcr.io, repository: quay.io/a/b}\n"
        ),
        [
            "8:22: `service[0].port` does nothing: every port has a `number` [ignored]",
            "9:37: `ingress[0].port` does nothing: every path has a `servicePort` [ignored]",
            "10:23: `image.registry` does nothing: `image.repository` names a registry itself [ignored]",
        ]
    );
}

#[test]
fn a_setting_that_every_target_has_otherwise_is_told() {
    let head = super::HEAD;
    let text = |deploy: &str| {
        format!(
            "{head}template: cronjob-default\ndefaults:\n- match: '*'\n  template: backend-default\n  scaling: {{replicas: 2}}\n  args: [a, b]\n  env: [{{name: A, value: 1}}, {{name: B, value: 2}}]\ndeploy:\n{deploy}"
        )
    };
    let said_of = |text: String| -> Vec<String> {
        super::planned(&text).iter().map(|v| v.to_string().replace(".weave.yaml:", "")).collect()
    };
    let t = "  t: {scaling: {replicas: 3}, args: [c], env: [{name: A, value: null}]}\n";
    let dead = |place: &str, path: &str| {
        format!("{place}: `{path}` does nothing: every target that it is for has another value [ignored]")
    };
    assert_eq!(
        said_of(text(t)),
        [
            dead("6:11", "template"),
            dead("10:22", "defaults[0].scaling.replicas"),
            dead("11:9", "defaults[0].args"),
            dead("12:26", "defaults[0].env[0].value"),
        ]
    );
    // One target that keeps them is enough.
    assert_eq!(said_of(text(&format!("{t}  other:\n"))), [dead("6:11", "template")]);
}
