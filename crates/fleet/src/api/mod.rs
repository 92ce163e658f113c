//! Asking: one registry of tools for HTTP and MCP, behind token, audit and rate limit, in that order.

pub(crate) mod audit;
