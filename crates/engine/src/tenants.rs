//! Several worlds in one database: tenants.

use std::{fmt, pin::Pin, sync::Arc};

use windlass_core::nearest;
use windlass_store::{Removal, Tenancy, TenantError, TenantName};

use crate::{Client, Engine, EngineBuilder, Error, stores};

/// Keeps tenants apart in one database or one folder: each has its own runs, keys, queues and nodes, and an engine or
/// a client of one cannot reach another's.
///
/// On PostgreSQL a tenant is a schema, `windlass_acme`, and a role that has rights on nothing else. On SQLite it is a
/// file, `windlass_acme.db`, in the folder. `docs/tenants.md` says what is kept apart, and what is not.
///
/// ```
/// # use windlass::prelude::*;
/// use windlass::Tenants;
/// # #[workflow]
/// # mod order {
/// #     use super::*;
/// #     #[task]
/// #     pub async fn ship(input: u32) -> Result<u32> { Ok(input) }
/// # }
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}/", folder.path().display());
///
/// let tenants = Tenants::open(url).await?;            // a folder, or `postgres://…` with a `secret`
/// let acme = tenants.create("acme").await?;           // made, or found: call it at every start
/// let engine = acme.engine().workflow(order::workflow()).launch().await?;
/// assert_eq!(engine.start(order::workflow(), 7).await?.await?, 7);
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// It is cheap to clone. Whoever has it can reach every tenant; a process that serves a single one needs no more than
/// [`Tenant::url`].
#[derive(Clone)]
pub struct Tenants {
    tenancy: Arc<dyn Tenancy>,
}

impl Tenants {
    /// Opens the tenants of a PostgreSQL database, `postgres://admin@host/app`, or of a folder of SQLite files,
    /// `sqlite://path/to/folder/`.
    ///
    /// A folder must be there. On PostgreSQL the user must be allowed to make schemas and roles (`CREATE` on the
    /// database, and `CREATEROLE`), and [`secret`](OpenTenants::secret) must be given. The other options of the URL,
    /// such as `connections` or `synchronous`, hold for every tenant.
    pub fn open(url: impl Into<String>) -> OpenTenants {
        OpenTenants { url: url.into(), secret: None }
    }

    /// Makes a tenant, or finds it when it is there: programs may call this at every start, many at once. What a
    /// creation left undone that was killed half way is done, and the tables are brought to the newest version.
    ///
    /// A name has 1 to 40 lower-case letters (a to z), digits, `-` and `_`, and begins with a letter or a digit.
    ///
    /// # Errors
    ///
    /// When the name is not allowed, or the database refuses. Then nothing was made.
    pub async fn create(&self, name: &str) -> Result<Tenant, Error> {
        let name: TenantName = name.parse()?;
        Ok(Tenant { url: self.tenancy.create(name.clone()).await?, name })
    }

    /// Finds a tenant.
    ///
    /// # Errors
    ///
    /// When there is none of this name, or its password was made from another secret.
    pub async fn get(&self, name: &str) -> Result<Tenant, Error> {
        let name: TenantName = name.parse()?;
        match self.tenancy.find(name.clone()).await {
            Ok(url) => Ok(Tenant { name, url }),
            Err(error) => Err(self.with_hint(error).await),
        }
    }

    /// The names of all tenants, in order.
    ///
    /// # Errors
    ///
    /// When the database or the folder cannot be read.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        Ok(self.tenancy.list().await?.iter().map(TenantName::to_string).collect())
    }

    /// Brings the tables of every tenant to the newest version, one after the other, and makes roles and rights anew
    /// where they are missing. Call it once when a new version of the program comes into use, before its engines start:
    /// on PostgreSQL a tenant's role cannot change its own tables.
    ///
    /// # Errors
    ///
    /// Names every tenant that could not be brought there. The others are. Calling it again is harmless.
    pub async fn migrate_all(&self) -> Result<(), Error> {
        let mut failed = Vec::new();
        for name in self.tenancy.list().await? {
            if let Err(error) = self.tenancy.migrate(name.clone()).await {
                failed.push(format!("tenant `{name}`: {error}"));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(Error::Store(failed.join("\n"))) }
    }

    /// Gives a tenant another password. The URL from before opens no new connection from now on, so restart the
    /// processes that use it; the connections that they have stay open until they are closed. Only on PostgreSQL.
    ///
    /// It is also how a tenant whose password was made from another secret comes to the one that is in use here.
    ///
    /// # Errors
    ///
    /// When there is no such tenant, and always on SQLite, where tenants have no passwords.
    pub async fn rotate(&self, name: &str) -> Result<Tenant, Error> {
        let name: TenantName = name.parse()?;
        match self.tenancy.rotate(name.clone()).await {
            Ok(url) => Ok(Tenant { name, url }),
            Err(error) => Err(self.with_hint(error).await),
        }
    }

    /// Removes a tenant with everything that it has. There is no way back. Answers whether it was there, so that asking
    /// again after a lost answer is harmless.
    ///
    /// # Errors
    ///
    /// With [`Error::TenantInUse`] while an engine that lives serves it; on SQLite while anybody has its file open.
    /// Nothing was removed then.
    pub async fn remove(&self, name: &str) -> Result<bool, Error> {
        Ok(self.tenancy.remove(name.parse()?, Removal::Unserved).await?)
    }

    /// Removes a tenant even while engines serve it: on PostgreSQL nobody is let in any more, its connections are ended,
    /// and what its engines had acknowledged is gone with the rest. A call that was killed half way leaves the tenant
    /// locked; call it again to remove it, or [`create`](Self::create) to keep it.
    ///
    /// # Errors
    ///
    /// On SQLite as [`remove`](Self::remove): a file cannot be taken from a process that lives.
    pub async fn remove_by_force(&self, name: &str) -> Result<bool, Error> {
        Ok(self.tenancy.remove(name.parse()?, Removal::Forced).await?)
    }

    /// Adds what may have been meant.
    async fn with_hint(&self, error: TenantError) -> Error {
        let TenantError::Unknown(name) = error else { return error.into() };
        // It is no more than a hint: without the list there is none.
        let known = self.list().await.unwrap_or_default();
        let nearest = nearest(name.as_str(), known.iter().map(String::as_str)).map(str::to_owned);
        Error::UnknownTenant { name: name.to_string(), nearest }
    }
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenants").finish_non_exhaustive()
    }
}

/// The tenants of a place, about to be opened. Await it.
#[must_use = "nothing is opened before it is awaited"]
pub struct OpenTenants {
    url: String,
    secret: Option<String>,
}

impl OpenTenants {
    /// What the passwords of the tenants are made from, on PostgreSQL; at least 32 characters, as
    /// `openssl rand -hex 32` prints them. Windlass writes it nowhere: keep it where you keep the password of the
    /// database, and give the same one to every process that manages tenants. With another one, tenants that are there
    /// cannot be opened until they are [rotated](Tenants::rotate).
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }
}

impl IntoFuture for OpenTenants {
    type Output = Result<Tenants, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let tenancy = stores::open_tenants(&self.url, self.secret).await?;
            Ok(Tenants { tenancy })
        })
    }
}

impl fmt::Debug for OpenTenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTenants").finish_non_exhaustive()
    }
}

/// One of several worlds in a database, and the way in.
#[derive(Clone)]
pub struct Tenant {
    name: TenantName,
    url: String,
}

impl Tenant {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// All that a process needs to serve this tenant and no other: hand it to [`Engine::open`] or [`Client::connect`]
    /// there. On PostgreSQL it has the tenant's password in it, so keep it secret.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets up an engine that serves this tenant. A tenant that was removed meanwhile is an error at launch.
    pub fn engine(&self) -> EngineBuilder {
        Engine::open(&self.url)
    }

    /// A client of this tenant, which runs nothing.
    ///
    /// # Errors
    ///
    /// When the database cannot be opened, or the tenant was removed meanwhile.
    pub async fn client(&self) -> Result<Client, Error> {
        Client::connect(&self.url).await
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.name.as_str()).finish_non_exhaustive()
    }
}
