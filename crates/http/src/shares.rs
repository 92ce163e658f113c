//! Who holds how many connections: nobody all of them. Elsewhere a peer is an address; on this host, where everybody has the same, it
//! is the user whose socket it is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections there are.
#[derive(Debug)]
pub struct Shares {
    /// One owner's at most.
    each: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// By address; of IPv6 by network: a host has as many addresses in it as it likes.
    elsewhere: HashMap<IpAddr, usize>,
    /// Of this host. Whose they are is looked up only where there are so many that somebody may have too many.
    here: HashMap<SocketAddr, usize>,
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    peer: SocketAddr,
}

impl Shares {
    pub fn new(each: usize) -> Arc<Shares> {
        Arc::new(Shares { each, held: Mutex::default() })
    }

    /// Nothing where its owner has enough. May read a file of the kernel, so not for threads that nobody may wait for.
    pub fn take(self: &Arc<Shares>, peer: SocketAddr) -> Option<Share> {
        self.take_with(peer, users)
    }

    fn take_with(
        self: &Arc<Shares>,
        peer: SocketAddr,
        users: impl FnOnce() -> HashMap<SocketAddr, u32>,
    ) -> Option<Share> {
        let peer = canonical(peer);
        let is_taken = match peer.ip().is_loopback() {
            false => self.take_elsewhere(network(peer.ip())),
            true => self.take_here(peer, users),
        };
        is_taken.then(|| Share { shares: Arc::clone(self), peer })
    }

    fn take_elsewhere(&self, network: IpAddr) -> bool {
        let mut held = self.held();
        let count = held.elsewhere.entry(network).or_default();
        let fits = *count < self.each;
        *count += usize::from(fits);
        fits
    }

    fn take_here(&self, peer: SocketAddr, users: impl FnOnce() -> HashMap<SocketAddr, u32>) -> bool {
        let is_many = self.held().here.values().sum::<usize>() >= self.each;
        // Others come and go meanwhile.
        let known = if is_many { users() } else { HashMap::new() };
        let mut held = self.held();
        if is_many {
            let same = held.here.iter().filter(|(other, _)| known.get(other) == known.get(&peer));
            if same.map(|(_, count)| count).sum::<usize>() >= self.each {
                return false;
            }
        }
        *held.here.entry(peer).or_default() += 1;
        true
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        match self.peer.ip().is_loopback() {
            false => give_back(&mut held.elsewhere, network(self.peer.ip())),
            true => give_back(&mut held.here, self.peer),
        }
    }
}

fn give_back<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = held.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (!0 << 64)).into(),
        ip => ip,
    }
}

fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// The users of all sockets of this host, by their own address.
fn users() -> HashMap<SocketAddr, u32> {
    let mut users = HashMap::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        users.extend(text.lines().skip(1).filter_map(socket));
    }
    users
}

/// A line of the kernel's table: number, own address, the other's, state, four columns, user.
fn socket(line: &str) -> Option<(SocketAddr, u32)> {
    let mut words = line.split_whitespace();
    let (address, port) = words.nth(1)?.split_once(':')?;
    let user = words.nth(5)?.parse().ok()?;
    let mut bytes = Vec::new();
    // Words of 32 bits, each in the order of this machine.
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.as_slice() {
        four if four.len() == 4 => <[u8; 4]>::try_from(four).ok()?.into(),
        sixteen => <[u8; 16]>::try_from(sixteen).ok()?.into(),
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((canonical(SocketAddr::new(ip, port)), user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn peers(ip: &str, ports: std::ops::Range<u16>) -> Vec<SocketAddr> {
        ports.map(|port| SocketAddr::new(ip.parse().unwrap(), port)).collect()
    }

    #[test]
    fn an_address_gets_its_share_and_others_theirs() {
        let shares = Shares::new(4);
        let take = |peer: &SocketAddr| shares.take_with(*peer, HashMap::new);
        let held: Vec<Share> = peers("10.0.0.1", 1..100).iter().filter_map(take).collect();
        assert_eq!(held.len(), 4);
        assert_eq!(
            peers("10.0.0.2", 1..100).iter().filter_map(take).count(),
            99,
            "each is given back at once"
        );
        // A host of IPv6 is its network.
        let hosts = (1..100).map(|host| format!("[2001:db8::{host:x}]:1").parse().unwrap());
        let other: Vec<Share> = hosts.filter_map(|peer| take(&peer)).collect();
        assert_eq!(other.len(), 4);
        assert!(take(&"[2001:db8:0:1::1]:1".parse().unwrap()).is_some());
        drop(held);
        assert!(take(&"10.0.0.1:1".parse().unwrap()).is_some());
        drop(other);
        let held = shares.held();
        assert!(held.elsewhere.is_empty() && held.here.is_empty());
    }

    #[test]
    fn on_this_host_a_user_gets_a_share() {
        let shares = Shares::new(4);
        let users = || {
            let of = |user: u32, ports| peers("127.0.0.1", ports).into_iter().map(move |peer| (peer, user));
            of(1000, 1..50).chain(of(0, 50..100)).collect()
        };
        let all = peers("127.0.0.1", 1..100);
        let held: Vec<Share> = all.iter().filter_map(|peer| shares.take_with(*peer, users)).collect();
        assert_eq!(held.len(), 8, "four of each user");
        assert_eq!(held[4].peer.port(), 50);
    }

    #[test]
    fn the_kernel_says_whose_a_connection_is() {
        let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not every host has IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_far, peer) = listener.accept().unwrap();
            assert_eq!(users().get(&canonical(peer)), Some(&own), "{peer}");
        }
    }
}
