//! Acting on many runs at once.

use serde_json::json;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

#[windlass::test]
async fn a_dry_run_counts_what_would_be_done_and_does_nothing(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let (failed, _, _) = (app.failed(&lab).await, app.completed().await, app.waiting(&lab).await);
    for (action, count) in [("cancel", 1), ("pause", 1), ("retry", 1), ("discard", 2)] {
        let dry = json!({"filter": {}, "action": action, "dry_run": true});
        assert_eq!(
            app.post("/runs/bulk", dry).await.ok(),
            json!({"count": count, "more": false}),
            "{action}"
        );
    }
    let none = json!({"filter": {"state": ["completed"]}, "action": "retry", "dry_run": true});
    assert_eq!(app.post("/runs/bulk", none).await.ok(), json!({"count": 0, "more": false}));
    assert_eq!(app.get(&format!("/runs/{failed}")).await.ok()["generation"], 1);
    Ok(())
}

#[windlass::test]
async fn what_fits_the_filter_is_acted_on_and_the_rest_is_left_alone(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let (failed, completed, waiting) =
        (app.failed(&lab).await, app.completed().await, app.waiting(&lab).await);
    let retry = json!({"filter": {"workflow": "letters"}, "action": "retry"});
    assert_eq!(app.post("/runs/bulk", retry).await.ok(), json!({"done": 1, "passed_over": 0}));
    assert_eq!(app.engine.find_run(failed.parse()?).await?.await?, json!(5));
    let cancel = json!({"filter": {"workflow": "approval"}, "action": "cancel", "reason": "all of them"});
    assert_eq!(app.post("/runs/bulk", cancel).await.ok()["done"], 1);
    app.engine.find_run(waiting.parse()?).await?.await.unwrap_err();
    let discard = json!({"filter": {"tag": "eu"}, "action": "discard", "reason": "a test"});
    assert_eq!(app.post("/runs/bulk", discard).await.ok()["done"], 1);
    app.get(&format!("/runs/{completed}")).await.is_problem(404, "unknown_run");
    app.get(&format!("/runs/{waiting}")).await.ok();
    Ok(())
}

#[windlass::test]
async fn many_runs_are_paused_and_resumed(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let act = async |action: &str| app.post("/runs/bulk", json!({"filter": {}, "action": action})).await.ok();
    assert_eq!(act("pause").await["done"], 1);
    lab.advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(app.get(&format!("/runs/{id}")).await.ok()["state"], "paused");
    assert_eq!(act("resume").await["done"], 1);
    lab.advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(app.get(&format!("/runs/{id}")).await.ok()["state"], "suspended");
    Ok(())
}

#[windlass::test]
async fn a_filter_that_is_missing_or_misspelt_acts_on_nothing(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    for body in [
        json!({"action": "cancel"}),
        json!({"filter": null, "action": "cancel"}),
        json!({"filter": {"workflw": "letters"}, "action": "cancel"}),
        json!({"filter": {"state": ["fialed"]}, "action": "cancel"}),
        json!({"filter": {}, "action": "destroy"}),
        json!({"filter": {}}),
    ] {
        app.post("/runs/bulk", body).await.is_problem(400, "malformed_body");
    }
    let since = json!({"filter": {"since": "yesterday", "state": ["completed"]}, "action": "cancel"});
    app.post("/runs/bulk", since).await.is_problem(400, "malformed_time");
    assert_eq!(app.get(&format!("/runs/{id}")).await.ok()["state"], "suspended");
    Ok(())
}
