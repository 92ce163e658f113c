//! queries
