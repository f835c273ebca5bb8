//! One tenant: its schema, its role, and the row that says that it is there.
//!
//! Everything here is part of a transaction of the caller's, so that there is never half a tenant.

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_store::{Removal, StoreError, TenantError, TenantName};

use crate::{
    OpenError,
    error::{Fault, describe},
    location::Location,
    migration,
    secret::{Password, Secret},
    session::{Params, Session, qualified, quoted},
};

/// Where it is written down which tenants there are. No tenant's schema has this name: they begin otherwise.
const REGISTRY: &str = "\
    CREATE SCHEMA tenants_of_windlass; \
    CREATE TABLE tenants_of_windlass.tenant (\
        name       text        COLLATE \"C\" PRIMARY KEY, \
        salt       uuid        NOT NULL, \
        digest     bytea       NOT NULL, \
        created_at timestamptz NOT NULL DEFAULT now()\
    ); \
    REVOKE ALL ON SCHEMA tenants_of_windlass FROM PUBLIC; \
    REVOKE ALL ON tenants_of_windlass.tenant FROM PUBLIC";
/// Who owns a table decides what runs when it is written. Asked of the tables of the catalog, for a name that was looked
/// up in vain may be remembered as missing until the transaction ends.
const IS_OURS: &str = "\
    SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'tenants_of_windlass' AND c.relname = 'tenant'";
const TAKE_TURNS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('tenants_of_windlass', 0))";
/// A lock that no tenant can take.
const LOCK: &str = "LOCK TABLE tenants_of_windlass.tenant IN SHARE ROW EXCLUSIVE MODE";
const NAMES: &str = "SELECT name FROM tenants_of_windlass.tenant ORDER BY name";
const READ: &str = "SELECT salt, digest FROM tenants_of_windlass.tenant WHERE name = $1";
const ADD: &str = "INSERT INTO tenants_of_windlass.tenant (name, salt, digest) VALUES ($1, $2, $3)";
const RENEW: &str = "UPDATE tenants_of_windlass.tenant SET salt = $2, digest = $3 WHERE name = $1";
const REMOVE: &str = "DELETE FROM tenants_of_windlass.tenant WHERE name = $1";

const DRAW: &str = "SELECT gen_random_uuid()";
const DATABASE: &str = "SELECT oid FROM pg_database WHERE datname = current_database()";
const DATABASE_NAME: &str = "SELECT quote_ident(current_database())";
const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
const HAS_TABLE: &str = "SELECT to_regclass($1) IS NOT NULL";
const MAY_LOG_IN: &str = "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1";
const MAY_CONNECT: &str = "SELECT has_database_privilege($1, current_database(), 'CONNECT')";
const WAS_GRANTED: &str = "\
    SELECT EXISTS (SELECT FROM pg_database AS d, aclexplode(d.datacl) AS a \
    WHERE d.datname = current_database() AND a.grantee = (SELECT oid FROM pg_roles WHERE rolname = $1))";
const MAY_CREATE: &str = "\
    SELECT 'SCHEMA ' || quote_ident(nspname) FROM pg_namespace \
    WHERE nspname !~ '^pg_(toast_)?temp_' AND has_schema_privilege($1, oid, 'CREATE') \
    UNION ALL \
    SELECT 'DATABASE ' || quote_ident(current_database()) WHERE has_database_privilege($1, current_database(), 'CREATE')";
/// The tables stay the property of whoever manages the tenants. So a tenant can put nothing into its schema that would
/// run with more rights than its own when somebody else uses it.
const GRANT: &str = "\
    REVOKE ALL ON SCHEMA {s} FROM PUBLIC; \
    REVOKE ALL ON ALL TABLES IN SCHEMA {s} FROM PUBLIC; \
    REVOKE ALL ON ALL SEQUENCES IN SCHEMA {s} FROM PUBLIC; \
    REVOKE ALL ON ALL ROUTINES IN SCHEMA {s} FROM PUBLIC; \
    GRANT USAGE ON SCHEMA {s} TO {r}; \
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {r}; \
    REVOKE INSERT, UPDATE, DELETE ON {s}.migration FROM {r}; \
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA {s} TO {r}; \
    GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {s} TO {r}";
const SERVING: &str = "\
    SELECT coalesce(name || ' (process ' || pid || ' on ' || host || ')', 'process ' || pid || ' on ' || host) \
    FROM {s}.node WHERE NOT dead AND {s}.clock() - heartbeat_at <= stale_after ORDER BY id";
const END_SESSIONS: &str = "\
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND pg_has_role(usesysid, 'USAGE')";

/// Makes the list of tenants where there is none.
pub(crate) async fn found(session: &Session, location: &Location) -> Result<(), TenantError> {
    let failed = |fault| failed(fault, location);
    let mut ours = session.query(IS_OURS, &[]).await.map_err(failed)?;
    if ours.is_empty() {
        // Only as long as there are no tenants, for they could take this lock too.
        session.execute(TAKE_TURNS, &[]).await.map_err(failed)?;
        ours = session.query(IS_OURS, &[]).await.map_err(failed)?;
    }
    match ours.first().map(|row| row.get(0)) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(broken(location, "the schema `tenants_of_windlass` belongs to another role: use that one"))
        }
        None => session.client().batch_execute(REGISTRY).await.map_err(|error| failed(error.into())),
    }
}

/// Every tenant, in the order of names.
pub(crate) async fn list(session: &Session, location: &Location) -> Result<Vec<TenantName>, TenantError> {
    let rows = session.query(NAMES, &[]).await.map_err(|fault| failed(fault, location))?;
    rows.iter().map(|row| row.get::<_, &str>(0).parse()).collect()
}

/// A tenant that may or may not be there, in a transaction.
pub(crate) struct Tenant<'a> {
    session: &'a Session,
    location: &'a Location,
    name: &'a TenantName,
    /// Roles are known to all databases of a server, so the name says which database this one is for.
    pub(crate) role: String,
}

impl<'a> Tenant<'a> {
    pub(crate) async fn new(
        session: &'a Session,
        location: &'a Location,
        name: &'a TenantName,
    ) -> Result<Self, TenantError> {
        let row = session.one(DATABASE, &[]).await.map_err(|fault| failed(fault, location))?;
        Ok(Self { session, location, name, role: format!("{}_{}", name.place(), row.get::<_, u32>(0)) })
    }

    /// Keeps others from changing tenants until the transaction ends.
    pub(crate) async fn lock(&self) -> Result<(), TenantError> {
        self.run(LOCK).await
    }

    /// Its password, if it is there. Refused when that was made with another secret.
    pub(crate) async fn password(&self, secret: &Secret) -> Result<Option<Password>, TenantError> {
        let rows = self.rows(READ, &[&self.name.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let password = secret.password(self.name, row.get(0));
        if password.digest() == row.get::<_, &[u8]>(1) {
            return Ok(Some(password));
        }
        Err(TenantError::Invalid(format!(
            "the password of tenant `{}` was made with another secret: open the tenants with that one, or give this one \
             another password with `rotate`",
            self.name
        )))
    }

    pub(crate) async fn is_there(&self) -> Result<bool, TenantError> {
        Ok(!self.rows(READ, &[&self.name.as_str()]).await?.is_empty())
    }

    /// Makes one that is not there. A schema or a role of its name that is there already is somebody else's, and is
    /// refused: such a role may have any rights.
    pub(crate) async fn add(&self, secret: &Secret) -> Result<Password, TenantError> {
        let password = self.note(ADD, secret).await?;
        self.run("CREATE SCHEMA {s}").await?;
        self.make_role(&password).await?;
        Ok(password)
    }

    async fn make_role(&self, password: &Password) -> Result<(), TenantError> {
        let role = quoted(&self.role);
        self.run(&format!("CREATE ROLE {role} LOGIN PASSWORD '{}'", password.verifier())).await
    }

    /// Gives it another password, and lets nobody in with the old one.
    pub(crate) async fn rotate(&self, secret: &Secret) -> Result<Password, TenantError> {
        let password = self.note(RENEW, secret).await?;
        self.run(&format!("ALTER ROLE {} PASSWORD '{}'", quoted(&self.role), password.verifier())).await?;
        Ok(password)
    }

    async fn note(&self, sql: &'static str, secret: &Secret) -> Result<Password, TenantError> {
        let salt: Uuid = self.one(DRAW, &[]).await?.get(0);
        let password = secret.password(self.name, salt);
        self.rows(sql, &[&self.name.as_str(), &salt, &password.digest()]).await?;
        Ok(password)
    }

    /// Makes what is missing of the schema, tables, role and rights of one that is there.
    pub(crate) async fn arrange(&self, secret: &Secret) -> Result<(), TenantError> {
        let role = quoted(&self.role);
        if !self.one(HAS_SCHEMA, &[&self.location.schema]).await?.get::<_, bool>(0) {
            self.run("CREATE SCHEMA {s}").await?;
        }
        match self.may_log_in().await? {
            Some(true) => {}
            // A removal by force did not get to its end.
            Some(false) => self.run(&format!("ALTER ROLE {role} LOGIN")).await?,
            None => {
                let unknown = || TenantError::Unknown(self.name.clone());
                self.make_role(&self.password(secret).await?.ok_or_else(unknown)?).await?;
            }
        }
        migration::migrate_within(self.session, self.location).await.map_err(told)?;
        self.run(&GRANT.replace("{r}", &role)).await?;
        if !self.one(MAY_CONNECT, &[&self.role]).await?.get::<_, bool>(0) {
            let database: String = self.one(DATABASE_NAME, &[]).await?.get(0);
            self.run(&format!("GRANT CONNECT ON DATABASE {database} TO {role}")).await?;
        }
        self.refuse_open_doors().await
    }

    /// A tenant that can make functions where others look for theirs could have them run its own.
    async fn refuse_open_doors(&self) -> Result<(), TenantError> {
        let doors = self.rows(MAY_CREATE, &[&self.role]).await?;
        let end = |row: &Row| format!("`REVOKE CREATE ON {} FROM PUBLIC`", row.get::<_, &str>(0));
        let ends: Vec<String> = doors.iter().map(end).collect();
        if ends.is_empty() {
            return Ok(());
        }
        let why = format!(
            "every role may create things where others find them, and a tenant could harm them with it: {}, then try again",
            ends.join(", ")
        );
        Err(broken(self.location, &why))
    }

    /// Lets nobody in any more. It counts once it is committed.
    pub(crate) async fn bar(&self) -> Result<(), TenantError> {
        match self.may_log_in().await? {
            Some(true) => self.run(&format!("ALTER ROLE {} NOLOGIN", quoted(&self.role))).await,
            _ => Ok(()),
        }
    }

    /// Removes all that it has.
    pub(crate) async fn remove(&self, removal: Removal) -> Result<(), TenantError> {
        if removal == Removal::Forced {
            self.rows(END_SESSIONS, &[&self.role]).await?;
        }
        let node = qualified("{s}.node", &self.location.schema);
        if self.one(HAS_TABLE, &[&node]).await?.get(0) {
            // A node that joins now waits, and then finds nothing.
            self.run("LOCK TABLE {s}.node IN ACCESS EXCLUSIVE MODE").await?;
            if removal == Removal::Unserved {
                self.refuse_served().await?;
            }
        }
        self.run("DROP SCHEMA IF EXISTS {s} CASCADE").await?;
        if self.may_log_in().await?.is_some() {
            let role = quoted(&self.role);
            if self.one(WAS_GRANTED, &[&self.role]).await?.get(0) {
                let database: String = self.one(DATABASE_NAME, &[]).await?.get(0);
                self.run(&format!("REVOKE ALL ON DATABASE {database} FROM {role}")).await?;
            }
            self.run(&format!("DROP ROLE {role}")).await?;
        }
        self.rows(REMOVE, &[&self.name.as_str()]).await?;
        Ok(())
    }

    async fn refuse_served(&self) -> Result<(), TenantError> {
        let serving = self.rows(SERVING, &[]).await?;
        if serving.is_empty() {
            return Ok(());
        }
        let nodes: Vec<&str> = serving.iter().map(|row| row.get(0)).collect();
        let way_out = "stop its engines first, or use `remove_by_force`".to_owned();
        Err(TenantError::InUse { name: self.name.clone(), by: nodes.join(", "), way_out })
    }

    /// Whether its role may log in, if there is a role.
    async fn may_log_in(&self) -> Result<Option<bool>, TenantError> {
        Ok(self.rows(MAY_LOG_IN, &[&self.role]).await?.first().map(|row| row.get(0)))
    }

    async fn rows(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, TenantError> {
        self.session.query(sql, params).await.map_err(|fault| failed(fault, self.location))
    }

    async fn one(&self, sql: &'static str, params: Params<'_>) -> Result<Row, TenantError> {
        self.session.one(sql, params).await.map_err(|fault| failed(fault, self.location))
    }

    /// Does what takes no parameters: names are quoted in it, and the schema's stands for `{s}`.
    async fn run(&self, sql: &str) -> Result<(), TenantError> {
        let done = self.session.client().batch_execute(&qualified(sql, &self.location.schema)).await;
        done.map_err(|error| failed(error.into(), self.location))
    }
}

/// Says why something failed, and the way out where it is known.
pub(crate) fn failed(fault: Fault, location: &Location) -> TenantError {
    let Fault::Sql(error) = &fault else { return fault.tell(&location.place).into() };
    let way_out = match error.code().map(|state| state.code()) {
        Some("42501") => "whoever manages tenants needs CREATEROLE, and CREATE on the database",
        Some("42710" | "42P06") => "it is not a tenant's that is known here: rename or drop it",
        Some("2BP01") => "revoke or drop that first",
        Some("55P03") => "somebody is busy with its tables: try again",
        _ => return fault.tell(&location.place).into(),
    };
    let detail = error.as_db_error().and_then(|error| error.detail());
    let detail = detail.map(|detail| format!(" ({})", detail.replace('\n', ", "))).unwrap_or_default();
    let text = format!("{}: {}{detail}; {way_out}", location.place, describe(error));
    let is_temporary = error.code().is_some_and(|state| state.code() == "55P03");
    let tell = if is_temporary { StoreError::Unavailable } else { StoreError::Broken };
    tell(text).into()
}

/// What stands in the way of opening a database, as those who manage tenants hear it.
pub(crate) fn told(error: OpenError) -> TenantError {
    match error {
        OpenError::Url { .. } => TenantError::Invalid(error.to_string()),
        OpenError::Unavailable { .. } => StoreError::Unavailable(error.to_string()).into(),
        _ => StoreError::Broken(error.to_string()).into(),
    }
}

fn broken(location: &Location, why: &str) -> TenantError {
    StoreError::Broken(format!("{}: {why}", location.place)).into()
}
