pub(crate) fn run(_: &crate::cli::QueryOptions) -> Result<(), crate::failure::Failure> { Ok(()) }
