//! The list of all rules, with the subject, source, weight and stage of each. `docs/validators.md` and `the-deployer
//! validators` are made from it.

use super::{
    RenderedPlan, RuleReport, Subject, access, alerts, autoscaling, canary, collision, containers,
    cron, disks, env, hosts, iam, ignored, image, ingress, jobs, kubernetes, labels, monitoring,
    names, parameters, patches, plaintext, pod_security, pods, ports, probes, processes, removal,
    rendered, resources, rollouts, routes, scaling, secrets, slo, stores, traffic, versions,
    volumes,
};

/// One rule: its stable name, its subject, and its check.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name, as in a violation.
    pub name: &'static str,
    /// The subject, in one sentence.
    pub about: &'static str,
    /// The source: a document, or a promise of the-deployer.
    pub source: &'static str,
    /// The weight of a violation.
    pub weight: Weight,
    pub(super) check: RuleCheck,
}

/// The weight of a rule's violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// A violation stops the deployment.
    Error,
    /// A violation is a warning.
    Warning,
    /// A violation is an error or a warning, by the case.
    Both,
}

/// The stage at which a rule runs, and so the data that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleStage {
    /// The reading of the file.
    Reading,
    /// The choice of the template.
    Choosing,
    /// The rule runs after the settings are complete.
    Settings,
    /// The rule runs after the lookups; a rule without a lookup is silent.
    Facts,
    /// The rule runs after rendering.
    Objects,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum RuleCheck {
    /// The violations come with the WAML.
    Reading,
    /// The violations come instead of a template.
    Choosing,
    Settings(fn(&Subject<'_>, &mut RuleReport<'_>)),
    Facts(fn(&Subject<'_>, &mut RuleReport<'_>)),
    Objects(fn(&RenderedPlan<'_>, &mut RuleReport<'_>)),
}

impl Rule {
    /// Returns the stage at which it runs.
    pub fn stage(&self) -> RuleStage {
        match self.check {
            RuleCheck::Reading => RuleStage::Reading,
            RuleCheck::Choosing => RuleStage::Choosing,
            RuleCheck::Settings(_) => RuleStage::Settings,
            RuleCheck::Facts(_) => RuleStage::Facts,
            RuleCheck::Objects(_) => RuleStage::Objects,
        }
    }
}

/// The table of rules: name, weight, stage and function; subject; source.
macro_rules! rules {
    ($($name:literal $weight:ident $when:ident $(($check:path))?; $about:literal; $source:literal;)*) => {
        &[$(Rule {
            name: $name,
            about: $about,
            source: $source,
            weight: Weight::$weight,
            check: RuleCheck::$when$(($check))?,
        }),*]
    };
}

/// Every rule, in the order in which they run.
pub const RULES: &[Rule] = rules! {
    "yaml" Error Reading;
        "The file is one YAML document within its limits, no key twice.";
        "YAML 1.2; limits of the-deployer";
    "schema" Error Reading;
        "Every value has the type that the schema gives it.";
        "the JSON Schema of the WAML";
    "unknown-key" Error Reading;
        "Every key is one that the schema knows.";
        "the JSON Schema of the WAML";
    "unique" Error Reading;
        "No list has two entries of the same name.";
        "how layers are merged: docs/waml.md";
    "apps" Error Reading;
        "Each file of a repository with several apps has a legal name, and is of an app of its own.";
        "several apps in one repository: docs/waml.md";
    "template" Error Choosing;
        "The template and its version exist.";
        "the set of templates";
    "target" Error Settings(access::target);
        "The target is under `deploy` and known to the configuration.";
        "the source document: an app is deployed only where its WAML says so";
    "names" Error Settings(names::check);
        "Names, and names made from them, are legal in Kubernetes.";
        r#"Kubernetes, "Object Names and IDs"; RFC 1123, RFC 1035, RFC 6335"#;
    "reserved" Error Settings(names::check_reserved);
        "The namespace is one for apps, neither Kubernetes' nor the platform's, and no name is.";
        r#"Kubernetes, "Namespaces"; the target's policy: `policies.namespaces` of the cluster"#;
    "labels" Error Settings(labels::check);
        "Labels and annotations are legal in Kubernetes, and none is one that the-deployer sets.";
        r#"Kubernetes, "Labels and Selectors" and "Annotations""#;
    "parameters" Error Settings(parameters::check);
        "Every parameter is one that the template declares, of the form that it asks for, and none that it needs is missing.";
        "the template's own `parameters.yaml`: docs/templates.md";
    "image" Error Settings(image::check);
        "The image has a name that a registry can have.";
        r#"OCI distribution specification, "Pulling manifests""#;
    "ports" Error Settings(ports::check);
        "Every port has a number, and no two of the app's ports clash.";
        "the source document: ports map from ingress to service to pod";
    "ingress" Error Settings(ingress::check);
        "Hosts and paths are legal, and every path leads to a port of a service.";
        "the source document: ports map from ingress to service to pod; RFC 1123, RFC 3986";
    "routes" Both Settings(routes::check);
        "Two addresses do not take each other's requests, and the target can route and cache as the WAML asks.";
        "what the target's platform can do: docs/platform.md";
    "probes" Both Settings(probes::check);
        "Probes use ports that the app has, and say in one way how they ask, with numbers that Kubernetes takes.";
        r#"Kubernetes, "Configure Liveness, Readiness and Startup Probes""#;
    "security" Both Settings(pods::security);
        "The rights of pods are ones that Kubernetes takes together, and go no further than their image needs.";
        r#"Kubernetes, "Pod Security Standards" and "Configure a Security Context""#;
    "lifecycle" Both Settings(pods::lifecycle);
        "What runs at the begin and the end of a container has one way, a port that the app has, and time left.";
        r#"Kubernetes, "Container Lifecycle Hooks" and "Termination of Pods""#;
    "scheduling" Error Settings(pods::scheduling);
        "Nodes are named by legal labels and taints.";
        r#"Kubernetes, "Assigning Pods to Nodes" and "Taints and Tolerations""#;
    "resources" Both Settings(resources::check);
        "Quantities are plausible, and requests are within limits.";
        r#"Kubernetes, "Resource Management for Pods and Containers""#;
    "scaling" Error Settings(scaling::check);
        "A rolling update can make progress.";
        r#"Kubernetes, "Deployments", rolling update"#;
    "autoscaling" Error Settings(autoscaling::check);
        "The autoscaler's numbers fit, and what it measures is requested.";
        r#"Kubernetes, "Horizontal Pod Autoscaling""#;
    "disruption" Error Settings(scaling::disruption);
        "Nodes can be drained without taking the app away, and can be drained at all, with the pods that the app has.";
        r#"Kubernetes, "Specifying a Disruption Budget for your Application""#;
    "env" Error Settings(env::check);
        "Environment variables have legal names and one source, and secrets legal keys.";
        r#"POSIX, "Environment Variables"; Kubernetes, "Secrets""#;
    "containers" Both Settings(containers::check);
        "Containers beside the app's own have legal names, images, ports and folders, each its own, and run where the cluster can run them; an image that moves is a warning.";
        r#"Kubernetes, "Init Containers" and "Sidecar Containers""#;
    "jobs" Error Settings(jobs::check);
        "Jobs before a release have legal names and something to run.";
        r#"Kubernetes, "Jobs"; Argo CD, "Sync Phases and Waves""#;
    "processes" Error Settings(processes::check);
        "Processes of one image have legal names, each its own, and something to run; each keeps the rules of pods by itself.";
        r#"The Twelve-Factor App, "Concurrency"; Kubernetes, "Deployments""#;
    "monitoring" Both Settings(monitoring::check);
        "The app's own metrics are at a port that Prometheus can ask, on a target that reads them.";
        r#"Prometheus operator, "API reference", PodMonitor and ServiceMonitor"#;
    "volumes" Both Settings(volumes::check);
        "Every volume has its own folder and is either a disk or files, and a disk is shared only if its access mode allows it; a disk larger than clouds offer is a warning.";
        r#"Kubernetes, "Volumes""#;
    "cron" Error Settings(cron::check);
        "Kubernetes accepts the schedule, some day matches it, and its time zone exists.";
        r#"Kubernetes, "CronJob""#;
    "grpc" Both Settings(ports::grpc);
        "gRPC is served at a port that the app has; an app that does not say which gets a warning.";
        "what measures it: docs/alerts.md";
    "slo" Both Settings(slo::check);
        "The objective's class exists, its numbers can be met and missed, and something measures it.";
        r#"the source document; The Site Reliability Workbook, chapter 5, "Alerting on SLOs""#;
    "alerts" Both Settings(alerts::check);
        "Alerts are default ones or have an expression, with plausible thresholds and durations.";
        "the source document; Prometheus, its language and durations";
    "vault" Both Settings(secrets::vault);
        "Every path in Vault is legal, and the app may read it.";
        "Vault, its policies; what the target shares: docs/platform.md";
    "delivery" Both Settings(secrets::delivery);
        "The target's way of delivering secrets to pods can do what the app needs.";
        "what the target's platform can do: docs/platform.md";
    "iam" Both Settings(iam::check);
        "Cloud roles are well formed, not too broad, and available on the target.";
        "Google Cloud and AWS, their names of roles; docs/platform.md";
    "database" Both Settings(stores::database);
        "A database has a version, a size and a tier that exist, on a target that can create one.";
        "Cloud SQL, its settings; docs/platform.md";
    "redis" Both Settings(stores::redis);
        "A Redis has a version and a size that exist, on a target that can create one.";
        "Memorystore, its settings; docs/platform.md";
    "canary" Both Settings(canary::check);
        "A canary takes steps that fit, at intervals that can be measured, measures what its target can measure, is done within a day, and is of an app that Flagger can take over.";
        "Flagger, \"Deployment Strategies\", \"Metrics Analysis\", \"Webhooks\"";
    "versions" Error Settings(traffic::versions);
        "Live versions have legal names, each its own, and weights of 100 together; not beside a canary.";
        "Traefik, \"Weighted Round Robin\"; RFC 1123";
    "placement" Both Settings(versions::placement);
        "Every version is on clusters that there are, with pods that can run there; a version without a cluster or a number without effect is a warning.";
        "KubeVela, \"Multi-Version, Multi-Cluster Application Deployment\"; docs/traffic.md";
    "traffic" Both Settings(versions::traffic);
        "Rules of traffic match what a route can match, and share requests between versions that have pods: 100 together, and where an `Ingress` routes, nothing by weight and no path twice.";
        "KubeVela, \"Multi-Version, Multi-Cluster Application Deployment\"; Gateway API, \"HTTPRoute\"; docs/traffic.md";
    "rollouts" Both Settings(rollouts::check);
        "A rollout has steps with targets of the app, each once, and gates with what they ask and its bound; one that accepts every failure is a warning.";
        "a promise of the-deployer: a rollout's sequence is fixed and shown before anything happens";
    "ignored" Warning Settings(ignored::check);
        "Every setting has an effect: no value is only a comment, every `match` has a target, and no setting is overridden on every target or made useless by others.";
        "a promise of the-deployer: no setting is ignored silently";
    "unused" Warning Settings(ignored::check_unused);
        "The template uses every part that the WAML sets.";
        "a promise of the-deployer: no setting is ignored silently";
    "hosts" Both Facts(hosts::check);
        "No other app in the cluster has the host with the same path, and none of another owner's a longer or shorter path of the host; one of the same owner's is a warning.";
        "the source document: no other ingress already has the same host";
    "secrets" Both Facts(secrets::check);
        "Secrets that the app refers to exist, and have the keys that it names; one that is optional is a warning.";
        "the source document: referenced secrets exist";
    "image-tag" Error Facts(image::tags);
        "The image tag exists in its registry.";
        "OCI distribution specification, \"Pulling manifests\"";
    "branch" Error Facts(access::branch);
        "The commit is on a branch that the target takes.";
        "the source document: feature branches are not deployed to production";
    "owner" Error Facts(access::owner);
        "The app and its namespace belong to the repository that deploys.";
        "a promise of the-deployer: nobody takes over another team's app by its name";
    "locks" Error Facts(access::locks);
        "No lock stops the deployment.";
        "whoever placed it: `bart lock`";
    "deployer" Error Facts(access::deployer);
        "The person who deploys is in one of the teams that the target requires.";
        "the target's policy: `policies.deploy_teams` of the cluster";
    "hold" Error Facts(access::hold);
        "Automation does not deploy over a rollback, and nobody deploys again the release that was rolled back.";
        "the person who rolled back: `bart rollback`, `bart hold`; `policies.holds` of the cluster";
    "windows" Error Facts(access::windows);
        "The target is open: the windows of its policy allow a deployment now.";
        "the operators of the target: `policies.windows`";
    "patches" Error Objects(patches::check);
        "Every patch hits an object of a kind that may be patched, can be applied, and changes nothing that others rely on.";
        r#"a promise of the-deployer: what is forbidden stays forbidden; RFC 6902, "JavaScript Object Notation (JSON) Patch""#;
    "manifests" Error Objects(patches::check_files);
        "Every extra file is there, within its limits, and has only objects of kinds that the target and the template allow, in the app's namespace, without keys by which others know objects.";
        "a promise of the-deployer: what is forbidden stays forbidden; the target's `platform.manifests`";
    "rendered" Error Objects(rendered::check);
        "Rendered objects are well formed and in the app's namespace, and none is rendered twice.";
        r#"Kubernetes, "Objects In Kubernetes"; a promise of the-deployer: an app stays in its namespace"#;
    "kubernetes" Error Objects(kubernetes::check);
        "Rendered objects of Kubernetes' own kinds have only fields that the cluster's version of it knows, all that it needs, each of its type.";
        "the OpenAPI of Kubernetes, 1.25 to 1.37; the cluster's `version`, or else the newest";
    "pod-security" Error Objects(pod_security::check);
        "Pods keep the Pod Security level that their namespace enforces.";
        r#"Kubernetes, "Pod Security Standards", 1.25 to 1.37; the cluster's `version` and `platform.pod_security`"#;
    "plaintext" Both Objects(plaintext::check);
        "No rendered object holds a secret in plain text; a text that is perhaps no secret is a warning.";
        "the token formats of their issuers; a promise of the-deployer: secrets never stand in git";
    "stateful" Both Objects(removal::stateful);
        "No object that keeps data is removed unless the section's `removes` says so; an entry that removes nothing is a warning.";
        "a promise of the-deployer: data is never lost by a side effect";
    "replicas" Both Objects(scaling::replicas);
        "A deployment that hands the number of pods of a live workload over to an autoscaler says so, and keeps the number; where the number cannot be read, nothing is deployed.";
        r#"Kubernetes, "Horizontal Pod Autoscaling", migrating to it"#;
    "handover" Both Objects(canary::handover::check);
        "An app that is live changes from plain to a canary and back by a deployment with `canary.handover`, so that it always has a Service with pods behind it, and nothing is left behind.";
        "a promise of the-deployer: a change of settings takes no app away";
    "collision" Both Objects(collision::check);
        "No object, and no Secret that is created from one, has the kind and name of one of another app in the namespace; one that both have already is a warning. No Secret is created twice.";
        "a promise of the-deployer: nobody takes over another team's app by its name";
    "disks" Both Objects(disks::check);
        "A disk that is live is not made smaller, and keeps its storage class, also where it was created without one, and its access modes.";
        r#"Kubernetes, "Persistent Volumes": a claim that is there only grows"#;
    "removal" Both Objects(removal::check_count);
        "A deployment that removes many objects (five, and more than half of what is live, or as the target's policy says) is stopped, unless the section's `removes` names them.";
        "a promise of the-deployer: data is never lost by a side effect; the target's policy: `policies.removals`";
};
