//! The same tests on both databases.

/// Makes two tests of each of these, which take a [`Room`](crate::room::Room): one in a file, and one on a PostgreSQL
/// server.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod in_a_file {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(crate::room::Room::new()).await;
                }
            )*
        }

        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
                    super::$name(crate::room::Room::on_postgres(cluster.url())).await;
                }
            )*
        }
    };
}
