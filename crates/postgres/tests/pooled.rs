//! Through a pooler in transaction mode, PostgreSQL does what every store must do, and agrees with the model.

mod common;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use common::{cluster, connect, execute, fresh, hears, own_schema::OwnSchema};
use windlass_cluster::Bouncer;
use windlass_postgres::{Pooler, Postgres, PostgresOptions};
use windlass_store::{
    Store,
    conformance::{Duel, MemoryFixture},
};

/// Few connections to the server: whoever comes next gets another one, with what the last left on it.
const NARROW: &str = "default_pool_size = 3";

fn pooler() -> &'static Bouncer {
    static POOLER: OnceLock<Bouncer> = OnceLock::new();
    POOLER.get_or_init(|| Bouncer::before(cluster().url(), &[NARROW]).unwrap())
}

async fn fixture() -> OwnSchema {
    OwnSchema::at(pooler().url(), 3).await
}

mod suite {
    windlass_store::conformance_tests!(super::fixture);
}

#[tokio::test]
async fn a_pooled_database_agrees_with_the_model() {
    Duel::default().fight(0..8, async || MemoryFixture::new(), fixture).await;
}

/// Counts what is said of poolers before one place.
struct Listener {
    place: String,
    count: Arc<AtomicU32>,
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        if said.0.contains(&self.place) && said.0.contains("a pooler hands out connections") {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// All the fields of an event, in a row.
struct Said(String);

impl tracing::field::Visit for Said {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{value:?} "));
    }
}

#[tokio::test]
async fn a_pooler_is_spoken_of_once() {
    let pooler = Bouncer::before(cluster().url(), &[NARROW]).unwrap();
    let place = pooler.url().split_once('@').unwrap().1.to_owned();
    let count = Arc::new(AtomicU32::new(0));
    tracing::subscriber::set_global_default(Listener { place, count: Arc::clone(&count) }).unwrap();
    let (schema, name) = (fresh(), fresh());
    let url = format!("{}?schema={schema}&application_name={name}", pooler.url());
    let store = Postgres::open(&url).await.unwrap();
    let mut hints = store.hints();
    for _ in 0..3 {
        // Whatever it lost, it looks again, and finds the pooler there again.
        let cut = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        );
        execute(cut);
        let me = common::node();
        while store.join(me.clone()).await.is_err() {}
        store.leave(me.id).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), hints.recv()).await.expect("it looks").unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// All that is left on the connections to the server.
async fn left_behind(pooler: &Bouncer) -> Vec<String> {
    let client = connect(pooler.url()).await;
    let ask = "SELECT string_agg(name, ',') FROM pg_prepared_statements; \
               SELECT string_agg(c, ',') FROM pg_listening_channels() AS c; \
               SELECT string_agg(name, ',') FROM pg_settings \
               WHERE source = 'session' AND name <> 'application_name'";
    let said = client.simple_query(ask).await.unwrap();
    let word = |message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    said.into_iter().filter_map(word).collect()
}

/// Uses a store in many ways at once.
async fn use_it(store: &Postgres) {
    let reads = (0..20).map(|_| store.nodes());
    for read in reads.collect::<Vec<_>>() {
        read.await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_left_on_a_connection_that_the_next_will_use() {
    let pooler = Bouncer::before(cluster().url(), &["default_pool_size = 1"]).unwrap();
    for pooler_is in [Pooler::Detect, Pooler::Transaction] {
        let options = PostgresOptions::new().schema(fresh()).pooler(pooler_is);
        let store = options.open(pooler.url()).await.unwrap();
        use_it(&store).await;
        assert_eq!(left_behind(&pooler).await, Vec::<String>::new(), "{pooler_is:?}");
    }
}

#[tokio::test]
async fn a_pooler_that_ignores_options_is_found_out_too() {
    let settings = ["default_pool_size = 1", "ignore_startup_parameters = options"];
    let pooler = Bouncer::before(cluster().url(), &settings).unwrap();
    let store = PostgresOptions::new().schema(fresh()).open(pooler.url()).await.unwrap();
    use_it(&store).await;
    assert_eq!(left_behind(&pooler).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_pooler_that_keeps_prepared_statements_apart_works_as_well() {
    // Older ones do not know the setting, and have nothing to keep apart.
    let settings: &[&str] = if Bouncer::version().unwrap() >= (1, 21) {
        &[NARROW, "max_prepared_statements = 100"]
    } else {
        &[NARROW]
    };
    let pooler = Bouncer::before(cluster().url(), settings).unwrap();
    let store = PostgresOptions::new().schema(fresh()).open(pooler.url()).await.unwrap();
    use_it(&store).await;
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_used_like_the_server_when_it_is_called_by_its_name() {
    let pooler = Bouncer::before(cluster().url(), &["pool_mode = session"]).unwrap();
    let schema = fresh();
    let open =
        || PostgresOptions::new().schema(&schema).connections(2).pooler(Pooler::Session).open(pooler.url());
    let (a, b) = (open().await.unwrap(), open().await.unwrap());
    hears(&a, &b).await;
}

#[tokio::test]
async fn one_behind_a_pooler_hears_others_through_a_listening_url() {
    let (schema, url) = (fresh(), pooler().url());
    let listen = cluster().url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
    let behind = Postgres::open(&format!("{url}?schema={schema}&listen_url={listen}")).await.unwrap();
    let direct = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
    hears(&behind, &direct).await;
    hears(&direct, &behind).await;
}

#[tokio::test]
async fn one_behind_a_pooler_looks_for_itself_and_is_heard_by_others() {
    let schema = fresh();
    let behind = PostgresOptions::new().schema(&schema).open(pooler().url()).await.unwrap();
    let mut hints = behind.hints();
    for _ in 0..3 {
        tokio::time::timeout(Duration::from_secs(5), hints.recv()).await.expect("it looks").unwrap();
    }
    let direct = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
    hears(&direct, &behind).await;
}
