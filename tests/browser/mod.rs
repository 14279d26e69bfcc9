//! The pages in a real Chromium: what people see and do, in every size and colour, without JavaScript.

mod pages; // each page: with and without scripts, in every size and colour
mod live; // pages that change while they are open
mod sign_in; // signing in and out
mod acts; // each act, from its page
mod demo; // what a newcomer sees

use crate::harness::browser::Page;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{CLIENT_ID, CLIENT_SECRET};

/// The target that the WAML knows.
const TARGET: &str = "prod-cluster-1";
/// The app's page, and the beginning of those of its acts.
const SHOP: &str = "/apps/prod-cluster-1/devx/shop";
/// People come by GitHub, and one program by a token.
const PEOPLE: &str =
    "auth:\n  github: {admins: [example/ops]}\n  tokens: [{name: ci, env: API_TOKEN}]\n";

/// The service as browsers see it: under a name of its own, at another site than GitHub. Not started yet.
async fn prepared(auth: &str) -> (Deployer, String) {
    let mut deployer = Deployer::prepared().await;
    let url = has_a_name(&mut deployer);
    deployer.github.leads_back_to(&format!("{url}/sign-in/callback"));
    deployer.variable("CLIENT_SECRET", CLIENT_SECRET);
    deployer.variable("API_TOKEN", "t0ken-of-ci");
    let login = format!(
        "    organizations: [example]\n    \
         login: {{client_id: {CLIENT_ID}, client_secret: {{env: CLIENT_SECRET}}}}\n    webhook_secret"
    );
    deployer.configure(|config| format!("{}{auth}", config.replace("    webhook_secret", &login)));
    (deployer, url)
}

/// Gives the service a name that a browser resolves to this machine.
fn has_a_name(deployer: &mut Deployer) -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://deployer.localhost:{free}");
    let server = format!("listen: 127.0.0.1:{free}\n  external_url: {url}\n");
    deployer.configure(|config| {
        let (_, rest) = config.split_once("forge:\n").unwrap();
        format!("server:\n  {server}forge:\n{rest}")
    });
    url
}

/// The service for people of GitHub, with ada, who may deploy the shop, and eve, who may not.
async fn for_people() -> (Deployer, String) {
    for_people_of(prepared(PEOPLE).await).await
}

/// The same where GitHub is an Enterprise Server.
async fn for_people_of_enterprise() -> (Deployer, String) {
    let (mut deployer, url) = prepared(PEOPLE).await;
    let [from, to] = [deployer.github.url(), deployer.github.api_url()];
    deployer.configure(|config| config.replace(&from, &to));
    for_people_of((deployer, url)).await
}

async fn for_people_of((mut deployer, url): (Deployer, String)) -> (Deployer, String) {
    deployer.starts().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    deployer.github.token_of("ada");
    deployer.github.lets("ada", "example/shop", "push");
    deployer.github.token_of("eve");
    deployer.github.lets("eve", "example/shop", "pull");
    (deployer, url)
}

/// Deploys the shop; the deploy id.
async fn deploys(deployer: &Deployer, tag: &str) -> String {
    deployer.clock.advance(std::time::Duration::from_secs(1));
    let number = deployer.github.repository("example/shop").deploys(TARGET, tag).await;
    deployer.settle().await;
    deployer.clock.advance(std::time::Duration::from_secs(1));
    deployer.deployment(number).await.id.to_string()
}

/// A person signs in with GitHub, on the way to that path.
async fn signs_in(page: &Page, deployer: &Deployer, url: &str, login: &str, path: &str) {
    deployer.github.sits_at_browser(login);
    page.open(url, path).await;
    page.press("Sign in with GitHub").await;
    page.wait_for_text("h1", "Authorize the-deployer").await;
    page.press("Authorize").await;
    assert_eq!(page.path().await, path);
}
