//! /api/v1/forge, /api/v1/builds, POST /api/v1/deployments

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::world::{Answer, Fake, World, now, world, world_with};
use crate::model::audit::By;
use crate::model::id::{AppKey, CommitSha, DeployId, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};
use crate::server::ports::{self, CodeHost, Host};

impl Host for Fake {
    fn code_host(&self) -> CodeHost {
        let broken = self.inner.lock().unwrap().broken;
        if broken {
            return CodeHost::Local;
        }
        CodeHost::GitHub {
            api_url: "https://api.github.com".to_owned(),
            web_url: "https://github.com".to_owned(),
            client_id: Some("Iv23liTest".to_owned()),
        }
    }

    async fn ask(
        &self,
        wanted: ports::Wanted,
        by: By,
        _: &crate::store::Reply<ports::CreatedDeployment>,
    ) -> Result<ports::CreatedDeployment, ports::NotAsked> {
        assert_eq!(by.name, wanted.actor);
        self.trouble().await?;
        match wanted.git_ref.as_str() {
            "none" => Err(ports::NotAsked::Unknown("no such ref".to_owned())),
            "elsewhere" => Err(ports::NotAsked::Elsewhere("ask GitHub".to_owned())),
            _ => {
                let id = DeployId::parse("20261121-054812000-3f9a2c").unwrap();
                self.inner.lock().unwrap().wanted.push(wanted);
                Ok(ports::CreatedDeployment { id, forge_id: 7 })
            }
        }
    }

    async fn built_for(&self, query: &ports::BuildsQuery) -> Result<TargetName, ports::NoBuilds> {
        self.find_image(query).await.map(|image| image.target)
    }

    async fn find_image(
        &self,
        query: &ports::BuildsQuery,
    ) -> Result<ports::AppImage, ports::NoBuilds> {
        self.trouble().await?;
        match query.app.slug.as_str() {
            "new" => Err(ports::NoBuilds::Unknown("never deployed".to_owned())),
            "strange" => Err(ports::NoBuilds::NoImage("no image".to_owned())),
            "silent" => Err(ports::NoBuilds::NotKnown("no answer".to_owned())),
            _ => Ok(image(&query.app, "acme/shop")),
        }
    }

    async fn find_image_of_waml(
        &self,
        request: ports::BuildsOfWaml,
    ) -> Result<ports::AppImage, ports::NoBuilds> {
        let app = super::visitors::app(&request.waml);
        Ok(image(&app, request.repository.as_str()))
    }

    async fn list_builds(
        &self,
        image: &ports::AppImage,
        visible: &[TargetName],
        _: ports::BuildsPage,
    ) -> Result<ports::Builds, ports::NoBuilds> {
        let down = |target: &TargetName| (target.clone(), "it is down".to_owned());
        Ok(ports::Builds {
            image: image.image.clone(),
            builds: vec![ports::Build {
                tag: "1.0".to_owned(),
                digest: None,
                created: Some(now()),
                commit: None,
                live: visible.to_vec(),
            }],
            next: None,
            tags: 1,
            complete: true,
            unknown: visible.iter().map(down).collect(),
            notes: Vec::new(),
        })
    }
}

/// The image of an app on `prod`: that of `acme/shop`, wherever the WAML is.
fn image(app: &AppKey, repository: &str) -> ports::AppImage {
    let prod: TargetName = "prod".parse().unwrap();
    ports::AppImage {
        app: app.clone(),
        target: prod.clone(),
        targets: vec![prod],
        release: Release {
            repository: RepoName::parse(repository).unwrap(),
            commit: CommitSha::parse("0".repeat(40)).unwrap(),
            tag: ImageTag::parse("1.0").unwrap(),
        },
        image: "ghcr.io/acme/shop".to_owned(),
    }
}

impl World {
    async fn wants(&self, body: &Value) -> Answer {
        let request =
            Request::post("/api/v1/deployments").header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }
}

fn wanted() -> Value {
    json!({"repository": "acme/shop", "ref": "main", "tag": "1.0", "target": "prod", "description": "a\nb"})
}

#[tokio::test]
async fn who_wants_to_log_in_is_told_where_without_a_token() {
    let tokens = Tokens(vec![Token::of_text("ci", "one")]);
    let world = world_with(Limits::default(), tokens);
    let answer = world.get("/api/v1/forge").await.json();
    let login = json!({"client_id": "Iv23liTest"});
    assert_eq!(answer["login"], login);
    assert_eq!(answer["kind"], "github");
    assert_eq!(answer["web_url"], "https://github.com");
    world.get("/api/v1/builds?app=a/b").await.problem(401, "unauthorized");
    world.wants(&wanted()).await.problem(401, "unauthorized");
    world.fake.inner.lock().unwrap().broken = true;
    let local = json!({"kind": "local", "api_url": null, "web_url": null, "login": null});
    assert_eq!(world.get("/api/v1/forge").await.json(), local);
}

#[tokio::test]
async fn a_deployment_is_asked_for_by_who_calls() {
    let world = world();
    let answer = world.wants(&wanted()).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.json(), json!({"id": "20261121-054812000-3f9a2c", "forge_id": 7}));
    let asked = world.fake.inner.lock().unwrap().wanted.pop().unwrap();
    assert_eq!((asked.git_ref.as_str(), asked.description.as_str()), ("main", "ab"));
    assert_eq!(asked.actor, "unknown, on this machine");
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_named() {
    let world = world();
    let with = |key: &str, value: Value| {
        let mut body = wanted();
        body[key] = value;
        body
    };
    for (key, value, says) in [
        ("repository", json!("shop"), "repository: "),
        ("ref", json!(""), "ref: "),
        ("ref", json!("a\u{7}b"), "ref: "),
        ("tag", json!("a b"), "tag: "),
        ("target", json!("../x"), "target: "),
        ("tga", json!("1"), "unknown field `tga`"),
        (
            "description",
            json!("by ops\u{2066}x"),
            "description has an invisible character (U+2066)",
        ),
        ("ref", json!("none"), "no such ref"),
    ] {
        let said = world.wants(&with(key, value)).await.problem(422, "unprocessable");
        assert!(said.contains(says), "{said}");
    }
    let said = world.wants(&with("ref", json!("elsewhere"))).await.problem(409, "conflict");
    assert_eq!(said, "ask GitHub");
    assert_eq!(world.fake.inner.lock().unwrap().wanted, []);
}

#[tokio::test]
async fn builds_say_where_they_are_live() {
    let world = world();
    let answer = world.get("/api/v1/builds?app=devx/shop").await.json();
    assert_eq!(answer["builds"][0]["live"], json!(["prod"]));
    for (slug, status, name) in [
        ("new", 404, "not-found"),
        ("strange", 422, "unprocessable"),
        ("silent", 503, "unavailable"),
    ] {
        world.get(&format!("/api/v1/builds?app=devx/{slug}")).await.problem(status, name);
    }
    world.get("/api/v1/builds").await.problem(400, "bad-request");
}
