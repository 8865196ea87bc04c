//! The tests of this crate, in one program: each of its own would be linked again with all that the
//! crate uses.

mod aliases;
mod allocations;
mod bypass;
mod changes_of_all;
mod date_math;
mod denied_by_the_plugin;
mod exclusions;
mod explain;
#[path = "forwarding/main.rs"]
mod forwarding;
mod hidden_terms;
mod made_since;
mod misleading;
#[path = "shared/needs.rs"]
mod needs;
mod plugins;
mod reading;
mod repeated_items;
#[path = "shared/requests.rs"]
mod requests;
mod size;
mod unlisted;
mod v4;
