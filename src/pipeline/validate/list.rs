//! The list of all rules: what each checks, where it comes from, how much it weighs, and when it
//! runs. `docs/validators.md` and `the-deployer validators` are made from it.

use super::{
    Made, Report, Subject, alerts, autoscaling, branch, canary, collision, cron, database,
    delivery, deployer, disks, disruption, env, grpc, hold, hosts, iam, ignored, image, image_tag,
    ingress, kubernetes, labels, locks, names, owner, plaintext, ports, probes, redis, removal,
    rendered, replicas, reserved, resources, routes, scaling, secrets, slo, stateful, target,
    unused, vault, versions, volumes, windows,
};

/// One rule: its stable name, what it checks, and the check.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// As it stands in a violation.
    pub name: &'static str,
    /// What it checks, in one sentence.
    pub about: &'static str,
    /// Where it comes from: whose document, or whose promise.
    pub source: &'static str,
    /// What a violation does.
    pub weight: Weight,
    pub(super) check: Check,
}

/// What a rule's violations do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// They stop the deployment.
    Error,
    /// They are shown.
    Warning,
    /// It depends; the rule says on what.
    Both,
}

/// When a rule runs, and so what it can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Where the file is read.
    Reading,
    /// Where the template is chosen.
    Choosing,
    /// On the complete settings.
    Settings,
    /// On the complete settings and what is known of the world; silent where nobody was asked.
    Facts,
    /// On the rendered objects.
    Objects,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    /// The violations come with the WAML.
    Reading,
    /// The violations come instead of a template.
    Choosing,
    Settings(fn(&Subject<'_>, &mut Report<'_>)),
    Facts(fn(&Subject<'_>, &mut Report<'_>)),
    Objects(fn(&Made<'_>, &mut Report<'_>)),
}

impl Rule {
    /// When it runs.
    pub fn when(&self) -> When {
        match self.check {
            Check::Reading => When::Reading,
            Check::Choosing => When::Choosing,
            Check::Settings(_) => When::Settings,
            Check::Facts(_) => When::Facts,
            Check::Objects(_) => When::Objects,
        }
    }
}

/// Every rule, in the order in which they run.
pub const RULES: &[Rule] = &[
    Rule {
        name: "yaml",
        about: "The file is one YAML document within its limits, no key twice.",
        source: "YAML 1.2; limits of our own",
        weight: Weight::Error,
        check: Check::Reading,
    },
    Rule {
        name: "schema",
        about: "Every value has the type that the schema gives it.",
        source: "the JSON Schema of the WAML",
        weight: Weight::Error,
        check: Check::Reading,
    },
    Rule {
        name: "unknown-key",
        about: "Every key is one that the schema knows.",
        source: "the JSON Schema of the WAML",
        weight: Weight::Error,
        check: Check::Reading,
    },
    Rule {
        name: "unique",
        about: "No list has two things of the same name.",
        source: "how layers are merged: docs/waml.md",
        weight: Weight::Error,
        check: Check::Reading,
    },
    Rule {
        name: "template",
        about: "The template and its version exist.",
        source: "the set of templates",
        weight: Weight::Error,
        check: Check::Choosing,
    },
    Rule {
        name: "target",
        about: "The target is under `deploy` and known to the configuration.",
        source: "the source document: an app is deployed only where its WAML says so",
        weight: Weight::Error,
        check: Check::Settings(target::check),
    },
    Rule {
        name: "names",
        about: "Names, and names made from them, are legal in Kubernetes.",
        source: r#"Kubernetes, "Object Names and IDs"; RFC 1123, RFC 1035, RFC 6335"#,
        weight: Weight::Error,
        check: Check::Settings(names::check),
    },
    Rule {
        name: "reserved",
        about: "The namespace is one for apps, neither Kubernetes' nor the platform's, and no name is.",
        source: r#"Kubernetes, "Namespaces"; the target's policy: `policies.namespaces` of the cluster"#,
        weight: Weight::Error,
        check: Check::Settings(reserved::check),
    },
    Rule {
        name: "labels",
        about: "Labels and annotations are legal in Kubernetes, and not ours.",
        source: r#"Kubernetes, "Labels and Selectors" and "Annotations""#,
        weight: Weight::Error,
        check: Check::Settings(labels::check),
    },
    Rule {
        name: "image",
        about: "The image has a name that a registry can have.",
        source: r#"OCI distribution specification, "Pulling manifests""#,
        weight: Weight::Error,
        check: Check::Settings(image::check),
    },
    Rule {
        name: "ports",
        about: "Every port has a number, and no two of the app's ports clash.",
        source: "the source document: ports map from ingress to service to pod",
        weight: Weight::Error,
        check: Check::Settings(ports::check),
    },
    Rule {
        name: "ingress",
        about: "Hosts and paths are legal, and every path leads to a port of a service.",
        source: "the source document: ports map from ingress to service to pod; RFC 1123, RFC 3986",
        weight: Weight::Error,
        check: Check::Settings(ingress::check),
    },
    Rule {
        name: "routes",
        about: "Two addresses do not take each other's requests, and the target can route and cache as is asked.",
        source: "what the target's platform can do: docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(routes::check),
    },
    Rule {
        name: "probes",
        about: "Probes use ports that the app has, and say in one way how they ask, with numbers that Kubernetes takes.",
        source: r#"Kubernetes, "Configure Liveness, Readiness and Startup Probes""#,
        weight: Weight::Both,
        check: Check::Settings(probes::check),
    },
    Rule {
        name: "resources",
        about: "Quantities are such as somebody means, and requests are within limits.",
        source: r#"Kubernetes, "Resource Management for Pods and Containers""#,
        weight: Weight::Both,
        check: Check::Settings(resources::check),
    },
    Rule {
        name: "scaling",
        about: "A rolling update can make progress.",
        source: r#"Kubernetes, "Deployments", rolling update"#,
        weight: Weight::Error,
        check: Check::Settings(scaling::check),
    },
    Rule {
        name: "autoscaling",
        about: "The autoscaler's numbers fit, and what it measures is requested.",
        source: r#"Kubernetes, "Horizontal Pod Autoscaling""#,
        weight: Weight::Error,
        check: Check::Settings(autoscaling::check),
    },
    Rule {
        name: "disruption",
        about: "Nodes can be drained without taking the app away, and can be drained at all, with the pods that the app has.",
        source: r#"Kubernetes, "Specifying a Disruption Budget for your Application""#,
        weight: Weight::Error,
        check: Check::Settings(disruption::check),
    },
    Rule {
        name: "env",
        about: "Environment variables have legal names and one source, and secrets legal keys.",
        source: r#"POSIX, "Environment Variables"; Kubernetes, "Secrets""#,
        weight: Weight::Error,
        check: Check::Settings(env::check),
    },
    Rule {
        name: "volumes",
        about: "Volumes have a folder of their own, are one thing, and disks are shared only if they can be; one larger than clouds have is a warning.",
        source: r#"Kubernetes, "Volumes""#,
        weight: Weight::Both,
        check: Check::Settings(volumes::check),
    },
    Rule {
        name: "cron",
        about: "The schedule is one that Kubernetes takes and that comes, and its time zone exists.",
        source: r#"Kubernetes, "CronJob""#,
        weight: Weight::Error,
        check: Check::Settings(cron::check),
    },
    Rule {
        name: "grpc",
        about: "gRPC is served at a port that the app has; where it is not known which, that is a warning.",
        source: "what measures it: docs/alerts.md",
        weight: Weight::Both,
        check: Check::Settings(grpc::check),
    },
    Rule {
        name: "slo",
        about: "The objective's class is known, its numbers can be kept and missed, and something measures it.",
        source: r#"the source document; The Site Reliability Workbook, chapter 5, "Alerting on SLOs""#,
        weight: Weight::Both,
        check: Check::Settings(slo::check),
    },
    Rule {
        name: "alerts",
        about: "Alerts are known or have an expression, with sane thresholds and durations.",
        source: "the source document; Prometheus, its language and durations",
        weight: Weight::Both,
        check: Check::Settings(alerts::check),
    },
    Rule {
        name: "vault",
        about: "What is asked for in Vault has a legal path, and is the app's to read.",
        source: "Vault, its policies; what the target shares: docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(vault::check),
    },
    Rule {
        name: "delivery",
        about: "How secrets reach pods on the target can do what the app wants of it.",
        source: "what the target's platform can do: docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(delivery::check),
    },
    Rule {
        name: "iam",
        about: "Rights in the cloud are well formed, not over everything, and to be had on the target.",
        source: "Google Cloud and AWS, their names of roles; docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(iam::check),
    },
    Rule {
        name: "database",
        about: "A database has a version, a size and a tier that exist, on a target that has databases.",
        source: "Cloud SQL, its settings; docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(database::check),
    },
    Rule {
        name: "redis",
        about: "A Redis has a version and a size that exist, on a target that has any.",
        source: "Memorystore, its settings; docs/platform.md",
        weight: Weight::Both,
        check: Check::Settings(redis::check),
    },
    Rule {
        name: "canary",
        about: "A canary takes steps that fit, at intervals that can be measured, and is done within a day.",
        source: "Flagger, \"Deployment Strategies\"",
        weight: Weight::Error,
        check: Check::Settings(canary::check),
    },
    Rule {
        name: "versions",
        about: "Live versions have legal names, each its own, and weights of 100 together; not beside a canary.",
        source: "Traefik, \"Weighted Round Robin\"; RFC 1123",
        weight: Weight::Error,
        check: Check::Settings(versions::check),
    },
    Rule {
        name: "ignored",
        about: "Nothing that is written does nothing: no value that is only a comment, no `match` without a target, no setting that every target has otherwise or that others make useless.",
        source: "a promise of ours: nothing is ignored in silence",
        weight: Weight::Warning,
        check: Check::Settings(ignored::check),
    },
    Rule {
        name: "unused",
        about: "What the WAML sets is used by the template.",
        source: "a promise of ours: nothing is ignored in silence",
        weight: Weight::Warning,
        check: Check::Settings(unused::check),
    },
    Rule {
        name: "hosts",
        about: "No other app in the cluster has the host with the same path, and none of another owner's a longer or shorter path of the host; one of the same owner's is a warning.",
        source: "the source document: no other ingress already has the same host",
        weight: Weight::Both,
        check: Check::Facts(hosts::check),
    },
    Rule {
        name: "secrets",
        about: "Secrets that the app refers to exist, and have the keys that it names; one that is optional is a warning.",
        source: "the source document: referenced secrets exist",
        weight: Weight::Both,
        check: Check::Facts(secrets::check),
    },
    Rule {
        name: "image-tag",
        about: "The image tag exists in its registry.",
        source: "OCI distribution specification, \"Pulling manifests\"",
        weight: Weight::Error,
        check: Check::Facts(image_tag::check),
    },
    Rule {
        name: "branch",
        about: "The commit is on a branch that the target takes.",
        source: "the source document: feature branches are not deployed to production",
        weight: Weight::Error,
        check: Check::Facts(branch::check),
    },
    Rule {
        name: "owner",
        about: "The app and its namespace belong to the repository that deploys.",
        source: "a promise of ours: nobody takes over another team's app by its name",
        weight: Weight::Error,
        check: Check::Facts(owner::check),
    },
    Rule {
        name: "locks",
        about: "No lock stops the deployment.",
        source: "whoever placed it: `bart lock`",
        weight: Weight::Error,
        check: Check::Facts(locks::check),
    },
    Rule {
        name: "deployer",
        about: "Who deploys is in one of the teams that the target asks for.",
        source: "the target's policy: `policies.deploy_teams` of the cluster",
        weight: Weight::Error,
        check: Check::Facts(deployer::check),
    },
    Rule {
        name: "hold",
        about: "Automation does not deploy over a rollback, nor anybody again what was rolled back from.",
        source: "the person who rolled back: `bart rollback`, `bart hold`; `policies.holds` of the cluster",
        weight: Weight::Error,
        check: Check::Facts(hold::check),
    },
    Rule {
        name: "windows",
        about: "The target is open: the windows of its policy allow a deployment now.",
        source: "the operators of the target: `policies.windows`",
        weight: Weight::Error,
        check: Check::Facts(windows::check),
    },
    Rule {
        name: "rendered",
        about: "Rendered objects are well formed, in the app's namespace, and none is there twice.",
        source: r#"Kubernetes, "Objects In Kubernetes"; a promise of ours: an app stays in its namespace"#,
        weight: Weight::Error,
        check: Check::Objects(rendered::check),
    },
    Rule {
        name: "kubernetes",
        about: "Rendered objects of Kubernetes' own kinds have only fields that the cluster's version of it knows, all that it needs, each of its type.",
        source: "the OpenAPI of Kubernetes, 1.25 to 1.37; the cluster's `version`, or else the newest",
        weight: Weight::Error,
        check: Check::Objects(kubernetes::check),
    },
    Rule {
        name: "plaintext",
        about: "No rendered object holds a secret in plain text; what may be none is a warning.",
        source: "the token formats of those who issue them; a promise of ours: secrets never stand in git",
        weight: Weight::Both,
        check: Check::Objects(plaintext::check),
    },
    Rule {
        name: "stateful",
        about: "No object that keeps data is removed unless the section's `removes` says so; an entry that removes nothing is a warning.",
        source: "a promise of ours: data is never lost by a side effect",
        weight: Weight::Both,
        check: Check::Objects(stateful::check),
    },
    Rule {
        name: "replicas",
        about: "A deployment that hands the number of pods of a live workload over to an autoscaler says so, and keeps the number; where the number cannot be read, nothing is deployed.",
        source: r#"Kubernetes, "Horizontal Pod Autoscaling", migrating to it"#,
        weight: Weight::Both,
        check: Check::Objects(replicas::check),
    },
    Rule {
        name: "collision",
        about: "No object, and no Secret that is made of one, has the kind and name of one of another app in the namespace; one that both have already is a warning. No Secret is made twice.",
        source: "a promise of ours: nobody takes over another team's app by its name",
        weight: Weight::Both,
        check: Check::Objects(collision::check),
    },
    Rule {
        name: "disks",
        about: "A disk that is live is not made smaller, and keeps its storage class, also where it was made without one, and its access modes.",
        source: r#"Kubernetes, "Persistent Volumes": a claim that is there only grows"#,
        weight: Weight::Both,
        check: Check::Objects(disks::check),
    },
    Rule {
        name: "removal",
        about: "A deployment that removes many objects (five, and more than half of what is live, or as the target's policy says) is stopped, unless the section's `removes` names them.",
        source: "a promise of ours: data is never lost by a side effect; the target's policy: `policies.removals`",
        weight: Weight::Both,
        check: Check::Objects(removal::check),
    },
];
