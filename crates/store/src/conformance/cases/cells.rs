//! Small values that processes share.

use std::sync::Arc;

use crate::{
    Cell, StoreError, Swapped,
    conformance::{
        Fixture,
        scene::{Scene, b},
    },
};

pub(super) async fn a_cell_is_written_by_whoever_knows_its_version<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (store, name): (_, Arc<str>) = (&scene.store, "stripe".into());
    let cell = async || store.cell(Arc::clone(&name)).await.expect("the store answers");
    let swap = async |version, body| {
        store.swap_cell(None, Arc::clone(&name), version, b(body)).await.expect("the store answers")
    };
    assert_eq!(cell().await, None);
    assert!(matches!(swap(1, "too early").await, Swapped::Changed { now: None, .. }));
    assert!(matches!(swap(0, "one").await, Swapped::Done { .. }));
    let one = Cell { version: 1, body: b("one") };
    assert_eq!(cell().await, Some(one.clone()));
    let Swapped::Changed { now, .. } = swap(0, "again").await else { panic!("it is there") };
    assert_eq!(now, Some(one));
    assert!(matches!(swap(1, "two").await, Swapped::Done { .. }));
    assert!(matches!(swap(1, "late").await, Swapped::Changed { .. }));
    assert_eq!(cell().await, Some(Cell { version: 2, body: b("two") }));
    assert_eq!(store.cell("other".into()).await.expect("the store answers"), None);
}

pub(super) async fn a_fenced_node_writes_no_cell<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let stranger = scene.node_id();
    let swapped = scene.store.swap_cell(Some(stranger), "stripe".into(), 0, b("one")).await;
    assert!(matches!(swapped, Err(StoreError::Fenced)));
    let node = scene.node().await;
    let swapped = scene.store.swap_cell(Some(node), "stripe".into(), 0, b("one")).await;
    assert!(matches!(swapped, Ok(Swapped::Done { .. })));
}
