//! Which addresses may be asked: loopback and this host's own. Pure, but for the two files that list them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A page of metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn at(address: SocketAddr) -> Target {
        Target { address, path: "/metrics".into() }
    }

    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }
}

/// A URL that may be asked, or a sentence that says why not.
pub fn target(url: &str) -> Result<Target, String> {
    let target = parse(url)?;
    let ip = target.address.ip();
    match ip.is_loopback() || own_addresses().contains(&ip) {
        true => Ok(target),
        false => Err(format!(
            "{ip} is not an address of this host, and servers elsewhere are not asked; run `gpuwhy trace --servers` there"
        )),
    }
}

/// `http://127.0.0.1:8000`, with or without a path.
fn parse(url: &str) -> Result<Target, String> {
    let wrong = |why: &str| format!("'{url}' {why}; write it as http://127.0.0.1:8000/metrics");
    if url.starts_with("https://") {
        return Err(wrong("wants TLS, which is not spoken to local servers"));
    }
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("is no address of a server"))?;
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if path.contains(|c: char| c.is_control() || c.is_whitespace()) || !path.is_ascii() || path.len() > 1024 {
        return Err(wrong("has a path that cannot be asked for"));
    }
    let host =
        host.strip_prefix("localhost:").map_or_else(|| host.into(), |port| format!("127.0.0.1:{port}"));
    // Names are not looked up: that would ask somebody else.
    let address: SocketAddr = host.parse().map_err(|_| wrong("has no numeric address with a port"))?;
    let path = if matches!(path, "" | "/") { "/metrics" } else { path };
    Ok(Target { address, path: path.into() })
}

fn own_addresses() -> Vec<IpAddr> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let four = of_fib_trie(&read("/proc/net/fib_trie")).into_iter().map(IpAddr::V4);
    four.chain(of_if_inet6(&read("/proc/net/if_inet6")).into_iter().map(IpAddr::V6)).collect()
}

/// The kernel's routes: an address, and below it `/32 host LOCAL` if it is the host's own.
fn of_fib_trie(text: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut own = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            own.extend(last);
        }
    }
    own
}

/// Each line begins with an address, 32 hex digits.
fn of_if_inet6(text: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.get(..32)?, 16).ok().map(Ipv6Addr::from);
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_with_a_port() {
        let url = |text| parse(text).map(|target| target.url());
        assert_eq!(url("http://127.0.0.1:8000"), Ok("http://127.0.0.1:8000/metrics".into()));
        assert_eq!(url("http://localhost:8000/"), Ok("http://127.0.0.1:8000/metrics".into()));
        assert_eq!(url("http://[::1]:80/own?x=1"), Ok("http://[::1]:80/own?x=1".into()));
        for wrong in [
            "",
            "127.0.0.1:8000",
            "http://127.0.0.1",
            "http://example.org:80/",
            "https://127.0.0.1:8000",
            "http://user@127.0.0.1:80/",
            "http://127.0.0.1:80/a b",
            "http://127.0.0.1:80/\r\nHost: x",
            "http://127.0.0.1:99999",
        ] {
            assert!(parse(wrong).unwrap_err().contains("write it as"), "{wrong}");
        }
    }

    #[test]
    fn only_this_host_is_asked() {
        assert!(target("http://127.8.9.1:8000").is_ok() && target("http://[::1]:8000").is_ok());
        for elsewhere in
            ["http://192.0.2.1:80", "http://[2001:db8::1]:80", "http://0.0.0.0:80", "http://224.0.0.1:80"]
        {
            assert!(target(elsewhere).unwrap_err().contains("not an address of this host"), "{elsewhere}");
        }
    }

    #[test]
    fn the_kernel_lists_its_own_addresses() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.5\n        \
                    /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(of_fib_trie(trie), [Ipv4Addr::new(10, 0, 0, 5)]);
        let six = "00000000000000000000000000000001 01 80 10 80       lo\nfe80000000000000025056fffec00008 02 40 20 80 eth0\n";
        assert_eq!(of_if_inet6(six)[0], Ipv6Addr::LOCALHOST);
        assert_eq!(of_if_inet6(six).len(), 2);
    }
}
