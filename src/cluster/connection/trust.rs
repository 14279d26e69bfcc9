//! Reads the authorities that sign an API server's certificate.

use std::path::Path;

use kube::Config;

use crate::support::http::{machines_own, read_authorities};

/// Reads certificates as PEM.
pub(super) fn parse_authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let certificates = read_authorities(pem);
    match certificates {
        None => Err("has a CA with a certificate that cannot be read".to_owned()),
        Some(none) if none.is_empty() => Err("has a CA without a certificate".to_owned()),
        Some(certificates) => Ok(certificates),
    }
}

/// Trusts the authorities of a file, which is read again every minute.
pub(super) fn follow_file(config: &mut Config, file: &Path) -> Result<(), String> {
    let pem = std::fs::read(file);
    let pem = pem.map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let with_path = |problem: String| format!("{problem}: {}", file.display());
    config.root_cert = Some(parse_authorities(&pem).map_err(with_path)?);
    config.root_cert_file = Some(file.to_owned());
    Ok(())
}

/// Returns the authorities of the configuration with those that the machine trusts: the client library takes either the
/// machine's own or a list.
pub(super) fn with_machines_own(authorities: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let own = machines_own().iter().map(|certificate| certificate.to_vec());
    authorities.iter().cloned().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = include_str!("../../../tests/facts/tls/ca.pem");

    #[test]
    fn a_bundle_is_taken_whole_or_not_at_all() {
        assert_eq!(parse_authorities(CA.as_bytes()).unwrap().len(), 1);
        assert_eq!(parse_authorities(format!("{CA}{CA}").as_bytes()).unwrap().len(), 2);
        for bad in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(parse_authorities(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn authorities_of_the_configuration_come_beside_the_machines_own() {
        let own = parse_authorities(CA.as_bytes()).unwrap();
        assert_eq!(with_machines_own(&own).first(), own.first());
    }
}
