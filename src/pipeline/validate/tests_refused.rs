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
