//! Starts app, Envoy and rolegate on free ports of the loopback interface, for the demo and the tests.
