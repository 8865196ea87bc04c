//! The tests of this crate, in one program: each of its own would be linked again with all that the
//! crate uses.

mod actors;
mod alloc;
mod answers;
mod api_keys;
mod certificates;
mod identity_header;
mod metadata;
mod paths;
mod recorded;
mod requests;
mod search_cluster;
mod token_places;
