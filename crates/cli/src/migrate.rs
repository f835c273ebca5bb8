//! Making a database, or bringing it to the version that this program knows.

use clap::Args;
use serde_json::json;
use windlass::postgres::Postgres;

use crate::{
    api::{as_it_is, connect},
    command::Said,
    trouble::Trouble,
};

#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL that makes a new schema, for PostgreSQL, and change nothing
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// The schema that the SQL is for
    #[arg(long, default_value = "windlass", requires = "print")]
    schema: String,
    /// Say whether anything would have to be done, for PostgreSQL, and change nothing
    #[arg(long)]
    check: bool,
}

impl Migrate {
    /// Whether it only prints what needs no database.
    pub(crate) fn sql(&self) -> Option<Said> {
        self.print.then(|| {
            let sql = Postgres::dump(&self.schema);
            Said::new(json!({"sql": sql}), |answer, _| {
                answer["sql"].as_str().unwrap_or_default().lines().map(str::to_owned).collect()
            })
        })
    }

    pub(crate) async fn act(&self, url: &str) -> Result<Said, Trouble> {
        if !self.check {
            connect(url).await?;
            return Ok(Said::words(json!({}), "the database is ready"));
        }
        if !url.starts_with("postgres") {
            return Err(Trouble::Url(
                "whoever opens an SQLite file brings it up to date, so there is nothing to check: `windlass migrate` does it, \
                 and a copy of the file is a way back"
                    .to_owned(),
            ));
        }
        connect(&as_it_is(url)).await?;
        Ok(Said::words(
            json!({"ready": true}),
            "the database is as this program knows it: nothing has to be done",
        ))
    }
}
