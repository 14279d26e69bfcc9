//! No value of a WAML becomes code: not in a policy of Vault (HCL), not in a template of the Vault
//! agent, and not in what operators read.

use serde_json::{Value as Json, json};
use the_deployer::model::platform::Platform;
use the_deployer::pipeline::render::RenderedManifests;

use super::hostile::{HOSTILE, object, shape, yaml};
use super::{planned_on, templates};

/// What means something in HCL, in a Go template, or to the operators that read them.
const CODE: &[&str] = &[
    "n/a\" { capabilities = [\"sudo\"] }\npath \"*",
    "n/a\"\n}\npath \"sys/*\" {",
    "n/${auth/kubernetes/@accessor}",
    "n/{{identity.entity.id}}",
    "n/a\" }}{{ file \"/etc/passwd\" }}{{ with secret \"x",
    "/etc/{{ file \"/etc/passwd\" }}",
    "/etc/\" }}{{ env \"HOME\" }}{{ \"",
    "/etc/a`}}{{`",
    "/etc/a\\",
    "/etc/%s%[2]v",
    "n/a#",
    "n/a//b",
    "n/../x",
    "n/*",
    "n/+",
    "*",
    "+",
    "n/a*b",
    "x/a",
    "nn/a",
    "n",
    "roles/owner",
    "roles/a.b]",
    "projects/x/roles/y",
    "arn:aws:iam::123456789012:role/a\"",
    "16\"",
    "7.2\n",
    "db-x y",
    "1Gi\n",
    "10Gi }",
];

fn calm() -> Json {
    json!({
        "schema": "2", "name": "calm", "slug": "my-app", "owner": "a@b.c", "namespace": "n",
        "deploy": {"t": {
            "secrets": [{"name": "db", "mountPath": "/etc/db", "path": "n/db"}],
            "vault": {"paths": ["n/x"]},
            "iam": {"roles": ["roles/pubsub.publisher"], "awsRole": "arn:aws:iam::123456789012:role/a"},
            "database": {"version": "16", "tier": "db-custom-1-3840", "storage": "10Gi"},
            "redis": {"version": "7.2", "memory": "1Gi"},
        }},
    })
}

/// A JSON pointer into the WAML, and how the path of what is said of it begins.
const FIELDS: &[(&str, &str)] = &[
    ("/deploy/t/secrets/0/name", "secrets[0].name"),
    ("/deploy/t/secrets/0/path", "secrets[0].path"),
    ("/deploy/t/secrets/0/mountPath", "secrets[0].mountPath"),
    ("/deploy/t/vault/paths/0", "vault.paths[0]"),
    ("/deploy/t/iam/roles/0", "iam.roles[0]"),
    ("/deploy/t/iam/awsRole", "iam.awsRole"),
    ("/deploy/t/database/version", "database.version"),
    ("/deploy/t/database/tier", "database.tier"),
    ("/deploy/t/database/storage", "database.storage"),
    ("/deploy/t/redis/version", "redis.version"),
    ("/deploy/t/redis/memory", "redis.memory"),
];

fn platforms() -> Vec<Platform> {
    let gcp = json!({"provider": "gcp", "gcp": {"project": "acme-prod", "region": "r1"},
        "database": "cloudsql", "redis": "memorystore"});
    let aws = json!({"provider": "aws", "database": "none"});
    let all = [
        json!({"secrets": {"delivery": "vault-agent"}, "cloud": gcp}),
        json!({"secrets": {"delivery": "external-secrets"}, "cloud": gcp}),
        json!({"secrets": {"delivery": "vault-secrets-operator"}, "cloud": gcp}),
        json!({"secrets": {"delivery": "vault-agent"}, "cloud": aws}),
    ];
    all.into_iter().map(|platform| serde_json::from_value(platform).unwrap()).collect()
}

fn at_home(platform: &Platform, mut waml: Json) -> Json {
    if platform.cloud.database == the_deployer::model::platform::cloud::DatabaseKind::None {
        waml["deploy"]["t"].as_object_mut().unwrap().remove("database");
    }
    waml
}

/// Policies and the agent's templates with all that stands in quotes taken out.
fn code(rendered: &RenderedManifests) -> Vec<String> {
    let objects = rendered.files.iter().map(|file| object(&file.bytes));
    let mut found = Vec::new();
    for object in objects {
        found.extend(object["spec"]["policy"].as_str().map(without_strings));
        let annotations = object["spec"]["template"]["metadata"]["annotations"].as_object();
        for (key, value) in annotations.into_iter().flatten() {
            if key.contains("agent-inject-template-") {
                found.push(without_strings(value.as_str().unwrap()));
            }
        }
    }
    found
}

/// Go and HCL agree on where a quoted string ends.
fn without_strings(text: &str) -> String {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => {
                inside = !inside;
                out.push('"');
            }
            '\n' if inside => out.push_str("<newline in a string>"),
            _ if inside => {}
            _ => out.push(c),
        }
    }
    assert!(!inside, "{text}");
    out
}

#[test]
fn no_value_becomes_code_on_any_platform() {
    let (mut rendered, mut refused) = (0, 0);
    for platform in platforms() {
        let calm = at_home(&platform, calm());
        let before =
            planned_on(yaml(&calm).as_bytes(), None, platform.clone(), templates()).unwrap();
        for (pointer, path) in FIELDS {
            for hostile in CODE.iter().chain(HOSTILE) {
                let mut waml = calm.clone();
                let Some(place) = waml.pointer_mut(pointer) else { continue };
                *place = json!(hostile);
                let about = format!("{hostile:?} in {path}");
                match planned_on(yaml(&waml).as_bytes(), None, platform.clone(), templates()) {
                    Ok(after) => {
                        rendered += 1;
                        assert!(
                            shape(&after, false) == shape(&before, false),
                            "{about} changed the shape"
                        );
                        assert_eq!(code(&after), code(&before), "{about}");
                    }
                    Err(rejection) => {
                        refused += 1;
                        let told = rejection.violations.iter().any(|v| {
                            v.path.strip_prefix("deploy.t.").unwrap_or(&v.path).starts_with(path)
                        });
                        assert!(told, "{about} is refused elsewhere: {:?}", rejection.violations);
                    }
                }
            }
        }
    }
    assert!(rendered > 40 && refused > 1000, "{rendered} rendered, {refused} refused");
}

#[test]
fn the_agents_template_writes_below_a_hostile_folder_and_nowhere_else() {
    let platform = platforms().remove(0);
    let mut waml = calm();
    waml["deploy"]["t"]["secrets"][0]["mountPath"] = json!("/etc/\" }}{{ file \"/x");
    let rendered = planned_on(yaml(&waml).as_bytes(), None, platform, templates()).unwrap();
    let deployment = rendered.files.iter().find(|file| file.name == "deployment.yaml").unwrap();
    let object = object(&deployment.bytes);
    let annotations = &object["spec"]["template"]["metadata"]["annotations"];
    let template =
        annotations["vault.hashicorp.com/agent-inject-template-secret-db"].as_str().unwrap();
    assert_eq!(template.matches("{{").count(), 7, "{template}");
    assert!(template.contains(r#""/etc/\U00000022\U00000020\U0000007d\U0000007d"#), "{template}");
}
