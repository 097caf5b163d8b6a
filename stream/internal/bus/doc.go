// Package bus is what a stream needs of the system that stores it, and a form of that in memory.
//
//	stream ── Bus ──┬── Memory          one process, and tests
//	                └── jetbus.Bus      NATS JetStream
//
// Both pass the tests of package bustest.
package bus
