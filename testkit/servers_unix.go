//go:build unix

package testkit

// Stop ends the server in good order.
func (c *ConsulServer) Stop() { c.must("stop", c.s.Stop()) }

// Pause stops the server's process as SIGSTOP does, and Resume lets it go on.
func (c *ConsulServer) Pause() { c.must("pause", c.s.Pause()) }

// Resume ends Pause.
func (c *ConsulServer) Resume() { c.must("resume", c.s.Resume()) }

// Stop ends server i in good order.
func (n *NATSServer) Stop(i int) { n.on("stop", i, n.s.Process(n.number(i)).Stop()) }

// Pause stops the process of server i as SIGSTOP does, and Resume lets it go on.
func (n *NATSServer) Pause(i int) { n.on("pause", i, n.s.Process(n.number(i)).Pause()) }

// Resume ends Pause.
func (n *NATSServer) Resume(i int) { n.on("resume", i, n.s.Process(n.number(i)).Resume()) }
