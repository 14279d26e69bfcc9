//! A cluster that the service does not reach: an agent inside it reports, over a network that loses things, to services
//! that die and take over.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value as Json, json};
use the_deployer::agent::{AgentTimes, ClusterAgent, ReportClient, ReportTarget};
use the_deployer::cluster::connection::client::ClusterConnection;
use the_deployer::cluster::connection::settings::ClusterAccess;
use the_deployer::cluster::relay::sender::ReportLimits;
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::id::TargetName;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::api_server::{Fault, FaultRule, TOKEN};
use crate::harness::balancer::Balancer;
use crate::harness::deployer::Deployer;
use crate::harness::process::client;
use crate::progress::cluster::{
    Pods, TARGET, Watched, crashing_pod, pod_name, quick_limits, unpullable_pod,
};

const ALL: Pods = Pods { updated: 2, available: 2 };
const NONE: Pods = Pods { updated: 1, available: 0 };
/// The token of the agent in the cluster of the tests.
pub(super) const AGENT_TOKEN: &str = "of-the-agent-0123456789";
/// The token of the agent in another cluster.
const OTHER_TOKEN: &str = "of-another-agent-0123456789";

/// The service, a cluster, and the agent in it.
pub(super) struct Reported {
    pub(super) world: Watched,
    pub(super) balancer: Balancer,
    agent: Option<RunningAgent>,
    /// The agent sends the ends of logs, too.
    pub(super) sends_logs: bool,
    /// Callers may read logs through the agent.
    pub(super) serves_logs: bool,
}

struct RunningAgent {
    stop: CancellationToken,
    life: JoinHandle<()>,
}

impl Reported {
    /// On each database.
    fn on_both<'a>(story: impl AsyncFn(&mut Self) + 'a) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for deployer in Deployer::prepared_on_both().await {
                let mut reported = Self::start(deployer, "").await;
                story(&mut reported).await;
                Box::pin(reported.ends()).await;
            }
        })
    }

    pub(super) async fn start(deployer: Deployer, progress: &str) -> Self {
        let mut reported = Box::pin(Self::start_silent(deployer, progress)).await;
        reported.start_agent();
        reported
    }

    /// Without an agent.
    pub(super) async fn start_silent(mut deployer: Deployer, progress: &str) -> Self {
        deployer.variable("AGENT_TOKEN", AGENT_TOKEN);
        Box::pin(Self::start_with_token(deployer, "{env: AGENT_TOKEN}", progress)).await
    }

    /// With this place of the agent's token.
    pub(super) async fn start_with_token(
        mut deployer: Deployer,
        token: &str,
        progress: &str,
    ) -> Self {
        deployer.variable("OTHER_TOKEN", OTHER_TOKEN);
        let link = format!("agent: {{token: {token}}}{progress}");
        deployer.configure(|config| {
            format!(
                "{config}clusters:\n\
                 - {{name: {TARGET}, environment: production, domain: example.com, {link}}}\n\
                 - {{name: prod-cluster-2, environment: production, domain: two.example.com, \
                    server: 'https://two.example.com', agent: {{token: {{env: OTHER_TOKEN}}}}}}\n"
            )
        });
        let world = Box::pin(Watched::start_configured(deployer)).await;
        let address = world.deployer.stepped().address();
        Self {
            world,
            balancer: Balancer::of(&[address]).await,
            agent: None,
            sends_logs: false,
            serves_logs: false,
        }
    }

    pub(super) fn start_agent(&mut self) {
        let secret = |text: &str| Credential { secret: text.into(), file: None };
        let access = ClusterAccess::Server {
            server: self.world.server.url(),
            token: secret(TOKEN),
            ca: None,
        };
        // Times are shown by the clock of the test; pauses are real.
        let clock = self.world.deployer.clock.clone();
        let client = ReportClient::new(ReportTarget {
            server: self.balancer.url.clone(),
            cluster: TargetName::parse(TARGET).unwrap(),
            token: secret(AGENT_TOKEN),
            outbound: OutboundHttp::default(),
        });
        let agent = ClusterAgent {
            cluster: TargetName::parse(TARGET).unwrap(),
            connection: ClusterConnection::new(access, OutboundHttp::default(), clock.clone()),
            previews: false,
            failure_logs: self.sends_logs,
            pod_logs: self.serves_logs,
            limits: quick_limits(),
            report_limits: ReportLimits { changes: 3, ..ReportLimits::default() },
            times: AgentTimes {
                gather: Duration::from_millis(5),
                gap: Duration::from_millis(5),
                heartbeat: Duration::from_secs(2),
                first_pause: Duration::from_millis(20),
                longest_pause: Duration::from_millis(200),
                longest_refused_pause: Duration::from_millis(200),
            },
            client: client.unwrap(),
            clock,
        };
        let stop = CancellationToken::new();
        let life = tokio::spawn(agent.run(stop.clone()));
        self.agent = Some(RunningAgent { stop, life });
    }

    /// The agent is told to stop.
    pub(super) async fn stop_agent(&mut self) {
        let RunningAgent { stop, life } = self.agent.take().expect("it runs");
        stop.cancel();
        life.await.unwrap();
        self.world.server.watched(0).await;
    }

    /// The agent dies.
    async fn kill_agent(&mut self) {
        let RunningAgent { stop, life } = self.agent.take().expect("it runs");
        life.abort();
        assert!(life.await.unwrap_err().is_cancelled());
        // Its watches are tasks of this process.
        stop.cancel();
        self.world.server.watched(0).await;
    }

    pub(super) fn service(&self) -> SocketAddr {
        self.world.deployer.stepped().address()
    }

    pub(super) async fn ends(mut self) {
        self.stop_agent().await;
        self.world.ends().await;
    }

    /// Waits until a deployment says that it waits for sight of the cluster, for that reason.
    async fn is_blind(&self, id: i64, reason: &str) {
        let is_it = |one: &Deployment| {
            one.waiting.as_ref().is_some_and(|waiting| {
                waiting.what.contains("the API server of the cluster")
                    && waiting.what.contains(reason)
            })
        };
        self.world.until(id, reason, is_it).await;
    }

    async fn waits_for_argo_cd(&self, id: i64) {
        let is_it = |one: &Deployment| {
            one.waiting.as_ref().is_some_and(|waiting| waiting.what.contains("Argo CD"))
        };
        self.world.until(id, "waiting for Argo CD", is_it).await;
    }

    fn told(&self, id: i64, state: &str) -> usize {
        let told = self.world.deployer.github.told(id);
        told.iter().filter(|one| *one == state).count()
    }
}

#[tokio::test]
async fn a_deployment_finishes_when_the_agent_reports_its_pods() {
    Reported::on_both(async |reported| {
        let world = &reported.world;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.reaches(id, State::Syncing).await;
        reported.waits_for_argo_cd(id).await;
        world.sync(id, "shop", 1).await;
        world.reaches(id, State::Progressing).await;
        world.bring(id, "shop", 1, NONE).await;
        let is_counted = |one: &Deployment| one.summary.contains("1 of 2 updated, 0 available");
        world.until(id, "counted", is_counted).await;
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        assert_eq!(reported.told(id, "success"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_told_with_its_cause_and_the_log_stays_in_the_cluster() {
    for deployer in Deployer::prepared_on_both().await {
        let reported = Reported::start(deployer, ", progress: {patience: 20s}").await;
        let world = &reported.world;
        let (shop, cart) = (world.app("shop"), world.app("cart"));
        let (pulled, crashing) = (world.push(&shop, "v1").await, world.push(&cart, "v1").await);
        for (id, name) in [(pulled, "shop"), (crashing, "cart")] {
            world.sync(id, name, 1).await;
            world.bring(id, name, 1, NONE).await;
        }
        world.server.apply(unpullable_pod("shop", 1));
        let key = ("devx".to_owned(), pod_name("cart", 1), "cart".to_owned());
        world.server.edit(|cluster| cluster.logs.insert(key, "no such table\n".to_owned()));
        world.server.apply(crashing_pod("cart", 1));
        let names = |word: &'static str| move |one: &Deployment| one.summary.contains(word);
        world.until(pulled, "failing", names("no such tag")).await;
        let crashed = world.until(crashing, "failing", names("exit code 1")).await;
        assert!(crashed.log_tail.is_empty(), "{crashed:?}");
        world.stands_still(pulled, "shop", 1, NONE).await;
        world.passes_until(pulled, State::Failed).await;
        assert_eq!(reported.told(pulled, "failure"), 1);
        assert!(world.server.requests().iter().all(|one| !one.path.ends_with("/log")));
        world.bring(crashing, "cart", 1, ALL).await;
        world.reaches(crashing, State::Succeeded).await;
        Box::pin(reported.ends()).await;
    }
}

#[tokio::test]
async fn what_happens_while_the_service_is_down_is_told_when_it_is_back() {
    Reported::on_both(async |reported| {
        let (shop, cart) = (reported.world.app("shop"), reported.world.app("cart"));
        let first = reported.world.push(&shop, "v1").await;
        let second = reported.world.push(&cart, "v1").await;
        reported.world.sync(first, "shop", 1).await;
        reported.world.bring(first, "shop", 1, ALL).await;
        reported.world.reaches(first, State::Succeeded).await;
        reported.world.sync(second, "cart", 1).await;
        reported.world.reaches(second, State::Progressing).await;
        // It is killed in the middle of a rollout.
        reported.balancer.lead_to(&[]);
        let brought = reported.world.deployer.deployment(second).await;
        reported.world.stop.cancel();
        tokio::time::sleep(Duration::from_millis(200)).await;
        reported.world.deployer.dies();
        for pods in [NONE, Pods { updated: 2, available: 1 }, ALL] {
            reported.world.bring_revision(&brought, "cart", 1, pods);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        reported.world.deployer.starts().await;
        reported.world.follow();
        reported.balancer.lead_to(&[reported.service()]);
        reported.world.reaches(second, State::Succeeded).await;
        assert_eq!((reported.told(first, "success"), reported.told(second, "success")), (1, 1));
        let requests = reported.world.server.requests();
        let lists =
            requests.iter().filter(|one| one.resource == "pods" && one.query.contains("limit"));
        assert_eq!(lists.count(), 1, "the agent has not listed the cluster again");
    })
    .await;
}

#[tokio::test]
async fn answers_that_are_lost_change_nothing() {
    Reported::on_both(async |reported| {
        let world = &reported.world;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        for pods in [NONE, ALL] {
            reported.balancer.lose_answers(3);
            if pods.available == 0 {
                world.sync(id, "shop", 1).await;
            }
            world.bring(id, "shop", 1, pods).await;
            let begun = std::time::Instant::now();
            while reported.balancer.losses_left() > 0 {
                assert!(begun.elapsed() < Duration::from_mins(1), "no answer is lost");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        world.reaches(id, State::Succeeded).await;
        assert_eq!(reported.told(id, "success"), 1);
        let metrics = reqwest::get(format!("{}/metrics", world.deployer.url())).await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let name = format!("the_deployer_cluster_agent_reports_total{{cluster=\"{TARGET}\"");
        let resync = format!("{name},result=\"resync\"}}");
        assert!(metrics.contains(&format!("{name},result=\"accepted\"}}")), "{metrics}");
        assert!(!metrics.contains(&resync), "no session is begun again: {metrics}");
    })
    .await;
}

#[tokio::test]
async fn of_two_replicas_the_one_that_follows_takes_the_reports_and_then_the_other() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.shares_database();
        deployer.pushes_to_host().await;
        let mut reported = Reported::start(deployer, "").await;
        let other = reported.world.deployer.another().await;
        reported.balancer.lead_to(&[reported.service(), other.address()]);
        let shop = reported.world.app("shop");
        let id = reported.world.push(&shop, "v1").await;
        reported.world.sync(id, "shop", 1).await;
        reported.world.reaches(id, State::Progressing).await;
        // The other one takes over while the first goes on to answer.
        let following = CancellationToken::new();
        other.follow_clusters(quick_limits(), &following);
        reported.world.stop.cancel();
        reported.world.bring(id, "shop", 1, ALL).await;
        reported.world.reaches(id, State::Succeeded).await;
        assert_eq!(reported.told(id, "success"), 1);
        let asked = reported.report(AGENT_TOKEN, TARGET, &first_report("stranger")).await;
        assert_eq!(asked.0, 421, "{asked:?}");
        assert!(asked.1["type"].as_str().unwrap().ends_with(":misdirected"));
        following.cancel();
        reported.stop_agent().await;
        reported.world.deployer.settle().await;
        reported.world.deployer.settled().await;
        drop(other);
    }
}

#[tokio::test]
async fn an_agent_that_is_silent_or_blind_leaves_nothing_to_be_judged() {
    Reported::on_both(async |reported| {
        let shop = reported.world.app("shop");
        let id = reported.world.push(&shop, "v1").await;
        reported.waits_for_argo_cd(id).await;
        // Its API server is away.
        reported.world.server.fail(FaultRule::always(Fault::Status(503)));
        reported.world.server.cut_watches();
        reported.is_blind(id, "503").await;
        reported.world.server.recover();
        reported.waits_for_argo_cd(id).await;
        // It is killed.
        reported.kill_agent().await;
        reported.world.deployer.clock.advance(Duration::from_secs(31));
        reported.is_blind(id, "the agent has not reported since 20").await;
        let ready =
            reqwest::get(format!("{}/readyz", reported.world.deployer.url())).await.unwrap();
        assert_eq!(ready.status(), 200);
        let ready = ready.text().await.unwrap();
        assert!(ready.contains(&format!("cluster {TARGET}")), "{ready}");
        let (status, answer) = reported.pods("shop").await;
        assert_eq!(status, 503, "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("its agent does not report"));
        // Another one takes its place.
        reported.start_agent();
        reported.world.sync(id, "shop", 1).await;
        reported.world.bring(id, "shop", 1, ALL).await;
        reported.world.reaches(id, State::Succeeded).await;
        assert_eq!(reported.told(id, "success"), 1);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_stops_is_replaced_at_once() {
    let mut reported = Reported::start(Deployer::prepared().await, "").await;
    let shop = reported.world.app("shop");
    let id = reported.world.push(&shop, "v1").await;
    reported.waits_for_argo_cd(id).await;
    reported.stop_agent().await;
    // No time passes by the clock of the service.
    reported.start_agent();
    reported.world.sync(id, "shop", 1).await;
    reported.world.bring(id, "shop", 1, ALL).await;
    reported.world.reaches(id, State::Succeeded).await;
    Box::pin(reported.ends()).await;
}

#[tokio::test]
async fn the_state_of_an_app_is_what_the_agent_reported_and_logs_are_refused() {
    let reported = Reported::start(Deployer::prepared().await, "").await;
    let world = &reported.world;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, NONE).await;
    world.server.apply(crashing_pod("shop", 1));
    let is_named = |one: &Deployment| one.summary.contains("exit code 1");
    world.until(id, "failing", is_named).await;
    let (status, answer) = reported.pods("shop").await;
    assert_eq!(status, 200, "{answer}");
    let expected = json!({
        "kind": "Deployment", "name": "shop", "wanted": 2, "updated": 1, "available": 0,
        "state": "updating", "live": true,
    });
    assert_eq!(answer["workloads"], json!([expected]));
    assert_eq!(
        (&answer["pods"][0]["reason"], &answer["missing"]),
        (&json!("CrashLoopBackOff"), &json!([]))
    );
    let log = format!("shop/pods/{}/log", pod_name("shop", 1));
    let begun = std::time::Instant::now();
    let (status, answer) = loop {
        // An agent that serves logs asks for them within seconds.
        match reported.ask(&log).await {
            (503, _) if begun.elapsed() < Duration::from_mins(1) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => break other,
        }
    };
    assert_eq!(status, 403, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("start it with `--pod-logs`"), "{answer}");
    world.bring(id, "shop", 1, ALL).await;
    world.reaches(id, State::Succeeded).await;
    Box::pin(reported.ends()).await;
}

impl Reported {
    pub(super) async fn ask(&self, rest: &str) -> (u16, Json) {
        let url = format!("{}/api/v1/apps/{TARGET}/devx/{rest}", self.world.deployer.url());
        answer_of(client().get(url)).await
    }

    pub(super) async fn pods(&self, app: &str) -> (u16, Json) {
        self.ask(&format!("{app}/pods")).await
    }

    /// Sends a report by hand.
    pub(super) async fn report(&self, token: &str, cluster: &str, report: &Json) -> (u16, Json) {
        answer_of(self.request(cluster).bearer_auth(token).json(report)).await
    }

    fn request(&self, cluster: &str) -> reqwest::RequestBuilder {
        let service = self.world.deployer.url();
        client().post(format!("{service}/api/v1/clusters/{cluster}/observations"))
    }
}

async fn answer_of(request: reqwest::RequestBuilder) -> (u16, Json) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

pub(super) fn first_report(agent: &str) -> Json {
    json!({"agent": agent, "generation": 1, "sequence": 1, "changes": []})
}

#[tokio::test]
async fn a_report_needs_the_token_of_its_own_cluster_which_is_good_for_nothing_else() {
    let reported = Reported::start_silent(Deployer::prepared().await, "").await;
    let report = first_report("a");
    let service = reported.world.deployer.url();
    // Before the body is read: it is none.
    for (token, cluster, status, word) in [
        (None, TARGET, 401, "unauthorized"),
        (Some("wrong-0123456789-0123456789"), TARGET, 401, "unauthorized"),
        (Some("wrong-0123456789-0123456789"), "prod-cluster-9", 401, "unauthorized"),
        (Some(OTHER_TOKEN), TARGET, 403, "forbidden"),
        (Some(AGENT_TOKEN), "prod-cluster-2", 403, "forbidden"),
        (Some(AGENT_TOKEN), "prod-cluster-9", 403, "forbidden"),
    ] {
        let request = reported.request(cluster).body("no report");
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let (answered, answer) = answer_of(request).await;
        assert_eq!(answered, status, "{token:?} {cluster}: {answer}");
        assert!(answer["type"].as_str().unwrap().ends_with(word), "{answer}");
        assert!(!answer.to_string().contains("0123456789"), "{answer}");
    }
    let begun = std::time::Instant::now();
    let taken = loop {
        let taken = reported.report(AGENT_TOKEN, TARGET, &report).await;
        if taken.0 != 421 {
            break taken;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "nobody follows the cluster");
    };
    assert_eq!(taken, (200, json!({"status": "accepted", "sequence": 1})));
    let again = reported.report(AGENT_TOKEN, TARGET, &report).await;
    assert_eq!(again, (200, json!({"status": "accepted", "sequence": 1})));
    let mut gap = report.clone();
    gap["sequence"] = json!(7);
    let (status, answer) = reported.report(AGENT_TOKEN, TARGET, &gap).await;
    assert_eq!((status, &answer["status"]), (200, &json!("resync")));
    let (status, answer) = reported.report(AGENT_TOKEN, TARGET, &first_report("b")).await;
    assert_eq!(status, 409, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("another agent reports"), "{answer}");

    for (body, kind, expected) in [
        (vec![b' '; 2 * 1024 * 1024], "application/json", 413),
        (b"{".to_vec(), "application/json", 400),
        (b"{}".to_vec(), "text/plain", 415),
        (b"{}".to_vec(), "application/json", 422),
        (b"[1]".to_vec(), "application/json", 422),
    ] {
        let request = reported.request(TARGET).header("content-type", kind).body(body);
        let (status, answer) = answer_of(request.bearer_auth(AGENT_TOKEN)).await;
        assert_eq!(status, expected, "{answer}");
    }
    let reading = client().get(format!("{service}/api/v1/clusters/{TARGET}/observations"));
    assert_eq!(answer_of(reading.bearer_auth(AGENT_TOKEN)).await.0, 405);
    reported.world.ends().await;
}

#[tokio::test]
async fn the_token_of_an_agent_opens_no_other_route_and_wrong_ones_are_counted() {
    let mut deployer = Deployer::prepared().await;
    deployer.variable("API_TOKEN", "of-a-program-0123456789");
    deployer
        .configure(|config| format!("{config}auth: {{tokens: [{{name: ci, env: API_TOKEN}}]}}\n"));
    let reported = Reported::start_silent(deployer, "").await;
    let service = reported.world.deployer.url();
    for path in ["/api/v1/whoami", "/api/v1/apps", "/"] {
        let request = client().get(format!("{service}{path}")).bearer_auth(AGENT_TOKEN);
        assert_eq!(request.send().await.unwrap().status(), 401, "{path}");
    }
    let (status, _) = reported.report("of-a-program-0123456789", TARGET, &first_report("a")).await;
    assert_eq!(status, 401, "an API token is none of an agent");
    let mut statuses = Vec::new();
    for n in 0..40 {
        let wrong = format!("wrong-{n}-0123456789");
        statuses.push(reported.report(&wrong, TARGET, &first_report("a")).await.0);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let (status, answer) = reported.report(AGENT_TOKEN, TARGET, &first_report("a")).await;
    assert_ne!(status, 429, "who has the right one is not limited: {answer}");
    reported.world.ends().await;
}
