//! Benchmarks of parts of rolegate by criterion, in `benches/`. They are a package of their own, so
//! that `cargo test` does not compile criterion. `make bench` runs them; [`load`] is what several
//! of them share.

use std::path::Path;
use std::sync::Arc;

use document::{MapFiles, Problem};
use policy::Loaded;

/// Loads a policy with this key set.
///
/// # Errors
/// All its problems.
pub fn load(policy: &str, jwks: &str) -> Result<Arc<Loaded>, Vec<Problem>> {
    let files = MapFiles::new("policy.yaml", policy).and("jwks.json", jwks);
    policy::load(&files, Path::new("policy.yaml")).map(Arc::new)
}
