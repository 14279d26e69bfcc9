//! Kinds of objects that keep data: taking one away may take the data with it.

/// API groups (with all of their parts) and kinds. Where an operator's kind is a database or a
/// queue, deleting the object deletes what is in it.
const STATEFUL: &[(&str, &str)] = &[
    ("", "PersistentVolumeClaim"),
    ("apps", "StatefulSet"),
    // Config Connector
    ("sql.cnrm.cloud.google.com", "SQLInstance"),
    ("sql.cnrm.cloud.google.com", "SQLDatabase"),
    ("redis.cnrm.cloud.google.com", "RedisInstance"),
    ("storage.cnrm.cloud.google.com", "StorageBucket"),
    ("spanner.cnrm.cloud.google.com", "SpannerInstance"),
    ("spanner.cnrm.cloud.google.com", "SpannerDatabase"),
    ("bigtable.cnrm.cloud.google.com", "BigtableInstance"),
    ("bigtable.cnrm.cloud.google.com", "BigtableTable"),
    ("bigquery.cnrm.cloud.google.com", "BigQueryDataset"),
    ("bigquery.cnrm.cloud.google.com", "BigQueryTable"),
    ("pubsub.cnrm.cloud.google.com", "PubSubTopic"),
    ("pubsub.cnrm.cloud.google.com", "PubSubSubscription"),
    ("kms.cnrm.cloud.google.com", "KMSCryptoKey"),
    ("firestore.cnrm.cloud.google.com", "FirestoreDatabase"),
    // AWS Controllers for Kubernetes
    ("rds.services.k8s.aws", "DBInstance"),
    ("rds.services.k8s.aws", "DBCluster"),
    ("elasticache.services.k8s.aws", "ReplicationGroup"),
    ("dynamodb.services.k8s.aws", "Table"),
    ("s3.services.k8s.aws", "Bucket"),
    ("sqs.services.k8s.aws", "Queue"),
    // Operators of databases and queues
    ("postgresql.cnpg.io", "Cluster"),
    ("acid.zalan.do", "postgresql"),
    ("postgres-operator.crunchydata.com", "PostgresCluster"),
    ("mysql.oracle.com", "InnoDBCluster"),
    ("k8s.mariadb.com", "MariaDB"),
    ("mongodbcommunity.mongodb.com", "MongoDBCommunity"),
    ("redis.redis.opstreelabs.in", "Redis"),
    ("redis.redis.opstreelabs.in", "RedisCluster"),
    ("databases.spotahome.com", "RedisFailover"),
    ("kafka.strimzi.io", "Kafka"),
    ("kafka.strimzi.io", "KafkaTopic"),
    ("kafka.strimzi.io", "KafkaNodePool"),
    ("rabbitmq.com", "RabbitmqCluster"),
    ("elasticsearch.k8s.elastic.co", "Elasticsearch"),
    ("clickhouse.altinity.com", "ClickHouseInstallation"),
];

/// Whether objects of that kind keep data.
pub fn is_stateful(api_version: &str, kind: &str) -> bool {
    STATEFUL.contains(&(group(api_version), kind))
}

/// The API group without its version; empty for Kubernetes' core.
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_data_is_known_by_group_and_kind() {
        for (version, kind) in [
            ("v1", "PersistentVolumeClaim"),
            ("apps/v1", "StatefulSet"),
            ("sql.cnrm.cloud.google.com/v1beta1", "SQLInstance"),
            ("kafka.strimzi.io/v1beta2", "Kafka"),
        ] {
            assert!(is_stateful(version, kind), "{version} {kind}");
        }
        for (version, kind) in
            [("v1", "StatefulSet"), ("apps/v1", "Deployment"), ("example.com/v1", "Kafka")]
        {
            assert!(!is_stateful(version, kind), "{version} {kind}");
        }
    }
}
