//! Tokens that nobody knows, many at once; lists for people; names that lead to this machine.

use std::time::Duration;

use reqwest::Method;

use super::admission::{
    LIST, OURS, Peer, Questions, TARGET, at_github, configure_people, count, get_as, with_tokens,
};
use super::world::{Answer, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Fault;

#[tokio::test]
async fn strangers_wait_for_nobody_and_keep_nobody_waiting() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    let known = Peer::new(&deployer, "127.0.0.9");
    let guesser = Peer::new(&deployer, "127.0.0.1");
    assert_eq!(known.list(&alice).await.status, 200);
    deployer.github.fails(8, "GET user", Fault::SilentBefore);
    let stuck = deployer.github.met("GET user");
    let one = |n: usize| tokio::spawn(send(guesser.request(&format!("ghp_{n}"))));
    let waiting: Vec<_> = (0..8).map(one).collect();
    stuck.await;
    let answer = Peer::new(&deployer, "127.0.0.2").list("ghp_another").await;
    answer.problem(429, "too-many-requests");
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(known.list(&alice).await.status, 200, "who is known goes on");
    assert_eq!(guesser.list(OURS).await.status, 200);
    // Each has paid before it was looked at, and who goes gets nothing back.
    for one in waiting {
        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
    }
    for _ in 0..22 {
        guesser.list("a-guess").await.problem(401, "unauthorized");
    }
    guesser.list("a-guess").await.problem(429, "too-many-requests");
    deployer.settled().await;
}

#[tokio::test]
async fn whom_github_knows_pays_for_nothing() {
    let deployer = at_github().await;
    let peer = Peer::new(&deployer, "127.0.0.1");
    for n in 0..40 {
        let token = deployer.github.token_of(&format!("person-{n}"));
        assert_eq!(peer.list(&token).await.status, 200);
    }
    deployer.github.down_for(Duration::from_mins(1));
    for _ in 0..40 {
        peer.list("ghp_new").await.problem(503, "unavailable");
    }
    deployer.settled().await;
}

#[tokio::test]
async fn of_a_list_each_repository_is_asked_about_once_and_hidden_teams_too() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.starts().await;
    let alice = deployer.github.token_of("alice");
    deployer.github.lets("alice", "acme/shop", "pull");
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n  staging: {}\n"));
    for target in [TARGET, "dev", "staging"] {
        shop.deploys(target, "v1").await;
    }
    deployer.settle().await;
    let mut github = Questions::new(&deployer);
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 3);
    let [platform, developers] = ["platform", "developers"]
        .map(|team| format!("GET orgs/acme/teams/{team}/memberships/alice"));
    assert_eq!(github.asked(), ["GET user", &platform, &developers, "GET repos/acme/shop"]);
    deployer.github.shows_no_teams("alice");
    deployer.clock.advance(Duration::from_secs(11));
    for _ in 0..3 {
        assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 3);
    }
    assert_eq!(github.asked(), [platform, developers]);
    deployer.settled().await;
}

async fn named(deployer: &Deployer, path: &str, host: &str) -> Answer {
    send(request(deployer, Method::GET, path).header("host", host)).await
}

#[tokio::test]
async fn where_nobody_is_asked_for_a_token_only_our_own_names_are_answered() {
    let closed = Deployer::start().await;
    let mut open = Deployer::prepared().await;
    open.configure(|config| format!("{config}auth: {{pages: open}}\n"));
    open.starts().await;
    for (deployer, path) in [(&closed, LIST), (&closed, "/"), (&open, "/")] {
        for host in ["localhost:8080", "127.0.0.1", "[::1]:8080", "deploy.example.com"] {
            assert_eq!(named(deployer, path, host).await.status, 200, "{host}");
        }
        let said = named(deployer, path, "evil.example.net:8080").await.problem(403, "forbidden");
        assert!(said.contains("server.external_url"), "{said}");
    }
    assert_eq!(named(&closed, "/healthz", "evil.example.net").await.status, 200);
    let asked = with_tokens(&["{name: ci}"]).await;
    named(&asked, LIST, "evil.example.net").await.problem(401, "unauthorized");
    for deployer in [closed, open, asked] {
        deployer.settled().await;
    }
}
