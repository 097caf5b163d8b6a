// Package childserver has what packages consulserver and natsserver share: they run a server that others wrote as a child
// process.
//
//	Module ── Build ──► bin/consul, bin/nats-server     from source, by the go command
//	Lookup ── Find ───► the path of a server that a person or Build has put somewhere
//	Process ── Launch, Await ──► it serves ── Pause, Resume, Terminate, Kill ──► Exited
//
// It knows neither a server's configuration nor its protocol.
package childserver
