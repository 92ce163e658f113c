//! Numbers by which a call is known as a trace and a span: made from what it is, so that the same call has the same in an
//! exemplar, in what is pushed and in what is exported later.

/// Of a call: the trace it is, and its one span.
pub(crate) fn of_call(host: &str, pid: u32, tid: u32, start_ns: u64) -> ([u8; 16], [u8; 8]) {
    let host = host.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| mixed(hash ^ u64::from(byte)));
    let thread = (u64::from(pid) << 32) | u64::from(tid);
    let first = mixed(host ^ mixed(thread));
    let second = mixed(first ^ start_ns);
    let third = mixed(second ^ thread);
    let mut trace = [0; 16];
    trace[..8].copy_from_slice(&second.to_be_bytes());
    trace[8..].copy_from_slice(&third.to_be_bytes());
    // All zeros would be no number at all.
    let span = mixed(third).max(1);
    (trace, span.to_be_bytes())
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the input.
pub(crate) fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_number_and_others_have_others() {
        let one = of_call("node", 1, 2, 3);
        assert_eq!(one, of_call("node", 1, 2, 3));
        for other in [of_call("edon", 1, 2, 3), of_call("node", 2, 1, 3), of_call("node", 1, 2, 4)] {
            assert_ne!(one.0, other.0);
            assert_ne!(one.1, other.1);
        }
    }
}
