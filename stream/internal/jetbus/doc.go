// Package jetbus is a bus.Bus on NATS JetStream: each stream is one of JetStream's, and the event of a key has the subject
//
//	raysys.<stream>.<partition>.<key>
//
// Names and keys are escaped, so a key may be any bytes. A message has an ID, by which the server drops one that was sent again because its
// answer was lost.
package jetbus
