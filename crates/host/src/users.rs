//! Users as the host's own list has them.

use crate::root::{Inside, word};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) home: String,
}

/// Nothing for those that only a directory service knows: asking it would be a connection.
pub(crate) fn user(hosts: &[Inside], uid: u32) -> Option<User> {
    hosts.iter().find_map(|host| find(&host.text("etc/passwd")?, uid))
}

pub(crate) fn user_name(hosts: &[Inside], uid: u32) -> String {
    user(hosts, uid).map_or_else(|| uid.to_string(), |user| user.name)
}

fn find(passwd: &str, uid: u32) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else { return None };
        (id.parse() == Ok(uid)).then_some(User { name: word(name)?, home: (*home).to_string() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nodd\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(find(passwd, 1000), Some(User { name: "ada".into(), home: "/home/ada".into() }));
        assert_eq!(find(passwd, 7), None);
        assert_eq!(user_name(&[], 7), "7");
    }
}
