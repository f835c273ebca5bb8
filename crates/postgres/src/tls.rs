//! Encrypted connections: what was asked for.

#[cfg(feature = "tls")]
mod trust;

use std::path::PathBuf;

use tokio_postgres::config::{Config, Host, SslMode};
use windlass_core::nearest;

/// What the ways to a server are called in a URL.
const MODES: [(&str, TlsMode); 5] = [
    ("disable", TlsMode::Disable),
    ("prefer", TlsMode::Prefer),
    ("require", TlsMode::Require),
    ("verify-ca", TlsMode::VerifyCa),
    ("verify-full", TlsMode::VerifyFull),
];

/// Whether connections are encrypted, and what is checked of the server. The names and their meaning are those of
/// `sslmode` in every other program that speaks with PostgreSQL.
///
/// All but [`Disable`](Self::Disable) and [`Prefer`](Self::Prefer) need the feature `tls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted when the server can do it and this program has the feature `tls`, plain otherwise. Nothing is checked:
    /// this protects from nobody who can change what travels.
    #[default]
    Prefer,
    /// Always encrypted, but whoever answers is believed to be the server; unless a certificate authority is given:
    /// then as [`VerifyCa`](Self::VerifyCa).
    Require,
    /// The server's certificate must come from the certificate authority that is given. Which of its servers it is, is
    /// not checked.
    VerifyCa,
    /// As [`VerifyCa`](Self::VerifyCa), and the certificate must be for the host in the URL. Where no authority is
    /// given, those of the system are trusted.
    VerifyFull,
}

impl TlsMode {
    /// From `sslmode=…`.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        if let Some((_, mode)) = MODES.iter().find(|(known, _)| *known == name) {
            return Ok(*mode);
        }
        let names = MODES.map(|(name, _)| name);
        let hint = nearest(name, names).map(|known| format!(" (did you mean `{known}`?)"));
        Err(format!("`sslmode={name}`{}: it may be {}", hint.unwrap_or_default(), names.join(", ")))
    }

    fn name(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// What a URL or its user says about encryption.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSettings {
    pub(crate) mode: Option<TlsMode>,
    /// A file with the certificates of authorities. `system` stands for those of the system, as nothing does.
    pub(crate) roots: Option<PathBuf>,
    /// Files with a certificate for this program, and its key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// How connections are made.
#[derive(Clone)]
pub(crate) enum Tls {
    Plain,
    #[cfg(feature = "tls")]
    Encrypted(tokio_postgres_rustls::MakeRustlsConnect),
}

impl TlsSettings {
    /// What is said here counts more than what is said there.
    pub(crate) fn over(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            roots: self.roots.or(other.roots),
            certificate: self.certificate.or(other.certificate),
            key: self.key.or(other.key),
        }
    }

    /// Sets up what was asked for, and tells the driver.
    pub(crate) fn prepare(&self, config: &mut Config) -> Result<Tls, String> {
        let mode = self.judged()?;
        // A socket of this machine is never encrypted, whatever was asked for.
        let is_local = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(_) => false,
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        let mode = if is_local { TlsMode::Disable } else { mode };
        config.ssl_mode(match mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        if mode == TlsMode::Disable {
            return Ok(Tls::Plain);
        }
        self.encrypted(mode)
    }

    /// What is checked, if all that was said makes sense together.
    fn judged(&self) -> Result<TlsMode, String> {
        let is_file = self.roots.as_deref().map(|file| file.as_os_str() != "system");
        let mode = match (self.mode, is_file) {
            (None, Some(false)) => TlsMode::VerifyFull,
            // As other programs have it: whoever names an authority wants it to be asked.
            (Some(TlsMode::Require), Some(true)) => TlsMode::VerifyCa,
            (Some(TlsMode::VerifyCa), None) | (Some(TlsMode::Require | TlsMode::VerifyCa), Some(false)) => {
                return Err("anybody can have a certificate from one of the system's authorities: to trust those, write \
                            `sslmode=verify-full`; to trust your own, name its file with `sslrootcert`"
                    .into());
            }
            (None | Some(TlsMode::Disable | TlsMode::Prefer), Some(_)) => {
                let mode = self.mode.unwrap_or_default().name();
                return Err(format!(
                    "`sslrootcert` is of no use with `sslmode={mode}`: write `sslmode=verify-full`"
                ));
            }
            (mode, _) => mode.unwrap_or_default(),
        };
        if self.certificate.is_some() != self.key.is_some() {
            return Err("`sslcert` and `sslkey` belong together: one of them is missing".into());
        }
        if mode == TlsMode::Disable && self.certificate.is_some() {
            return Err("`sslcert` is of no use with `sslmode=disable`: write `sslmode=verify-full`".into());
        }
        Ok(mode)
    }

    #[cfg(feature = "tls")]
    fn encrypted(&self, mode: TlsMode) -> Result<Tls, String> {
        let config = trust::config(self, mode)?;
        Ok(Tls::Encrypted(tokio_postgres_rustls::MakeRustlsConnect::new(config)))
    }

    #[cfg(not(feature = "tls"))]
    fn encrypted(&self, mode: TlsMode) -> Result<Tls, String> {
        self.plain_instead(mode)
    }

    /// What becomes of it in a program without the feature.
    #[cfg(any(test, not(feature = "tls")))]
    fn plain_instead(&self, mode: TlsMode) -> Result<Tls, String> {
        if mode == TlsMode::Prefer && self.certificate.is_none() {
            return Ok(Tls::Plain);
        }
        let what = match mode {
            TlsMode::Prefer => "`sslcert`".to_owned(),
            mode => format!("`sslmode={}`", mode.name()),
        };
        Err(format!(
            "{what} needs TLS, and this program was built without it: add the feature `tls` to `windlass` in \
             Cargo.toml"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(settings: &TlsSettings) -> Result<Tls, String> {
        settings.prepare(Config::new().host("db"))
    }

    #[test]
    fn modes_have_the_names_that_everybody_knows_them_by() {
        for (name, mode) in MODES {
            assert_eq!(TlsMode::parse(name), Ok(mode));
            assert_eq!(mode.name(), name);
        }
        let why = TlsMode::parse("verify-fully").unwrap_err();
        assert!(why.contains("did you mean `verify-full`"), "{why}");
        let why = TlsMode::parse("allow").unwrap_err();
        assert!(why.contains("disable, prefer, require, verify-ca, verify-full"), "{why}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let (ca, system) = (Some("ca.crt".into()), Some("system".into()));
        for (mode, roots, certificate, word) in [
            (Some(TlsMode::VerifyCa), None, None, "anybody can have"),
            (Some(TlsMode::Require), system.clone(), None, "anybody can have"),
            (Some(TlsMode::Prefer), ca.clone(), None, "sslrootcert` is of no use"),
            (None, ca.clone(), None, "sslrootcert` is of no use"),
            (Some(TlsMode::Disable), system.clone(), None, "sslrootcert` is of no use"),
            (Some(TlsMode::VerifyFull), None, Some("a.crt".into()), "belong together"),
        ] {
            let settings = TlsSettings { mode, roots, certificate, key: None };
            let why = prepared(&settings).err().expect("it makes no sense");
            assert!(why.contains(word), "{settings:?}: {why}");
        }
        let judged = |mode, roots| TlsSettings { mode, roots, ..TlsSettings::default() }.judged();
        assert_eq!(judged(Some(TlsMode::Require), ca), Ok(TlsMode::VerifyCa));
        assert_eq!(judged(None, system), Ok(TlsMode::VerifyFull));
        assert_eq!(judged(None, None), Ok(TlsMode::Prefer));
    }

    #[test]
    fn without_the_feature_a_demand_names_it_and_a_preference_is_plain() {
        let settings = TlsSettings::default();
        for mode in [TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull] {
            let why = settings.plain_instead(mode).err().expect("there is no TLS");
            assert!(why.contains(mode.name()) && why.contains("feature `tls`"), "{why}");
        }
        assert!(matches!(settings.plain_instead(TlsMode::Prefer), Ok(Tls::Plain)));
        let settings = TlsSettings { certificate: Some("own.crt".into()), ..settings };
        assert!(settings.plain_instead(TlsMode::Prefer).is_err_and(|why| why.contains("feature `tls`")));
    }
}
