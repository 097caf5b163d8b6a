// Package wire is what tasks and grains share of the way to another node: the frames' kinds, the peer they are sent
// to, and how values, references, errors and submitting turns travel in them.
//
//	tasks ──┐                                            ┌── tasks
//	        ├── Peer (Send, Flush, Open) ════ Peer ──────┤
//	grains ─┘        implemented by system               └── grains
//
// Rules: a decoder trusts no length and never panics; what it returns does not alias its input, which the link reuses;
// no wall clock travels, only remaining time.
//
// The package does not talk to the network: system implements Peer over a link.
package wire
