//! Example lines for help texts: one for every type of the WAML, and the written text in the right form.
//!
//! Values that may be secrets are never shown: `…` stands for them.

use crate::support::secret_mask::mask_secrets;
use crate::support::secret_name::is_secret_name;
use crate::waml::node::{Node, Value};
use crate::waml::quote::quote_key;

/// A placeholder for a value that the reader fills in, or that must not be shown.
pub(super) const ELLIPSIS: &str = "…";

/// The limit of characters of a written text that help repeats.
const LONGEST: usize = 100;

/// Finds an example for a type, by its name in the schema.
pub(super) fn of_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "Alert" => "{threshold: 0.9}",
        "ApprovalGate" => "{team: acme/sre}",
        "Amounts" => "{cpu: 100m, memory: 256Mi}",
        "Autoscaling" => {
            "{horizontal: {minReplicas: 2, maxReplicas: 10, cpu: {averageUtilization: 75}}}"
        }
        "Cache" => "{maxAge: 3600}",
        "Canary" => "{stepWeight: 10, maxWeight: 50, interval: 1m, threshold: 5}",
        "CanaryMatch" => "{headers: {x-canary: {exact: insider}}}",
        "CanaryMetric" => "{name: request-success-rate, thresholdRange: {min: 99}}",
        "CanaryWebhook" => "{name: load-test, url: \"http://flagger-loadtester.flagger/\"}",
        "ContainerPort" => "{name: metrics, number: 9090}",
        "Cron" => "{schedule: \"*/10 * * * *\"}",
        "Capabilities" => "{drop: [ALL]}",
        "ConfigMapKey" => "{name: settings, key: level}",
        "ConfigMapSource" => "{name: settings}",
        "Database" => "{engine: postgres, version: \"16\"}",
        "DefaultsEntry" => "{match: \"*\", scaling: {replicas: 3}}",
        "Disruption" => "{maxUnavailable: 1}",
        "EnvVar" => "{name: LOG_LEVEL, value: info}",
        "ExtraContainer" => "{name: proxy, image: \"ghcr.io/acme/proxy:1.2\"}",
        "GateDefinition" => "{bake: 10m}",
        "Grpc" => "{port: grpc}",
        "Horizontal" => "{minReplicas: 2, maxReplicas: 10, cpu: {averageUtilization: 75}}",
        "HeaderMatch" => "{exact: insider}",
        "HttpGate" => "{url: \"https://shop.example.com/health\"}",
        "Iam" => "{roles: [roles/pubsub.publisher]}",
        "Image" => "{registry: ghcr.io, repository: acme/app}",
        "Ingress" => "{hostPrefix: my-app}",
        "IngressPath" => "{path: /, servicePort: 8000}",
        "Keda" => {
            "{maxReplicas: 10, triggers: [{type: rabbitmq, metadata: {queueName: jobs, value: \"20\"}}]}"
        }
        "KedaTrigger" => "{type: rabbitmq, metadata: {queueName: jobs, value: \"20\"}}",
        "Latency" => "{milliseconds: 300, objective: 99}",
        "LifecycleHook" => "{sleepSeconds: 10}",
        "Lifecycle" => "{terminationGracePeriodSeconds: 40}",
        "Link" => "{name: Runbook, url: \"https://example.com/runbook\"}",
        "MetricsEndpoint" => "{port: metrics}",
        "Mount" => "{name: data}",
        "NoAlertGate" => "{matchers: ['severity=\"critical\"']}",
        "NodeAffinity" => "{key: node.kubernetes.io/instance-type, values: [c3-standard-8]}",
        "Notify" => "{success: true}",
        "Placement" => "{labels: {usage: production}, replicas: 5}",
        "Port" => "{name: http, number: 8000}",
        "Process" => "{args: [work]}",
        "Probe" => "{path: /healthz}",
        "Probes" => "{readiness: {path: /healthz}}",
        "PromQlGate" => "{query: \"vector(0)\", at_most: \"0.01\"}",
        "Redis" => "{version: \"7.2\"}",
        "ReleaseJob" => "{name: migrate, command: [/bin/app, migrate]}",
        "ObjectPatch" => {
            "{kind: Deployment, merge: {metadata: {annotations: {example.com/team: devx}}}}"
        }
        "PatchOperation" => "{op: add, path: /spec/minReadySeconds, value: 10}",
        "Removal" => "{kind: PersistentVolumeClaim, name: data}",
        "Resources" => "{requests: {cpu: 100m, memory: 256Mi}}",
        "RolloutDefinition" => "{steps: [{targets: [\"prod-*\"]}]}",
        "Scaling" => "{replicas: 3}",
        "Scheduling" => "{nodeSelector: {kubernetes.io/arch: arm64}}",
        "Secret" => "{name: db-credentials}",
        "SecretKey" => "{name: db-credentials, key: password}",
        "Section" => "{scaling: {replicas: 3}}",
        "Security" => "{runAsUser: 1000}",
        "Service" => "{ports: [{name: http, number: 8000}]}",
        "Slo" => "{availability: 99.9}",
        "Spread" => "{zones: preferred, nodes: preferred}",
        "StepDefinition" => "{targets: [\"prod-*\"], parallel: 2}",
        "ThresholdRange" => "{min: 99}",
        "Toleration" => "{key: spot, effect: NoSchedule}",
        "Traffic" => "{http: [{targets: [{version: blue, weight: 100}]}]}",
        "TrafficMatch" => "{prefix: /web}",
        "TrafficRule" => "{match: [{prefix: /web}], targets: [{version: blue, weight: 100}]}",
        "Utilization" => "{averageUtilization: 75}",
        "Vault" => "{paths: [devx/shared/*]}",
        "Version" => "{name: blue, tag: 1.2.3, weight: 100}",
        "Volume" => "{name: data, mountPath: /data}",
        "WeightedTarget" => "{version: blue, weight: 100}",
        "Window" => "{days: mon-fri, from: \"09:00\", to: \"17:00\"}",
        _ => return None,
    })
}

/// Finds an example for a key whose type alone says little.
pub(super) fn of_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "alerts" => "{memoryNearLimit: {threshold: 0.9}}",
        "annotations" | "labels" => "{team: devx}",
        "args" => "[--port=8000]",
        "command" => "[/bin/app, serve]",
        "cpu" => "100m",
        "defaults" => "[{match: \"*\", scaling: {replicas: 3}}]",
        "deploy" => "{prod: {}}",
        "files" => "{settings.yaml: \"a: 1\"}",
        "host" => "app.example.com",
        "hostPrefix" => "my-app",
        "memory" => "256Mi",
        "mountPath" => "/data",
        "objective" => "99",
        "repository" => "acme/app",
        "rollouts" => "{production: {steps: [{targets: [\"prod-*\"]}]}}",
        "schedule" => "\"*/10 * * * *\"",
        "size" | "storage" => "10Gi",
        "slack" => "\"#squad\"",
        _ => return None,
    })
}

/// Finds the other keys that an element must have beside that key, as one line.
pub(super) fn required_siblings(type_name: &str, key: &str) -> Option<&'static str> {
    match type_name {
        "EnvVar" if key != "name" => Some("name: LOG_LEVEL"),
        "Version" if key != "name" => Some("name: blue"),
        "WeightedTarget" if key != "version" => Some("version: blue"),
        "Volume" if key == "mountPath" => Some("name: data"),
        "Volume" if key != "name" => Some("name: data, mountPath: /data"),
        "Port" if key != "name" => Some("name: http"),
        "ExtraContainer" if key != "name" => Some("name: proxy"),
        "Mount" if key != "name" => Some("name: data"),
        "ReleaseJob" if key != "name" => Some("name: migrate"),
        "KedaTrigger" if key != "type" => Some("type: rabbitmq"),
        "ContainerPort" if key == "name" => Some("number: 9090"),
        "ContainerPort" if key != "number" => Some("name: metrics, number: 9090"),
        "ContainerPort" => Some("name: metrics"),
        "Secret" if key != "name" => Some("name: db-credentials"),
        "Ingress" if !key.starts_with("host") => Some("hostPrefix: my-app"),
        _ => None,
    }
}

/// Finds the right place of a key that exists in several places, or that the format calls otherwise: the whole, with
/// `$` for the value.
pub(super) fn preferred_spelling(key: &str, text: Option<&str>) -> Option<String> {
    let digits = |text: &&str| text.bytes().all(|b| b.is_ascii_digit());
    let number = text.filter(digits);
    Some(match key {
        "cpu" => format!("resources: {{requests: {{cpu: {}}}}}", amount(text, "cpu")?),
        "memory" => {
            // A number alone would be bytes.
            let amount_text = text.filter(|text| !digits(text));
            format!("resources: {{requests: {{memory: {}}}}}", amount(amount_text, "memory")?)
        }
        "requests" | "limits" => format!("resources: {{{key}: {{cpu: 100m, memory: 256Mi}}}}"),
        "port" => {
            format!("service: [{{ports: [{{name: http, number: {}}}]}}]", number.unwrap_or("8000"))
        }
        _ => return None,
    })
}

fn amount(text: Option<&str>, key: &str) -> Option<String> {
    let is_amount = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.len() <= 12
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
    };
    text.filter(is_amount).map(str::to_owned).or_else(|| of_key(key).map(str::to_owned))
}

/// Writes a map in the place of a single value, with that value in it, by the type's name.
pub(super) fn from_text(type_name: &str, text: &str) -> Option<String> {
    let value = format_flow_text("", text)?;
    let is_number = text.parse::<u32>().is_ok();
    let is_yes = matches!(text, "true" | "yes" | "on");
    Some(match type_name {
        "Autoscaling" | "Horizontal" if is_number => {
            let inner = format!("{{maxReplicas: {text}, cpu: {{averageUtilization: 75}}}}");
            if type_name == "Horizontal" { inner } else { format!("{{horizontal: {inner}}}") }
        }
        "Cron" if text.contains(' ') || text.starts_with('@') => {
            format!("{{schedule: \"{}\"}}", text.replace(['"', '\\'], ""))
        }
        "Database" if matches!(text, "postgres" | "mysql") => format!("{{engine: {text}}}"),
        "Disruption" if is_number => format!("{{maxUnavailable: {text}}}"),
        "EnvVar" => {
            let name = text.split(['=', ':', ' ']).next().filter(|name| !name.is_empty())?;
            format!("{{name: {}, value: {ELLIPSIS}}}", format_flow_text("", name)?)
        }
        "Grpc" | "Redis" if is_yes => "{}".to_owned(),
        "Grpc" => format!("{{port: {value}}}"),
        "Image" => {
            let name = text.split('@').next()?;
            // A colon before the last slash is a registry's port.
            let name = match name.rsplit_once(':') {
                Some((name, tag)) if !tag.contains('/') => name,
                _ => name,
            };
            format!("{{repository: {}}}", format_flow_text("", name)?)
        }
        "Ingress" if text.contains('.') => format!("{{host: {value}}}"),
        "Ingress" if !text.contains('/') => format!("{{hostPrefix: {value}}}"),
        "Port" | "ContainerPort" if is_number => format!("{{name: http, number: {text}}}"),
        "Port" if text.starts_with(|c: char| c.is_ascii_lowercase()) => {
            format!("{{name: {value}, number: 8000}}")
        }
        "IngressPath" | "Probe" if text.starts_with('/') => format!("{{path: {value}}}"),
        "Probes" if text.starts_with('/') => {
            format!("{{liveness: {{path: {value}}}, readiness: {{path: {value}}}}}")
        }
        "Redis" if text.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{{version: \"{}\"}}", text.replace(['"', '\\'], ""))
        }
        "Scaling" if is_number => format!("{{replicas: {text}}}"),
        "Secret" => format!("{{name: {value}}}"),
        "Service" if is_number => format!("{{ports: [{{name: http, number: {text}}}]}}"),
        "Slo" => format!("{{availability: {}}}", decimal(text)?),
        "Utilization" => {
            let percent = text.trim_end_matches('%');
            format!("{{averageUtilization: {}}}", percent.parse::<u32>().ok()?)
        }
        "Volume" if text.starts_with('/') => format!("{{name: data, mountPath: {value}}}"),
        "Volume" => format!("{{name: {value}, mountPath: /data}}"),
        _ => return None,
    })
}

/// Writes an element of a list, from a key and its value of a map that was written in place of the list.
pub(super) fn from_entry(type_name: &str, key: &str, node: &Node) -> Option<String> {
    let name = format_flow_text("", &quote_key(key))?;
    let value = |under: &str| {
        let text = node.as_text().filter(|_| !is_secret_name(key));
        let text = text.and_then(|text| format_flow_text(under, text));
        text.unwrap_or_else(|| ELLIPSIS.to_owned())
    };
    Some(match type_name {
        "EnvVar" => format!("{{name: {name}, value: {ELLIPSIS}}}"),
        "Link" => format!("{{name: {name}, url: {}}}", value("url")),
        "Port" => format!("{{name: {name}, number: {}}}", value("number")),
        "Secret" => format!("{{name: {name}}}"),
        "Service" => {
            format!("{{ports: [{{name: {name}, number: {}}}]}}", value("number"))
        }
        "Volume" => format!("{{name: {name}, mountPath: {}}}", value("mountPath")),
        _ => return None,
    })
}

/// Reads a number with a comma, a percent sign or quotes, as it would be written.
pub(super) fn decimal(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('%').trim_end().replace(',', ".");
    let is_digit = |c: char| c.is_ascii_digit();
    let (integer_part, part) = text.split_once('.').unwrap_or((&text, "0"));
    let is_legal = [integer_part, part]
        .iter()
        .all(|digits| !digits.is_empty() && digits.chars().all(is_digit));
    (is_legal && text.len() <= 12).then_some(text)
}

/// Splits the words of a command into a list, unless a shell would have had to take it apart.
pub(super) fn words(key: &str, text: &str) -> Option<String> {
    if text.contains(['"', '\'', '\\', '$', '`', '|', '&', ';', '<', '>']) {
        return None;
    }
    format_flow_text(key, text)?;
    let words = text.split_whitespace().map(|word| format_flow_text(key, word));
    let words: Vec<String> = words.collect::<Option<_>>()?;
    Some(format!("[{}]", words.join(", ")))
}

/// Keys whose values are no secrets, and are shown again.
const HARMLESS: [&str; 31] = [
    "averageUtilization",
    "cpu",
    "engine",
    "host",
    "hostPrefix",
    "match",
    "maxReplicas",
    "maxSurge",
    "maxUnavailable",
    "memory",
    "minAvailable",
    "minReplicas",
    "mountPath",
    "name",
    "namespace",
    "number",
    "owner",
    "path",
    "port",
    "protocol",
    "public",
    "registry",
    "replicas",
    "repository",
    "schedule",
    "service",
    "servicePort",
    "size",
    "slack",
    "slug",
    "targetPort",
];

/// Writes a value on one line as it was written; `None` where it is long, or where a part of it may
/// not be shown.
pub(super) fn flow(key: &str, node: &Node) -> Option<String> {
    let text = match &node.value {
        Value::Null => return None,
        Value::Scalar(scalar) => {
            let text =
                if HARMLESS.contains(&key) { format_flow_text(key, &scalar.text) } else { None };
            text.unwrap_or_else(|| ELLIPSIS.to_owned())
        }
        Value::List(list) => {
            let items: Option<Vec<String>> = list.iter().map(|item| flow(key, item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            // Of a variable that is a secret by its name, the value is another key's.
            let pairs = map.iter().map(|(key, entry)| {
                Some(format!("{}: {}", format_flow_text("", key)?, flow(key, &entry.node)?))
            });
            format!("{{{}}}", pairs.collect::<Option<Vec<String>>>()?.join(", "))
        }
    };
    (text.chars().count() <= LONGEST).then_some(text)
}

/// Formats a text for a flow map, in quotes where it needs them; nothing where it may not be shown.
pub(super) fn format_flow_text(key: &str, text: &str) -> Option<String> {
    let is_hidden = key == "value"
        || is_secret_name(key)
        || text.is_empty()
        || text.chars().count() > LONGEST
        || text.chars().any(char::is_control)
        || mask_secrets(text) != text;
    if is_hidden {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-=".contains(c);
    let first = |c: char| c.is_ascii_alphanumeric() || "/_.".contains(c);
    let inner = |c: char| plain(c) || c == '*';
    let begins = text.starts_with(first) || text.starts_with("--");
    Some(if begins && text.chars().all(inner) {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    })
}

/// Writes a text in quotes; `None` where it may not be shown.
pub(super) fn quote(key: &str, text: &str) -> Option<String> {
    format_flow_text(key, text)?;
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waml::Waml;

    const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

    #[test]
    fn every_type_has_an_example_that_is_right() {
        let schema = schemars::schema_for!(crate::waml::document::Document);
        let types = schema.as_value()["$defs"].as_object().unwrap();
        for (name, definition) in types {
            if definition.get("properties").is_none() {
                continue;
            }
            let example = of_type(name).unwrap_or_else(|| panic!("no example of {name}"));
            let small = schemars::Schema::try_from(serde_json::json!({
                "$ref": format!("#/$defs/{name}"),
                "$defs": types,
            }))
            .unwrap();
            let reader =
                crate::waml::checked_reader::Reader::<serde_json::Value>::from_schema(&small);
            let mut violations = Vec::new();
            let budget = crate::waml::yaml::Budget::default();
            let node = crate::waml::yaml::parse("f", example.as_bytes(), &budget, &mut violations);
            let path = crate::waml::node::Path::root();
            reader.check(&mut node.unwrap(), &path, &mut violations);
            assert_eq!(violations, [], "{name}: {example}");
        }
    }

    #[test]
    fn keys_have_examples_that_are_right() {
        for section in [
            "labels: {team: devx}",
            "command: [/bin/app, serve]\n    args: [--port=8000]",
            "volumes: [{name: data, mountPath: /data, size: 10Gi}]",
        ] {
            for key in ["labels", "command", "args", "size", "mountPath"] {
                let line = format!("{key}: {}", of_key(key).unwrap());
                assert!(!section.contains(&format!("{key}:")) || section.contains(&line), "{key}");
            }
            let text = format!("{HEAD}deploy:\n  t:\n    {section}\n");
            let waml = Waml::parse("f", text.as_bytes()).unwrap();
            assert_eq!(waml.violations, [], "{section}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        assert_eq!(format_flow_text("value", "a"), None);
        assert_eq!(format_flow_text("password", "a"), None);
        assert_eq!(format_flow_text("", "ghp_0123456789abcdefghijABCDEFGHIJ012345"), None);
        assert_eq!(from_text("EnvVar", "DB=hunter2").as_deref(), Some("{name: DB, value: …}"));
        assert_eq!(format_flow_text("", "a, b").as_deref(), Some("\"a, b\""));
    }
}
