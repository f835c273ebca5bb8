//! Versions of workflows, as they are shown.

use super::super::{Fixture, scene::Scene};
use crate::{DefinitionId, Versions};

impl<F: Fixture> Scene<F> {
    async fn newest(&self) -> Vec<(DefinitionId, String)> {
        self.versions(Versions::Newest).await
    }

    async fn of(&self, workflow: &str, limit: usize) -> Vec<(DefinitionId, String)> {
        self.versions(Versions::Of { workflow: workflow.into(), limit }).await
    }

    async fn versions(&self, which: Versions) -> Vec<(DefinitionId, String)> {
        let found = self.store.definitions(which).await.expect("the store shows versions");
        found.into_iter().map(|(id, row)| (id, format!("{}@{}", row.workflow, row.version))).collect()
    }
}

pub(super) async fn the_newest_version_of_each_workflow_is_shown_by_name(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.newest().await, []);
    // Neither the order of the versions nor that of the names is the order in which they came.
    scene.define("zebra", "9").await;
    let zebra = scene.define("zebra", "1").await;
    let upper = scene.define("Etl", "1").await;
    let lower = scene.define("etl", "1").await;
    scene.define("zebra", "9").await;
    let expected = [(upper, "Etl@1".to_owned()), (lower, "etl@1".to_owned()), (zebra, "zebra@1".to_owned())];
    assert_eq!(scene.newest().await, expected);
}

pub(super) async fn the_versions_of_a_workflow_are_shown_newest_first(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.define("etl", "b").await;
    scene.define("other", "b").await;
    let second = scene.define("etl", "c").await;
    let third = scene.define("etl", "a").await;
    let expected = [(third, "etl@a".to_owned()), (second, "etl@c".to_owned()), (first, "etl@b".to_owned())];
    assert_eq!(scene.of("etl", 10).await, expected);
    assert_eq!(scene.of("etl", 2).await, expected[..2]);
    assert_eq!(scene.of("etl", 0).await, []);
    assert_eq!(scene.of("unheard-of", 10).await, []);
}

pub(super) async fn a_version_is_shown_with_the_body_that_came_with_it(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.define("etl", "1").await;
    let row = scene.store.definition(id).await.expect("the store reads versions").expect("it is there");
    for which in [Versions::Newest, Versions::Of { workflow: "etl".into(), limit: 1 }] {
        let shown = scene.store.definitions(which).await.expect("the store shows versions");
        assert_eq!(shown, [(id, row.clone())]);
    }
}
