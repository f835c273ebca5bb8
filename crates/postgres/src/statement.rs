//! A statement that is ready to be sent.

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};
use windlass_store::StoreError;

use crate::{error::Fault, session::Params};

/// What a value may be to the server. Each kind of value is sent as the first of these that it fits.
const KINDS: [Type; 22] = [
    Type::UUID,
    Type::INT8,
    Type::TEXT,
    Type::BYTEA,
    Type::INT4,
    Type::INT2,
    Type::BOOL,
    Type::UUID_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT4_ARRAY,
    Type::INT2_ARRAY,
    Type::BOOL_ARRAY,
    Type::FLOAT8,
    Type::FLOAT8_ARRAY,
    Type::JSON,
    Type::JSON_ARRAY,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ_ARRAY,
    Type::OID,
    Type::OID_ARRAY,
];

/// A statement that is ready to be sent, at once when it is first polled.
#[derive(Clone)]
pub(crate) enum Statement {
    /// The server knows it by a name, on this connection.
    Named(tokio_postgres::Statement),
    /// The server is told all of it each time: on a connection that others use too, a name may stand for something else.
    Unnamed(Arc<Unnamed>),
}

pub(crate) struct Unnamed {
    sql: String,
    /// What its values are to the server. A statement is always given the same kinds.
    kinds: OnceLock<Vec<Type>>,
}

impl Statement {
    pub(crate) fn unnamed(sql: String) -> Self {
        Self::Unnamed(Arc::new(Unnamed { sql, kinds: OnceLock::new() }))
    }

    /// Refuses values that cannot be sent. Where statements travel together with what commits them, each is checked
    /// before the first is sent.
    pub(crate) fn check(&self, params: Params<'_>) -> Result<(), Fault> {
        match self {
            Self::Named(_) => Ok(()),
            Self::Unnamed(unnamed) => unnamed.kinds(params).map(drop),
        }
    }

    pub(crate) async fn query(&self, client: &Client, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        Ok(match self {
            Self::Named(statement) => client.query(statement, params).await?,
            Self::Unnamed(unnamed) => client.query_typed(&unnamed.sql, &unnamed.typed(params)?).await?,
        })
    }

    pub(crate) async fn one(&self, client: &Client, params: Params<'_>) -> Result<Row, Fault> {
        Ok(match self {
            Self::Named(statement) => client.query_one(statement, params).await?,
            Self::Unnamed(unnamed) => client.query_typed_one(&unnamed.sql, &unnamed.typed(params)?).await?,
        })
    }

    pub(crate) async fn execute(&self, client: &Client, params: Params<'_>) -> Result<u64, Fault> {
        Ok(match self {
            Self::Named(statement) => client.execute(statement, params).await?,
            Self::Unnamed(unnamed) => client.execute_typed(&unnamed.sql, &unnamed.typed(params)?).await?,
        })
    }
}

impl Unnamed {
    fn typed<'p>(&self, params: Params<'p>) -> Result<Vec<(&'p (dyn ToSql + Sync), Type)>, Fault> {
        Ok(params.iter().copied().zip(self.kinds(params)?.iter().cloned()).collect())
    }

    fn kinds(&self, params: Params<'_>) -> Result<&[Type], Fault> {
        if let Some(kinds) = self.kinds.get() {
            return Ok(kinds);
        }
        let kinds = params.iter().map(|param| kind(*param)).collect::<Result<_, _>>()?;
        Ok(self.kinds.get_or_init(|| kinds))
    }
}

/// What a value is to the server.
fn kind(param: &(dyn ToSql + Sync)) -> Result<Type, Fault> {
    let mut written = BytesMut::new();
    let fits = |kind: &&Type| param.to_sql_checked(kind, &mut written).is_ok();
    let kind = KINDS.iter().find(fits).cloned();
    kind.ok_or_else(|| StoreError::Broken(format!("{param:?} is of a kind that is never sent")).into())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_value_is_sent_as_what_it_is() {
        let (uuid, bytes): (Uuid, &[u8]) = (Uuid::nil(), b"x");
        let cases: [(&(dyn ToSql + Sync), Type); 16] = [
            (&uuid, Type::UUID),
            (&Some(uuid), Type::UUID),
            (&None::<Uuid>, Type::UUID),
            (&1_i64, Type::INT8),
            (&1_i32, Type::INT4),
            (&1_i16, Type::INT2),
            (&true, Type::BOOL),
            (&"text", Type::TEXT),
            (&None::<String>, Type::TEXT),
            (&bytes, Type::BYTEA),
            (&vec![uuid], Type::UUID_ARRAY),
            (&Vec::<i64>::new(), Type::INT8_ARRAY),
            (&vec![Some(bytes)], Type::BYTEA_ARRAY),
            (&vec![None::<&str>], Type::TEXT_ARRAY),
            (&vec![1_i16], Type::INT2_ARRAY),
            (&vec![1_i32], Type::INT4_ARRAY),
        ];
        for (value, wanted) in cases {
            assert_eq!(kind(value).unwrap(), wanted, "{value:?}");
        }
    }
}
