//go:build unix

package testkit

// Stop ends the server in good order.
func (c *ConsulServer) Stop() { c.must("stop", c.s.Stop()) }

// Pause stops the server's process as SIGSTOP does, and Resume lets it go on.
func (c *ConsulServer) Pause() { c.must("pause", c.s.Pause()) }

// Resume ends Pause.
func (c *ConsulServer) Resume() { c.must("resume", c.s.Resume()) }
