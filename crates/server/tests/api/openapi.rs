//! What can be asked, as a document.

use serde_json::Value;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

#[test]
fn the_committed_document_is_the_one_that_the_code_gives() {
    let committed = include_str!("../../openapi.json");
    assert!(
        committed == windlass_server::openapi(),
        "the API has changed: `cargo run -p windlass-server --example openapi > crates/server/openapi.json`"
    );
}

#[windlass::test]
async fn the_document_is_answered(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let document = app.get("/openapi.json").await.ok();
    assert_eq!(document, serde_json::from_str::<Value>(windlass_server::openapi())?);
    Ok(())
}

#[test]
fn every_way_has_an_id_of_its_own_and_says_what_it_answers() {
    let document: Value = serde_json::from_str(windlass_server::openapi()).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for (path, ways) in document["paths"].as_object().unwrap() {
        for (method, way) in ways.as_object().unwrap() {
            assert!(ids.insert(way["operationId"].as_str().unwrap().to_owned()), "{method} {path}");
            assert!(way["summary"].is_string(), "{method} {path}");
            let answers = way["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{method} {path}");
        }
    }
    assert!(ids.len() > 30, "{ids:?}");
}
