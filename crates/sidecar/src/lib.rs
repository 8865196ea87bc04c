//! The parts of the process `rolegate`: listeners, reload, key fetching, admin, metrics, logs, command line.

pub mod grpc;
