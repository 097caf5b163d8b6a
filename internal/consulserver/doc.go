// Package consulserver runs a Consul server as a child process: for tests, for `raysys local` and for `raysys-lab bench`.
//
//	path, err := consulserver.Find()
//	s, err := consulserver.Run(ctx, consulserver.Options{Program: path, Disk: true})
//	defer s.Close()
//	cfg := consul.Config{Addresses: []string{s.Address()}}
//
// A server listens on ports of loopback that were free, in a folder of its own that Close removes. It can be stopped,
// started again, paused and killed, and does not outlive this process. With Options.Join it is one more server of the
// same cluster, or with Client an agent that is none.
package consulserver
