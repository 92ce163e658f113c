//! What waiting costs: GPU-hours and dollars, by cluster, job, rank and cause, and what would be saved.

mod bill;
mod counterfactual;
mod figures;
mod rates;

pub use bill::{Cost, CostLine, Loss, cost};
pub use counterfactual::Counterfactual;
pub use rates::{RateError, Rates};
