//! Tenants, each in a schema of its own and with a role of its own.

use std::time::Duration;

use tokio::time::timeout;
use windlass_store::{Removal, Reply, StoreError, Tenancy, TenantError, TenantName};

use crate::{
    PostgresOptions,
    location::Location,
    migration,
    pool::Pool,
    secret::{Password, Secret},
    session::Session,
    tenant::{self, Tenant},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nothing that somebody put where names are looked for is taken for what PostgreSQL brings along. And whoever holds
/// what is wanted is waited for longer than a frozen process can hold it.
const CAREFULLY: &str = "\
    SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL lock_timeout = '20s'";

/// The tenants of a database: each has a schema, `windlass_acme` and so on, and a role that has rights on it alone.
#[derive(Clone, Debug)]
pub struct PostgresTenants {
    /// The URL without its user, in parts, of which the last holds the options, each after a `&`.
    scheme: String,
    server: String,
    options: String,
    location: Location,
    secret: Secret,
}

impl PostgresTenants {
    /// Opens the tenants of a database. `url` is as for [`Postgres::open`](crate::Postgres::open), without `schema` and
    /// `migrate`; its user may make schemas and roles. The passwords of the tenants are made from `secret`.
    ///
    /// # Errors
    ///
    /// Says what cannot be used, why, and what to do.
    pub async fn open(url: &str, secret: String) -> Result<Self, TenantError> {
        let (location, secret) =
            (Location::of(url, PostgresOptions::new()).map_err(tenant::told)?, Secret::new(secret)?);
        let (scheme, server, options) = parts(url)?;
        let tenants = Self { scheme, server, options, location: location.clone(), secret };
        tenants
            .transact(location, async |session, location| {
                migration::check_server(session, location).await.map_err(tenant::told)?;
                tenant::found(session, location).await
            })
            .await?;
        Ok(tenants)
    }

    /// The URL with which a tenant's role opens its schema.
    fn url(&self, tenant: &Tenant<'_>, name: &TenantName, password: &Password) -> String {
        let Self { scheme, server, options, .. } = self;
        let (role, password, schema) = (&tenant.role, password.as_str(), name.place());
        format!("{scheme}://{role}:{password}@{server}?schema={schema}&migrate=no{options}")
    }

    /// Does something with a tenant in a transaction.
    async fn with<T>(
        &self,
        name: &TenantName,
        work: impl AsyncFnOnce(Tenant<'_>) -> Result<T, TenantError>,
    ) -> Result<T, TenantError> {
        let location = Location { schema: name.place(), ..self.location.clone() };
        self.transact(location, async |session, location| {
            work(Tenant::new(session, location, name).await?).await
        })
        .await
    }

    /// Does something in a transaction, on a connection of its own. What fails leaves nothing.
    async fn transact<T>(
        &self,
        location: Location,
        work: impl AsyncFnOnce(&Session, &Location) -> Result<T, TenantError>,
    ) -> Result<T, TenantError> {
        let whole = async {
            let failed = |fault| tenant::failed(fault, &location);
            let pool = Pool::new(&location);
            let session = pool.lend().await.map_err(failed)?;
            session.begin().await.map_err(failed)?;
            session.client().batch_execute(CAREFULLY).await.map_err(|error| failed(error.into()))?;
            let done = work(&session, &location).await;
            match &done {
                Ok(_) => session.commit().await.map_err(failed)?,
                Err(_) => session.roll_back().await,
            }
            done
        };
        let Ok(done) = timeout(PATIENCE, whole).await else {
            let (place, seconds) = (&self.location.place, PATIENCE.as_secs());
            let why =
                format!("{place}: the server has not answered for {seconds} s; asking again is harmless");
            return Err(StoreError::Unavailable(why).into());
        };
        done
    }
}

/// A URL without its user: the scheme, the server with the database, and the options, each after a `&`.
fn parts(url: &str) -> Result<(String, String, String), TenantError> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let server = rest.split_once('@').map_or(rest, |(_, server)| server);
    let mut options = String::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split('=').next() {
            Some(name @ ("schema" | "migrate")) => {
                return Err(TenantError::Invalid(format!(
                    "leave `{name}` out of the URL: every tenant has a schema of its own, which `create` and \
                     `migrate_all` see to"
                )));
            }
            // It has a user and a password in it, which are not for tenants to know.
            Some("listen_url") => {
                return Err(TenantError::Invalid(
                    "leave `listen_url` out of the URL: every tenant would get the password in it; open the tenants past \
                     the pooler, or let them look twice a second"
                        .into(),
                ));
            }
            Some("user" | "password") => {}
            _ => options.push_str(&format!("&{option}")),
        }
    }
    Ok((scheme.to_owned(), server.to_owned(), options))
}

impl Tenancy for PostgresTenants {
    fn create(&self, name: TenantName) -> Reply<'_, String> {
        Box::pin(async move {
            self.with(&name, async |tenant| {
                tenant.lock().await?;
                let password = match tenant.password(&self.secret).await? {
                    Some(password) => password,
                    None => tenant.add(&self.secret).await?,
                };
                tenant.arrange(&self.secret).await?;
                Ok(self.url(&tenant, &name, &password))
            })
            .await
        })
    }

    fn find(&self, name: TenantName) -> Reply<'_, String> {
        Box::pin(async move {
            self.with(&name, async |tenant| match tenant.password(&self.secret).await? {
                Some(password) => Ok(self.url(&tenant, &name, &password)),
                None => Err(TenantError::Unknown(name.clone())),
            })
            .await
        })
    }

    fn list(&self) -> Reply<'_, Vec<TenantName>> {
        Box::pin(
            self.transact(self.location.clone(), async |session, location| {
                tenant::list(session, location).await
            }),
        )
    }

    fn migrate(&self, name: TenantName) -> Reply<'_, ()> {
        Box::pin(async move {
            self.with(&name, async |tenant| {
                tenant.lock().await?;
                if tenant.is_there().await? { tenant.arrange(&self.secret).await } else { Ok(()) }
            })
            .await
        })
    }

    fn rotate(&self, name: TenantName) -> Reply<'_, String> {
        Box::pin(async move {
            self.with(&name, async |tenant| {
                tenant.lock().await?;
                if !tenant.is_there().await? {
                    return Err(TenantError::Unknown(name.clone()));
                }
                let password = tenant.rotate(&self.secret).await?;
                Ok(self.url(&tenant, &name, &password))
            })
            .await
        })
    }

    fn remove(&self, name: TenantName, removal: Removal) -> Reply<'_, bool> {
        Box::pin(async move {
            if removal == Removal::Forced {
                // First nobody comes back, then those who are there go, and then what they had.
                self.with(&name, async |tenant| {
                    tenant.lock().await?;
                    if tenant.is_there().await? { tenant.bar().await } else { Ok(()) }
                })
                .await?;
            }
            self.with(&name, async |tenant| {
                tenant.lock().await?;
                let is_there = tenant.is_there().await?;
                if is_there {
                    tenant.remove(removal).await?;
                }
                Ok(is_there)
            })
            .await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_user_goes_along_and_all_the_rest_does() {
        for (url, known) in [
            ("postgres://me:hidden@db:5433/app?connections=3", ("postgres", "db:5433/app", "&connections=3")),
            ("postgresql://me@a,b/app", ("postgresql", "a,b/app", "")),
            (
                "postgres://db/app?user=me&password=hidden&connect_timeout=2&",
                ("postgres", "db/app", "&connect_timeout=2"),
            ),
        ] {
            let (scheme, server, options) = parts(url).unwrap();
            assert_eq!((scheme.as_str(), server.as_str(), options.as_str()), known, "{url}");
        }
    }
}
