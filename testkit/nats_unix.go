//go:build unix

package testkit

// Stop ends server i in good order.
func (n *NATSServer) Stop(i int) { n.on("stop", i, n.s.Process(n.number(i)).Stop()) }

// Pause stops the process of server i as SIGSTOP does, and Resume lets it go on.
func (n *NATSServer) Pause(i int) { n.on("pause", i, n.s.Process(n.number(i)).Pause()) }

// Resume ends Pause.
func (n *NATSServer) Resume(i int) { n.on("resume", i, n.s.Process(n.number(i)).Resume()) }
