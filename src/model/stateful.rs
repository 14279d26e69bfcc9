//! The kinds of objects that keep data which is lost with them.
//!
//! The list is by API group, since whole groups are databases or storage. An unknown kind is judged by its content as
//! well: see `manifests/removal.rs`.

/// Kinds that keep data in groups where others do not.
const KINDS: [(&str, &str); 4] = [
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("apps", "StatefulSet"),
    ("compute.cnrm.cloud.google.com", "ComputeDisk"),
];

/// API groups in which every kind keeps data: databases, caches, buckets, topics.
const GROUPS: &[&str] = &[
    // Config Connector: Google Cloud
    "alloydb.cnrm.cloud.google.com",
    "bigquery.cnrm.cloud.google.com",
    "bigtable.cnrm.cloud.google.com",
    "filestore.cnrm.cloud.google.com",
    "firestore.cnrm.cloud.google.com",
    "memcache.cnrm.cloud.google.com",
    "pubsub.cnrm.cloud.google.com",
    "redis.cnrm.cloud.google.com",
    "spanner.cnrm.cloud.google.com",
    "sql.cnrm.cloud.google.com",
    "storage.cnrm.cloud.google.com",
    // AWS Controllers for Kubernetes
    "docdb.services.k8s.aws",
    "dynamodb.services.k8s.aws",
    "efs.services.k8s.aws",
    "elasticache.services.k8s.aws",
    "kafka.services.k8s.aws",
    "memorydb.services.k8s.aws",
    "opensearchservice.services.k8s.aws",
    "rds.services.k8s.aws",
    "s3.services.k8s.aws",
    "sqs.services.k8s.aws",
    // operators in the cluster
    "acid.zalan.do",
    "clickhouse.altinity.com",
    "cassandra.datastax.com",
    "elasticsearch.k8s.elastic.co",
    "kafka.strimzi.io",
    "mongodbcommunity.mongodb.com",
    "postgres-operator.crunchydata.com",
    "postgresql.cnpg.io",
    "rabbitmq.com",
    "redis.redis.opstreelabs.in",
    "databases.spotahome.com",
    "k8s.mariadb.com",
    "kms.cnrm.cloud.google.com",
    "mysql.oracle.com",
    "snapshot.storage.k8s.io",
];

/// Checks that an object of that kind keeps data that is gone with it.
pub fn keeps_data(api_version: &str, kind: &str) -> bool {
    let group = group(api_version);
    KINDS.contains(&(group, kind)) || GROUPS.contains(&group)
}

/// Returns the API group without its version; empty for Kubernetes' core.
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_and_databases_keep_data_and_what_only_runs_does_not() {
        for (api_version, kind) in [
            ("v1", "PersistentVolumeClaim"),
            ("apps/v1", "StatefulSet"),
            ("sql.cnrm.cloud.google.com/v1beta1", "SQLInstance"),
            ("sql.cnrm.cloud.google.com/v1beta1", "SQLDatabase"),
            ("redis.cnrm.cloud.google.com/v1beta1", "RedisInstance"),
            ("kafka.strimzi.io/v1beta2", "KafkaTopic"),
        ] {
            assert!(keeps_data(api_version, kind), "{kind}");
        }
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("v1", "Service"),
            ("v1", "StatefulSet"),
            ("iam.cnrm.cloud.google.com/v1beta1", "IAMServiceAccount"),
            ("monitoring.coreos.com/v1", "PrometheusRule"),
        ] {
            assert!(!keeps_data(api_version, kind), "{kind}");
        }
    }
}
