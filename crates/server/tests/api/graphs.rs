//! What workflows there are.

use serde_json::json;
use windlass::{prelude::*, testing::Lab};

use crate::app::{App, letters};

#[windlass::test]
async fn the_workflows_of_the_database_are_listed_by_name(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let listed = app.get("/workflows").await.ok();
    let lines = listed["workflows"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| &line["name"]).collect::<Vec<_>>(), ["approval", "letters"]);
    assert_eq!(
        (&lines[1]["tasks"], &lines[1]["version"]),
        (&json!(3), &json!(letters::workflow().version()))
    );
    Ok(())
}

#[windlass::test]
async fn a_workflow_is_shown_with_its_versions_and_its_graph(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let shown = app.get("/workflows/letters").await.ok();
    assert_eq!(shown["mermaid"], letters::workflow().to_mermaid());
    assert_eq!(shown["dot"], letters::workflow().to_dot());
    assert_eq!(shown["versions"][0]["version"], letters::workflow().version());
    let post = &shown["graph"]["nodes"][1];
    assert_eq!(
        (&post["level"], &post["is_output"], &post["kind"]),
        (&json!(1), &json!(true), &json!("task"))
    );
    let version = letters::workflow().version().to_owned();
    assert_eq!(app.get(&format!("/workflows/letters?version={version}")).await.ok(), shown);
    Ok(())
}

#[windlass::test]
async fn a_workflow_or_version_that_is_not_there_is_not_shown(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let detail = app.get("/workflows/leters").await.is_problem(404, "unknown_workflow");
    assert!(detail.contains("did you mean `letters`?"), "{detail}");
    app.get("/workflows/windlass.schedule").await.is_problem(404, "unknown_workflow");
    app.get("/workflows/letters?version=none").await.is_problem(404, "unknown_version");
    app.get("/workflows/letters?verson=none").await.is_problem(400, "malformed_query");
    app.get("/workflows/letters%00").await.is_problem(422, "invalid");
    Ok(())
}

#[windlass::test]
async fn a_machine_is_shown_by_its_states(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(door::workflow()).resource(door::Door).launch().await?;
    let app = App { router: windlass_server::router(engine.client()), engine };
    let graph = app.get("/workflows/door").await.ok()["graph"].clone();
    assert_eq!(graph["edges"], json!([{"from": "Open", "to": "Shut", "rule": null}]));
    assert_eq!(
        (&graph["nodes"][1]["kind"], &graph["nodes"][1]["is_output"]),
        (&json!("state"), &json!(true))
    );
    Ok(())
}

mod door {
    use serde::{Deserialize, Serialize};
    use windlass::{machine::MachineState, prelude::*};

    #[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum State {
        Open,
        Shut,
    }

    pub struct Door;

    #[machine(state = State, data = u32, initial = Open, terminal = [Shut], name = "door")]
    impl Door {
        #[on(Open, to = [Shut])]
        async fn shut(&self, _cx: &Flow, _data: &mut u32) -> Result<State> {
            Ok(State::Shut)
        }
    }

    pub fn workflow() -> Workflow<u32, u32> {
        Door::workflow().typed()
    }
}
