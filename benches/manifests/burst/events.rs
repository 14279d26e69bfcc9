//! Signed events, made before the clock runs, and how fast they are answered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use the_deployer::forge::github::webhook::signature;

use crate::burst::service::Service;
use crate::shape;

/// One delivery, ready to send.
pub struct Event {
    number: usize,
    body: String,
    signature: String,
}

/// What was answered.
pub struct Answers {
    pub times: Vec<Duration>,
    /// From the first request to the last answer.
    pub whole: Duration,
    pub refused: usize,
}

impl Event {
    /// One that has everything made that is made once.
    pub fn warm_up(service: &Service) -> Self {
        Self::new(service, 1, service.commits.len() - 1, 0)
    }

    /// A row of them: all apps, then all apps again on the next cluster.
    pub fn all(service: &Service, events: usize, apps: usize, targets: usize) -> VecDeque<Self> {
        let one = |n: usize| Self::new(service, n + 2, n % apps, (n / apps) % targets);
        (0..events).map(one).collect()
    }

    fn new(service: &Service, number: usize, app: usize, cluster: usize) -> Self {
        let body = serde_json::json!({
            "action": "created",
            "deployment": {
                "id": number, "sha": service.commits[app], "ref": "main", "task": "deploy",
                "environment": shape::target(cluster),
                "payload": {"tag": format!("3.{number}.0")}, "creator": {"login": "load"},
            },
            "repository": {"full_name": format!("load/{}", shape::slug(app))},
            "sender": {"login": "load"},
        });
        let body = body.to_string();
        let signature = signature::sign(&service.secret, body.as_bytes());
        Self { number, body, signature }
    }
}

/// Sends them over that many connections, in order, at most so many a second.
pub async fn send(
    service: &Service,
    events: impl Into<VecDeque<Event>>,
    connections: usize,
    rate: Option<u32>,
) -> Answers {
    let begun = Instant::now();
    let queue = Arc::new(Mutex::new((0_u32, events.into())));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (queue, url) = (Arc::clone(&queue), format!("{}/webhooks/github", service.address));
        senders.spawn(async move { connection(&queue, &url, begun, rate).await });
    }
    let mut answers = Answers { times: Vec::new(), whole: Duration::ZERO, refused: 0 };
    while let Some(sent) = senders.join_next().await {
        for (took, accepted) in sent.expect("no fault") {
            answers.times.push(took);
            answers.refused += usize::from(!accepted);
        }
    }
    answers.whole = begun.elapsed();
    answers
}

async fn connection(
    queue: &Mutex<(u32, VecDeque<Event>)>,
    url: &str,
    begun: Instant,
    rate: Option<u32>,
) -> Vec<(Duration, bool)> {
    let client = reqwest::Client::new();
    let mut answers = Vec::new();
    loop {
        let next = {
            let mut queue = queue.lock().expect("no fault");
            let place = queue.0;
            queue.0 += 1;
            queue.1.pop_front().map(|event| (place, event))
        };
        let Some((place, event)) = next else { return answers };
        if let Some(rate) = rate {
            let due = begun + Duration::from_secs(1) * place / rate;
            tokio::time::sleep_until(due.into()).await;
        }
        let Event { number, body, signature } = event;
        let sent = Instant::now();
        let answer = client
            .post(url)
            .header("content-type", "application/json")
            .header("x-github-event", "deployment")
            .header("x-github-delivery", format!("load-{number}"))
            .header(signature::HEADER, signature)
            .body(body)
            .send();
        let accepted = match answer.await {
            Ok(answer) => {
                let accepted = answer.status().as_u16() == 202;
                let _read = answer.bytes().await;
                accepted
            }
            Err(_) => false,
        };
        answers.push((sent.elapsed(), accepted));
    }
}
