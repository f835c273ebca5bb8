//! How SQLite carries out the statements that runs depend on.

use rusqlite::{Connection, StatementStatus, types::Null};

use crate::{clock::Clock, open};

fn database() -> Connection {
    let setup = open::Setup { synchronous: crate::Synchronous::Full, max_pages: None, makes: true };
    open::open_memory(setup, &Clock::system()).unwrap()
}

/// The plan of a statement, one step a line.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let blanks = vec![Null; explain.parameter_count()];
    let steps = explain.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

fn statements() -> Vec<&'static str> {
    let inserts = [&crate::run::ADD, &crate::ready::ADD, &crate::ended::ADD, &crate::step::ADD];
    let texts = inserts.iter().flat_map(|insert| [false, true].map(|is_whole| insert.texts(is_whole)));
    let inserts: Vec<_> = texts.flatten().map(String::as_str).collect();
    [
        &inserts,
        crate::name::STATEMENTS,
        crate::node::STATEMENTS,
        crate::definition::STATEMENTS,
        crate::run::STATEMENTS,
        crate::ready::STATEMENTS,
        crate::waiting::STATEMENTS,
        crate::holding::STATEMENTS,
        crate::ended::STATEMENTS,
        crate::step::STATEMENTS,
        crate::inbox::STATEMENTS,
        crate::saved::STATEMENTS,
        crate::spread::STATEMENTS,
        crate::key::STATEMENTS,
        crate::find::STATEMENTS,
        crate::figures::STATEMENTS,
        crate::log_line::STATEMENTS,
        crate::claim::STATEMENTS,
        crate::discard::STATEMENTS,
        crate::cell::STATEMENTS,
        crate::queue::STATEMENTS,
        crate::lanes::STATEMENTS,
        crate::task_turn::STATEMENTS,
    ]
    .concat()
}

#[test]
fn no_statement_is_prepared_again_when_its_values_change() {
    let conn = database();
    let mut again = Vec::new();
    for sql in statements() {
        let mut statement = conn.prepare(sql).unwrap();
        for value in [1_i64, 2, 3] {
            let values = vec![value; statement.parameter_count()];
            // Whether the values fit the table is of no interest here.
            drop(
                statement
                    .query(rusqlite::params_from_iter(values))
                    .and_then(|mut rows| rows.next().map(|_| ())),
            );
        }
        if statement.get_status(StatementStatus::RePrepare) > 0 {
            again.push(sql);
        }
    }
    assert_eq!(again, Vec::<&str>::new());
}

#[test]
fn no_statement_reads_a_table_from_end_to_end_or_sorts() {
    let conn = database();
    let mut seen = 0;
    for sql in statements() {
        for step in plan(&conn, sql) {
            seen += 1;
            // There are as few nodes as processes; everything else is found by its key.
            let is_by_key = step.starts_with("SEARCH")
                || step == "SCAN n"
                || step.starts_with("SCAN n USING")
                || step.contains("SCALAR SUBQUERY")
                || step.starts_with("LIST SUBQUERY");
            // These read an index in its order and stop at their limit.
            let is_in_order =
                sql.contains("LIMIT") && step.starts_with("SCAN") && step.contains("USING COVERING INDEX");
            // A part with a limit of its own, and what counts its rows.
            let is_part = sql.contains("LIMIT")
                && (step.starts_with("CO-ROUTINE") || step.starts_with("SCAN (subquery"));
            // The values that it is given.
            let is_given = step.contains(" VIRTUAL TABLE ");
            let is_constant = step == "SCAN CONSTANT ROW" || step.ends_with("-ROW VALUES CLAUSE");
            assert!(is_by_key || is_in_order || is_part || is_given || is_constant, "{step}\n  in {sql}");
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
