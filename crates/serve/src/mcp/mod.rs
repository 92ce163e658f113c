//! MCP: the table as an assistant's tools, with answers that fit its budget and whose strings are fenced as data.

mod prompt;
mod resource;
mod server;

pub(crate) use server::Assistant;

use crate::{Questions, ServeError};
use rmcp::ServiceExt;
use std::sync::Arc;

/// Serves one assistant on standard input and output until it hangs up.
pub fn serve_stdio(questions: Questions) -> Result<(), ServeError> {
    let failed = |error: &dyn std::fmt::Display| ServeError::Failed(error.to_string());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    let served = runtime.block_on(async {
        let assistant = Assistant::new(Arc::new(questions));
        let service = match assistant.serve(rmcp::transport::stdio()).await {
            Ok(service) => service,
            // Whoever started us went away before saying anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        service.waiting().await.map(drop).map_err(|error| failed(&error))
    });
    // A read of standard input cannot be ended: not waited for.
    runtime.shutdown_background();
    served
}
