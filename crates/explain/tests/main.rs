//! The tests of this crate, in one program: each of its own would be linked again with all that the
//! crate uses.

mod cluster;
mod cluster_roles;
mod conditions;
mod explanations;
mod fixes;
mod golden;
mod long_chains;
mod many_needs;
mod unknown_names;
mod who_can;
mod who_can_generated;
mod who_can_on_cluster;
mod who_can_on_dashboards;
