//! `bart import`: a document of another system becomes sections of a WAML, which render.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::harness::folder;

/// The example of the `kubevela` design, as it is printed there, with its cluster.
const EXAMPLE: &str = "kind: ApplicationDeployment
name: example-app-deploy
spec:
  traffic:
    hosts:
      - example-app.example.com
    http:
      - match:
          - uri:
              prefix: \"/web\"
        weightedTargets:
          - revisionName: example-app-v1
            componentName: testsvc
            port: 80
            weight: 50
          - revisionName: example-app-v2
            componentName: testsvc
            port: 80
            weight: 50

  appRevisions:
    - # Name of the AppRevision.
      revisionName: example-app-v1
      placement:
        - clusterSelector:
            labels:
              usage: production
            name: prod-cluster-1
          distribution:
            replicas: 5
        - # If no clusterSelector is given, it will use the same cluster as this CR
          distribution:
            replicas: 5
    - revisionName: example-app-v2
      placement:
        - clusterSelector:
            labels:
              usage: production
            name: prod-cluster-1
          distribution:
            replicas: 5
        - distribution:
            replicas: 5
---
kind: Cluster
metadata:
  name: prod-cluster-1
  labels:
    usage: production
spec:
  kubeconfigSecretRef:
    name: kubeconfig-cluster-1
";

fn bart(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bart"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .env_remove("BART_SERVER")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const IMPORT: [&str; 5] = ["import", "application-deployment", "-", "--target", "prod-cluster-1"];

#[test]
fn the_example_of_the_design_becomes_sections_with_warnings() {
    let (code, section, warnings) = bart(&IMPORT, EXAMPLE);
    assert_eq!(code, Some(0), "{warnings}");
    assert_eq!(
        section,
        "deploy:
  prod-cluster-1:
    service:
    - name: testsvc
      ports:
      - name: port-80
        number: 80
    ingress:
    - host: example-app.example.com
      public: true
    versions:
    - name: v1
      placement:
      - cluster: prod-cluster-1
        labels:
          usage: production
        replicas: 5
      - replicas: 5
    - name: v2
      placement:
      - cluster: prod-cluster-1
        labels:
          usage: production
        replicas: 5
      - replicas: 5
    traffic:
      hosts:
      - example-app.example.com
      http:
      - match:
        - prefix: /web
        targets:
        - version: v1
          port: 80
          weight: 50
        - version: v2
          port: 80
          weight: 50
"
    );
    for part in [
        "the cluster `prod-cluster-1` is a matter of the service's configuration",
        "the image of the revision `example-app-v1` is not in this document",
        "a placement without a selector is on every cluster of the target here",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
}

#[test]
fn the_imported_sections_render_as_the_design_says() {
    let (_, section, _) = bart(&IMPORT, EXAMPLE);
    let folder = folder::temporary();
    let file = folder.path().join(".weave.yaml");
    let header =
        "schema: \"2\"\nname: Example App\nslug: example-app\nowner: a@b.c\nnamespace: example\n";
    fs::write(&file, format!("{header}{section}")).unwrap();
    let platform = folder.path().join("platform.json");
    let cluster = serde_json::json!({
        "name": "prod-cluster-1", "domain": "example.com", "environment": "development",
        "server": "https://kubernetes.default.svc", "labels": {"usage": "production"},
        "platform": {"ingress": {"kind": "istio"}},
    });
    let clusters = serde_json::json!({"complete": true, "any": null, "targets": [cluster]});
    fs::write(&platform, clusters.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bart"))
        .args(["render", "--target", "prod-cluster-1", "--tag", "1.0"])
        .args(["--repository", "example/example-app", "--platform"])
        .arg(&platform)
        .arg(&file)
        .env_remove("BART_SERVER")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Vec<Json> = text
        .split("\n---\n")
        .map(|one| serde_yaml::from_str(one.trim_start_matches("---\n")).unwrap())
        .collect();
    let find = |kind: &str, name: &str| {
        let mut all = objects.iter();
        all.find(|one| one["kind"] == kind && one["metadata"]["name"] == name).unwrap()
    };
    let route = find("VirtualService", "example-app");
    assert_eq!(route["apiVersion"], "networking.istio.io/v1");
    assert_eq!(route["spec"]["hosts"], serde_json::json!(["example-app.example.com"]));
    assert_eq!(
        route["spec"]["http"],
        serde_json::json!([{
            "match": [{"uri": {"prefix": "/web"}}],
            "route": [
                {"destination": {"host": "example-app-v1", "port": {"number": 80}}, "weight": 50},
                {"destination": {"host": "example-app-v2", "port": {"number": 80}}, "weight": 50},
            ],
        }])
    );
    for version in ["example-app-v1", "example-app-v2"] {
        assert_eq!(find("Deployment", version)["spec"]["replicas"], 10);
        assert_eq!(find("Service", version)["spec"]["ports"][0]["port"], 80);
    }
}

#[test]
fn what_is_no_application_deployment_is_refused() {
    let (code, section, error) = bart(&IMPORT, "kind: Deployment\n");
    assert_eq!((code, section.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("has no `kind: ApplicationDeployment`"), "{error}");
    let (code, _, error) =
        bart(&["import", "application-deployment", "nothing.yaml", "--target", "t"], "");
    assert_eq!(code, Some(2), "{error}");
}
