//! Classifies network errors.

use std::{error::Error, io};

use super::CallError;

/// Why a server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkFault {
    /// The host name cannot be resolved.
    UnknownHost,
    /// The connection was refused.
    Refused,
    /// TLS failed: the certificate is invalid, or the server does not speak TLS.
    Tls,
    /// The connection timed out.
    Silent,
    /// Another network error.
    Other,
}

impl CallError {
    /// Returns the network error, if that is why there is no answer.
    pub fn network_fault(&self) -> Option<NetworkFault> {
        let Self::Unreachable(error) = self else { return None };
        let mut cause = Some(error as &(dyn Error + 'static));
        let mut found = if error.is_timeout() { NetworkFault::Silent } else { NetworkFault::Other };
        while let Some(error) = cause {
            found = NetworkFault::of(error).unwrap_or(found);
            cause = error.source();
        }
        Some(found)
    }
}

impl NetworkFault {
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        if error.downcast_ref::<rustls::Error>().is_some() {
            return Some(Self::Tls);
        }
        // The resolver's error has no type of its own.
        if error.to_string().starts_with("dns error") {
            return Some(Self::UnknownHost);
        }
        let error = error.downcast_ref::<io::Error>()?;
        // Nor has a handshake that the other side breaks off.
        if error.to_string().starts_with("tls handshake") {
            return Some(Self::Tls);
        }
        let mut inner = error.get_ref();
        while let Some(error) = inner {
            if error.downcast_ref::<rustls::Error>().is_some() {
                return Some(Self::Tls);
            }
            inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Some(Self::Refused),
            io::ErrorKind::TimedOut => Some(Self::Silent),
            // While a connection is made nothing else is read than a handshake.
            io::ErrorKind::InvalidData => Some(Self::Tls),
            _ => None,
        }
    }
}
