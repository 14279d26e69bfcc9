//! What `bart deploy` prints while a canary goes on: each step, each failed check with its reason, and the end.

use the_deployer::model::deployment::State;

use crate::harness::deployer::Deployer;
use crate::harness::developer::Developer;
use crate::progress::cluster::TARGET;
use crate::progress::experiments::{BAD, Experiment, GOOD, WAML};
use crate::progress::pod_logs::{lines_of, until_line};

#[tokio::test]
async fn bart_deploy_prints_each_step_of_a_canary_and_each_failed_check() {
    let deployer = Deployer::prepared().await;
    let mut experiment = Box::pin(Experiment::start_with(deployer, WAML, "")).await;
    let developer = Developer::of("git@github.example.com:example/shop.git", WAML);
    let url = experiment.world.deployer.url();
    let token = experiment.world.deployer.github.token().to_owned();
    let variables = [("BART_SERVER", url.as_str()), ("BART_GITHUB_TOKEN", token.as_str())];
    let mut bart =
        developer.bart(&variables, &["deploy", "v2", TARGET, "--ref", "main"]).spawn().unwrap();
    let mut lines = lines_of(bart.stderr.take().unwrap());
    until_line(&mut lines, "prod-cluster-1: created").await;
    experiment.world.deployer.works().await;
    let deployment = experiment.world.deployer.deployments().await.pop().unwrap();
    assert_eq!(deployment.request.release.tag.as_str(), "v2");
    let id = deployment.request.forge_id;
    experiment.sync(deployment, 2);
    experiment.world.reaches(id, State::Progressing).await;

    // Flagger begins, and takes the first step.
    while experiment.flagger.weight == 0 {
        experiment.checks(id, GOOD).await;
    }
    until_line(&mut lines, "the canary of Deployment devx/shop (Progressing, 20 % of the traffic)")
        .await;
    for count in 1..=3 {
        experiment.checks(id, BAD).await;
        let halted = format!(
            "20 % of the traffic); halted: success rate 0.00% < 99%, {count} of 3 checks failed"
        );
        until_line(&mut lines, &halted).await;
    }
    experiment.goes_on(BAD);
    experiment.world.reaches(id, State::Failed).await;
    until_line(&mut lines, "Flagger rolled the canary back: success rate 0.00% < 99%").await;
    let status = tokio::task::spawn_blocking(move || bart.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    experiment.goes_back().await;
    Box::pin(experiment.ends()).await;
}
