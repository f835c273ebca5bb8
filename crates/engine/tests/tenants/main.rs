//! Tenants through the public API, on every store: none of them reaches another.

mod place;

mod apart;
mod managing;
mod removing;

/// Runs each test on SQLite and on PostgreSQL.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() -> windlass::Result<()> {
                super::$test(&crate::place::Place::folder().await?).await
            })+
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() -> windlass::Result<()> {
                super::$test(&crate::place::Place::database().await?).await
            })+
        }
    };
}
pub(crate) use on_every_store;
