//! How SQLite carries out the statements that runs depend on.

use rusqlite::{Connection, types::Null};

use crate::{clock::Clock, open};

fn database() -> Connection {
    let setup = open::Setup { synchronous: crate::Synchronous::Full, max_pages: None };
    open::open_memory(setup, &Clock::system()).unwrap()
}

/// The plan of a statement, one step a line.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let blanks = vec![Null; explain.parameter_count()];
    let steps = explain.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

#[test]
fn no_statement_reads_a_table_from_end_to_end_or_sorts() {
    let conn = database();
    let statements = [
        crate::name::STATEMENTS,
        crate::node::STATEMENTS,
        crate::definition::STATEMENTS,
        crate::run::STATEMENTS,
        crate::ready::STATEMENTS,
        crate::waiting::STATEMENTS,
        crate::owned::STATEMENTS,
        crate::ended::STATEMENTS,
        crate::step::STATEMENTS,
        crate::inbox::STATEMENTS,
        crate::saved::STATEMENTS,
        crate::key::STATEMENTS,
        crate::find::STATEMENTS,
    ];
    let mut seen = 0;
    for sql in statements.concat() {
        for step in plan(&conn, sql) {
            seen += 1;
            // There are as few nodes as processes; everything else is found by its key.
            let is_by_key =
                step.starts_with("SEARCH") || step == "SCAN n" || step.starts_with("SCALAR SUBQUERY");
            // These read an index in its order and stop at their limit.
            let is_in_order =
                sql.contains("LIMIT") && step.starts_with("SCAN") && step.contains("USING COVERING INDEX");
            let is_constant = step == "SCAN CONSTANT ROW";
            assert!(is_by_key || is_in_order || is_constant, "{step}\n  in {sql}");
        }
    }
    assert!(seen > 40, "the plans were not read");
}

#[test]
fn a_statement_that_reads_everything_would_be_noticed() {
    let conn = database();
    let steps = plan(&conn, "SELECT * FROM step WHERE kind = 1 ORDER BY took");
    assert!(steps.iter().any(|step| step.starts_with("SCAN step")), "{steps:?}");
    assert!(steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
}
