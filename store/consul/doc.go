// Package consul is the store.KV on a Consul server or agent.
//
//	Store ──► lanes: 9 connections for data, 5 for watches, 2 for sessions ──► Consul's HTTP API
//
// A node has at most 16 connections to one Consul address (C13; Consul allows 200 from one client address), and neither
// a full queue of writes nor the watches can keep a session's renewal waiting.
//
// Keys lie under Config.Prefix. Reads are consistent. Of several addresses one is used until it cannot be connected to.
// A change whose answer did not come is ErrUnknownOutcome, unless nothing was sent.
//
//	cfg, err := consul.FromEnv(os.Getenv)
//	...
//	kv, err := consul.Open(cfg)
//	...
//	defer kv.Close()
//
// The package does not start, configure or watch over Consul.
package consul
