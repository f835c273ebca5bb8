//! Functions that an application calls, and the acts that they stand for.

use std::sync::Arc;

use tokio_postgres::Client;
use windlass_core::RunId;
use windlass_postgres::Postgres;
use windlass_store::{Act, NewKey, NewMessage, NewRun, Refusal, Store, Unit, Written};

use crate::{
    acts::{bytes, new_run, start},
    ask::{Ask, Said},
};

/// A call, and what it is to the model: a unit that is committed for nobody.
#[derive(Clone, Debug)]
pub struct Call {
    expression: String,
    unit: Unit,
}

/// One of the two ways to a server: a store and an application.
#[derive(Clone)]
pub struct Way {
    pub store: Arc<Postgres>,
    pub application: Arc<Client>,
    pub schema: String,
}

impl Way {
    /// Has something done: a call by the application, and everything else by the store.
    pub async fn put(self, ask: Ask) -> Said {
        match ask {
            Ask::Call(call) => Said::Words(call.by(&self.application, &self.schema).await),
            ask => ask.put(&*self.store).await,
        }
    }
}

impl Call {
    /// Starts a run, which gets this id, with a key if there is one.
    pub fn start(run: RunId, key: Option<&str>, input: &str) -> Ask {
        let expression = match key {
            Some(key) => format!("start('etl', '{input}', key => '{key}')"),
            None => format!("start('etl', '{input}')"),
        };
        Ask::Call(Self { expression, unit: Unit { run, act: started(key, input) } })
    }

    pub fn send(run: RunId, topic: &str, key: Option<&str>) -> Ask {
        let expression = match key {
            Some(key) => format!("send('{run}', '{topic}', '[1]', '{key}')"),
            None => format!("send('{run}', '{topic}', '[1]')"),
        };
        let act = Act::Send(NewMessage { topic: topic.into(), body: bytes("[1]"), key: key.map(Into::into) });
        Ask::Call(Self { expression, unit: Unit { run, act } })
    }

    pub fn cancel(run: RunId) -> Ask {
        let act = Act::Send(NewMessage { topic: "!cancel".into(), body: bytes("why"), key: None });
        Ask::Call(Self { expression: format!("cancel('{run}', 'why')"), unit: Unit { run, act } })
    }

    /// What the model answers, in the words of the function.
    pub async fn put(self, store: &dyn Store) -> String {
        let run = self.unit.run;
        let answers = store.commit(None, Arc::new(vec![self.unit])).await.unwrap();
        match &answers[0] {
            Ok(Written::Started { .. }) => run.to_string(),
            Ok(Written::Existing { run }) => run.to_string(),
            Ok(Written::Done { .. }) => "true".into(),
            Err(Refusal::Unknown | Refusal::Ended(_)) => "false".into(),
            Err(Refusal::KeyTaken { run }) => format!("WL002 {run}"),
            other => panic!("{other:?}"),
        }
    }

    /// What the function answers, in a transaction of the application's own.
    async fn by(self, application: &Client, schema: &str) -> String {
        let begin = format!("BEGIN; SET LOCAL test.id = '{}'", self.unit.run);
        application.batch_execute(&begin).await.unwrap();
        let said = application.query_one(&format!("SELECT {schema}.{}::text", self.expression), &[]).await;
        application.batch_execute("COMMIT").await.unwrap();
        match said {
            Ok(row) => row.get(0),
            Err(error) => {
                let error = error.as_db_error().expect("the server says it");
                format!("{} {}", error.code().code(), error.detail().unwrap_or(error.message()))
            }
        }
    }
}

/// A start with the digest that a function makes of the input.
pub fn started(key: Option<&str>, input: &str) -> Act {
    let digest = hmac_sha256::Hash::hash(input.as_bytes());
    let digest = digest[..16].try_into().expect("a digest is longer");
    let key = key.map(|key| NewKey {
        key: key.into(),
        digest,
        life: windlass_store::KeyLife::Kept,
        conflict: windlass_store::KeyConflict::Refuse,
    });
    start(NewRun { key, input: bytes(input), ..new_run() })
}
