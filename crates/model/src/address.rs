//! Names of hosts, as people write them.

use std::net::IpAddr;

/// Whether a name or an address, in brackets or not, is this host's own loopback.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_both_families_are_recognised() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "::2", "", "127.0.0.1.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
