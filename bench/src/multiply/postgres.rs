//! Copies in a PostgreSQL schema.

use tokio_postgres::Client;
use uuid::Uuid;

use super::CHUNK;
use crate::{Result, database::Postgres};

/// The columns of the tables, but for numbers that the database gives out itself.
const COLUMNS: &str = "\
    SELECT table_name::text, column_name::text, udt_name = 'uuid' FROM information_schema.columns \
    WHERE table_schema = $1 AND is_identity = 'NO' AND is_generated = 'NEVER' \
    ORDER BY table_name, ordinal_position";

/// As the one for every store.
pub(super) async fn multiply(database: &Postgres, run: [u8; 16], copies: u64, offset: i64) -> Result<()> {
    let (client, run) = (database.client(), Uuid::from_bytes(run));
    // What is lost in a power cut is only this benchmark.
    client.batch_execute("SET synchronous_commit = off").await?;
    let statements = statements(database, run).await?;
    if statements.is_empty() {
        return Err("no table knows the run that is to be copied".into());
    }
    for (table, statement) in &statements {
        let insert = client.prepare(statement).await?;
        let mut done = 0;
        while done < copies {
            let until = copies.min(done + CHUNK);
            client.execute(&insert, &[&run, &(done as i64), &(until as i64 - 1), &offset]).await?;
            done = until;
        }
        // As the server does by itself with rows that came over years, but not while anything is measured.
        client.batch_execute(&format!("VACUUM ANALYZE \"{table}\"")).await?;
    }
    client.batch_execute("RESET synchronous_commit").await?;
    Ok(())
}

/// Each table that has rows of the run, and the statement that copies them.
async fn statements(database: &Postgres, run: Uuid) -> Result<Vec<(String, String)>> {
    let client = database.client();
    let mut tables: Vec<(String, Vec<(String, bool)>)> = Vec::new();
    for row in client.query(COLUMNS, &[&database.name()]).await? {
        let (table, column, is_id): (String, String, bool) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        match tables.last_mut() {
            Some((last, columns)) if *last == table => columns.push((column, is_id)),
            _ => tables.push((table, vec![(column, is_id)])),
        }
    }
    let mut statements = Vec::new();
    for (table, columns) in &tables {
        for (column, _) in columns.iter().filter(|(_, is_id)| *is_id) {
            if knows(client, table, column, run).await? {
                statements.push((table.clone(), statement(table, columns, column)));
                break;
            }
        }
    }
    Ok(statements)
}

async fn knows(client: &Client, table: &str, column: &str, run: Uuid) -> Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT FROM \"{table}\" WHERE \"{column}\" = $1)");
    Ok(client.query_one(&sql, &[&run]).await?.try_get(0)?)
}

fn statement(table: &str, columns: &[(String, bool)], run: &str) -> String {
    let names: Vec<String> = columns.iter().map(|(column, _)| format!("\"{column}\"")).collect();
    let values: Vec<String> = columns
        .iter()
        .map(|(column, _)| {
            if column == run {
                // The second eight bytes are odd multiples, so that they look scattered and never collide.
                "(lpad(to_hex($4::bigint + i), 16, '0') || lpad(to_hex(i * 2654435761), 16, '0'))::uuid"
                    .to_string()
            } else {
                format!("t.\"{column}\"")
            }
        })
        .collect();
    format!(
        "INSERT INTO \"{table}\" ({}) SELECT {} FROM generate_series($2::bigint, $3::bigint) AS n (i) \
         CROSS JOIN \"{table}\" AS t WHERE t.\"{run}\" = $1",
        names.join(", "),
        values.join(", ")
    )
}
