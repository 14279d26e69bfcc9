//! A database of the app's own, in Cloud SQL. The app logs in with its service account: there is no password.

use serde_json::{Value as Json, json};

use crate::manifests::quantity::Quantity;
use crate::model::id::AppKey;
use crate::model::platform::cloud::DatabaseKind;
use crate::model::target::{Environment, Target};
use crate::templates::view::{iam, naming, without_nulls};
use crate::waml::section::Section;
use crate::waml::section_operations::{Database, Engine};

/// An instance's name and its project's id have 98 characters together (Cloud SQL, "Instance
/// settings"), and a project's id at most 30.
const LONGEST_INSTANCE: usize = 63;

/// Builds `database` as in the WAML, with `cloudsql` where Cloud SQL makes it; null where there is
/// none.
pub(super) fn build_database_view(section: &Section, app: &AppKey, target: &Target) -> Json {
    let Some(database) = &section.database else { return Json::Null };
    let mut view = without_nulls(json!(database));
    if let (DatabaseKind::CloudSql, Some(map)) =
        (target.platform.cloud.database, view.as_object_mut())
    {
        map.insert("cloudsql".to_owned(), cloud_sql(database, app, target));
    }
    view
}

/// Lists the variables by which an app finds its database.
pub(super) fn env(section: &Section, app: &AppKey, target: &Target) -> Vec<(&'static str, String)> {
    let cloud = &target.platform.cloud;
    let Some(database) = &section.database else { return Vec::new() };
    if cloud.database != DatabaseKind::CloudSql {
        return Vec::new();
    }
    let (project, region) = (cloud.gcp.project_of(app), &cloud.gcp.region);
    let connection = format!("{project}:{region}:{}", instance(app, target));
    vec![
        ("DATABASE_NAME", schema(app)),
        ("DATABASE_USER", login(engine(database), app, target)),
        ("DATABASE_INSTANCE_CONNECTION_NAME", connection),
    ]
}

fn cloud_sql(database: &Database, app: &AppKey, target: &Target) -> Json {
    let gcp = &target.platform.cloud.gcp;
    let engine = engine(database);
    let production = target.environment == Environment::Production;
    let standby = database.high_availability.unwrap_or(production);
    json!({
        "name": format!("{}-db", app.slug),
        "project": gcp.project_of(app),
        "instance": instance(app, target),
        "version": version(engine, database.version.as_deref().unwrap_or_default()),
        "gigabytes": database.storage.as_deref().and_then(gibibytes),
        "region": gcp.region,
        "network": gcp.network,
        "availability": if standby { "REGIONAL" } else { "ZONAL" },
        "loginFlag": match engine {
            Engine::Postgres => "cloudsql.iam_authentication",
            Engine::Mysql => "cloudsql_iam_authentication",
        },
        // Point-in-time recovery needs a switch of its own, or for MySQL the binary log.
        "backups": match engine {
            Engine::Postgres => json!({"enabled": true, "pointInTimeRecoveryEnabled": true}),
            Engine::Mysql => json!({"enabled": true, "binaryLogEnabled": true}),
        },
        "database": schema(app),
        "user": user(engine, app, target),
    })
}

/// Names the instance as it is called in the project.
pub(super) fn instance(app: &AppKey, target: &Target) -> String {
    naming::unique(&target.name, app, LONGEST_INSTANCE)
}

/// Names the database within the instance.
fn schema(app: &AppKey) -> String {
    app.slug.as_str().replace('-', "_")
}

fn engine(database: &Database) -> Engine {
    database.engine.unwrap_or(Engine::Postgres)
}

/// Writes the version as Cloud SQL does: `POSTGRES_16`, `MYSQL_8_0`.
fn version(engine: Engine, version: &str) -> String {
    let prefix = match engine {
        Engine::Postgres => "POSTGRES",
        Engine::Mysql => "MYSQL",
    };
    format!("{prefix}_{}", version.replace('.', "_"))
}

/// Names the user as Cloud SQL's API names it. `PostgreSQL` takes names of 63 bytes, so Google
/// leaves the end out (Cloud SQL, "Manage users with IAM database authentication").
fn user(engine: Engine, app: &AppKey, target: &Target) -> String {
    let email = iam::email(app, target);
    match engine {
        Engine::Postgres => email.trim_end_matches(".gserviceaccount.com").to_owned(),
        Engine::Mysql => email,
    }
}

/// Returns the user name of the app's login: `MySQL` knows it by the part before the `@`.
fn login(engine: Engine, app: &AppKey, target: &Target) -> String {
    let user = user(engine, app, target);
    match engine {
        Engine::Postgres => user,
        Engine::Mysql => user.split('@').next().unwrap_or_default().to_owned(),
    }
}

/// Converts a quantity to gibibytes, rounded up.
pub(super) fn gibibytes(quantity: &str) -> Option<u64> {
    Quantity::parse(quantity)?.whole().map(|bytes| bytes.div_ceil(1 << 30))
}
