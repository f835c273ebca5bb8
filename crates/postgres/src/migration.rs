//! How the tables came to be.

use std::time::Duration;

use hmac_sha256::Hash;
use tokio::time::timeout;

use crate::{
    OpenError,
    error::{Fault, cause_of, describe},
    location::Location,
    session::{Session, qualified, quoted},
};

/// How long looking may take. How long a migration takes depends on what there is to migrate.
const PATIENCE: Duration = Duration::from_secs(30);

/// One change of the tables. A migration that was released never changes.
struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// Every migration, in order. The first has version 1.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "tables", sql: include_str!("../migrations/0001_tables.sql") },
    Migration { name: "functions", sql: include_str!("../migrations/0002_functions.sql") },
    Migration { name: "spread", sql: include_str!("../migrations/0003_spread.sql") },
    Migration { name: "parents", sql: include_str!("../migrations/0004_parents.sql") },
    Migration { name: "figures", sql: include_str!("../migrations/0005_figures.sql") },
    Migration { name: "stops", sql: include_str!("../migrations/0006_stops.sql") },
];

const TABLE: &str = "\
    CREATE TABLE {s}.migration (\
        version    integer PRIMARY KEY, \
        name       text    NOT NULL, \
        checksum   text    NOT NULL, \
        applied_at timestamptz NOT NULL DEFAULT now()\
    )";
const APPLIED: &str = "SELECT version, name, checksum FROM {s}.migration ORDER BY version";
const NOTE: &str = "INSERT INTO {s}.migration (version, name, checksum) VALUES ($1, $2, $3)";
const TABLES: &str = "\
    SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";
const SCHEMA: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";

/// The newest schema that this program knows.
pub(crate) fn known() -> u32 {
    u32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

impl Migration {
    /// A digest of what it does.
    fn checksum(&self) -> String {
        let digest = Hash::hash(self.sql.replace("\r\n", "\n").as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Brings the tables to the newest schema if that is wanted, and checks that they are what they say.
pub(crate) async fn migrate(session: &Session, location: &Location) -> Result<(), OpenError> {
    let failed = |fault| failed(fault, location);
    let looked = timeout(PATIENCE, async {
        check_server(session, location).await?;
        schema(session, location).await
    });
    let found = looked.await.unwrap_or_else(|_| Err(failed(Fault::Silent(PATIENCE))))?;
    if found == known() {
        return Ok(());
    }
    if !location.migrates {
        let (place, schema) = (location.place.clone(), location.schema.clone());
        return Err(OpenError::Unmigrated { place, schema, found, known: known() });
    }
    session.begin().await.map_err(failed)?;
    match migrate_within(session, location).await {
        Ok(()) => session.commit().await.map_err(failed),
        Err(error) => {
            session.roll_back().await;
            Err(error)
        }
    }
}

/// Brings the tables to the newest schema, in a transaction of the caller's.
pub(crate) async fn migrate_within(session: &Session, location: &Location) -> Result<(), OpenError> {
    let failed = |fault| failed(fault, location);
    if schema(session, location).await? == known() {
        return Ok(());
    }
    // Processes that start together take turns, and find it done.
    let lock = session.lock_of(b"migration");
    session.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await.map_err(failed)?;
    let found = schema(session, location).await?;
    apply(session, location, found).await.map_err(failed)
}

/// Everything that a fresh schema needs, as plain SQL.
pub(crate) fn dump(schema: &str) -> String {
    let mut text = format!("CREATE SCHEMA {};\n\n{};\n", quoted(schema), qualified(TABLE, schema));
    for (version, migration) in (1_u32..).zip(MIGRATIONS) {
        text.push_str(&format!(
            "\n-- Version {version}: {}\n\n{}\n",
            migration.name,
            qualified(migration.sql, schema)
        ));
        text.push_str(&format!(
            "INSERT INTO {}.migration (version, name, checksum) VALUES ({version}, '{}', '{}');\n",
            quoted(schema),
            migration.name,
            migration.checksum(),
        ));
    }
    text
}

pub(crate) async fn check_server(session: &Session, location: &Location) -> Result<(), OpenError> {
    let ask = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
               current_setting('server_encoding')";
    let row = session.one(ask, &[]).await.map_err(|fault| failed(fault, location))?;
    judge_server(&location.place, row.get(0), row.get(1), row.get(2))
}

fn judge_server(place: &str, number: i32, found: &str, encoding: &str) -> Result<(), OpenError> {
    let place = place.to_owned();
    if number < 140_000 {
        return Err(OpenError::Old { place, found: found.to_owned() });
    }
    if encoding != "UTF8" {
        let reason = format!("its encoding is {encoding}, and Windlass needs UTF8: make another database");
        return Err(OpenError::Unavailable { place, reason });
    }
    Ok(())
}

/// The version that a schema is at; zero for one that is empty or not there. Refuses what is not ours.
async fn schema(session: &Session, location: &Location) -> Result<u32, OpenError> {
    let failed = |fault| failed(fault, location);
    let (place, schema) = (location.place.clone(), location.schema.clone());
    let tables = session.query(TABLES, &[&schema]).await.map_err(failed)?;
    if tables.is_empty() {
        return Ok(0);
    }
    if !tables.iter().any(|row| row.get::<_, &str>(0) == "migration") {
        return Err(OpenError::Foreign { place, schema });
    }
    let applied = session.query(APPLIED, &[]).await.map_err(|fault| match fault {
        // Another program's table of the same name.
        Fault::Sql(error) if error.code().is_some_and(|state| state.code() == "42703") => {
            OpenError::Foreign { place: place.clone(), schema: schema.clone() }
        }
        fault => failed(fault),
    })?;
    let found = u32::try_from(applied.len()).unwrap_or(u32::MAX);
    if found > known() {
        return Err(OpenError::Newer { place, schema, found, known: known() });
    }
    for ((version, migration), row) in (1..).zip(MIGRATIONS).zip(&applied) {
        let (number, name, checksum): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
        if number != version || checksum != migration.checksum() {
            let version = u32::try_from(number).unwrap_or_default();
            return Err(OpenError::Changed { place, schema, version, name });
        }
    }
    Ok(found)
}

async fn apply(session: &Session, location: &Location, found: u32) -> Result<(), Fault> {
    let schema = &location.schema;
    if found == 0 {
        // Asked first: whoever has no right to make one may still use one that is there.
        if !session.one(SCHEMA, &[schema]).await?.get::<_, bool>(0) {
            session.client().batch_execute(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
        }
        session.client().batch_execute(&qualified(TABLE, schema)).await?;
    }
    for (version, migration) in (1_i32..).zip(MIGRATIONS).skip(found as usize) {
        session.client().batch_execute(&qualified(migration.sql, schema)).await?;
        session.execute(NOTE, &[&version, &migration.name, &migration.checksum()]).await?;
    }
    Ok(())
}

/// Why a database cannot be used, and the way out where it is known.
pub(crate) fn failed(fault: Fault, location: &Location) -> OpenError {
    let place = location.place.clone();
    let error = match fault {
        Fault::Sql(error) | Fault::Unreached(error) => error,
        Fault::Store(error) => return OpenError::Unavailable { place, reason: error.to_string() },
        Fault::Silent(time) => {
            let reason = format!(
                "it has not answered for {} s; is it PostgreSQL, and is it reachable from here?",
                time.as_secs_f64()
            );
            return OpenError::Unavailable { place, reason };
        }
    };
    let text = describe(&error);
    let way_out = match error.code().map(|state| state.code()) {
        Some("3D000") => "; make it with `createdb`",
        Some("28P01" | "28000") if text.contains("no encryption") => {
            "; if the server wants TLS, write `sslmode=require` in the URL, and give `windlass` its feature `tls`"
        }
        Some("28P01" | "28000") => "; check user and password",
        Some("42501") if text.contains("for database") => {
            "; grant this role CREATE on the database, or run the migrations as its owner"
        }
        Some("42501") => {
            "; grant this role USAGE on the schema and its sequences, and SELECT, INSERT, UPDATE and DELETE on its \
             tables; CREATE on the schema too, if it is to make the tables"
        }
        Some("53300") => "; raise `max_connections`, or lower `connections` in the URL",
        Some("25006") => {
            "; this server only reads: name the primary, or add `target_session_attrs=read-write`"
        }
        Some("55P03") => "; another program holds the schema, perhaps one that migrates: try again",
        Some("08P01" | "0A000") if text.contains("options") => {
            "; this is a pooler that takes no `options`: leave them out of the URL"
        }
        Some(_) => "",
        None => network(&error),
    };
    OpenError::Unavailable { place, reason: format!("{text}{way_out}") }
}

/// The way out where the server has said nothing.
fn network(error: &tokio_postgres::Error) -> &'static str {
    match cause_of(error).map(std::io::Error::kind) {
        Some(std::io::ErrorKind::InvalidData) => {
            "; the server is not who it should be: check the host in the URL and `sslrootcert`"
        }
        Some(_) => "; is the server running, and is it reachable from here?",
        None if error.to_string().contains("TLS") => {
            "; turn TLS on at the server, or use `sslmode=disable` where the network can be trusted"
        }
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dump_names_the_schema_everywhere() {
        let dump = dump("jobs");
        assert!(dump.starts_with("CREATE SCHEMA \"jobs\";"));
        assert!(!dump.contains("{s}") && !dump.contains("{channel}"));
    }

    #[test]
    fn an_old_server_and_another_encoding_are_refused_with_the_way_out() {
        let said = |number, found, encoding| judge_server("postgres://db/app", number, found, encoding);
        assert!(said(140_000, "14.0", "UTF8").is_ok());
        let text = said(130_014, "13.14 (Debian)", "UTF8").unwrap_err().to_string();
        assert!(text.contains("PostgreSQL 13.14 (Debian)") && text.contains("14 or newer"), "{text}");
        let text = said(150_000, "15.0", "SQL_ASCII").unwrap_err().to_string();
        assert!(text.contains("SQL_ASCII") && text.contains("make another database"), "{text}");
    }
}
