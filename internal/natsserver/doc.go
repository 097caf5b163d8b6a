// Package natsserver runs a NATS server with JetStream as a child process, or a cluster of three of them: for tests and for
// `raysys local`.
//
//	s, err := natsserver.Run(ctx, natsserver.Options{Servers: 3})
//	defer s.Close()
//	s.URL()               // nats://127.0.0.1:40001,nats://127.0.0.1:40002,nats://127.0.0.1:40003
//	s.Process(1).Kill()   // the others go on
//	s.Start(ctx, 1)
//
// The servers are numbered from 1. They listen on ports of loopback that were free, keep their data over restarts in a folder
// that Close removes, and do not outlive this process. The package speaks HTTP to a server's monitoring port and has no client.
package natsserver
