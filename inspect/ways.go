package inspect

import "github.com/raysys/raysys"

// Way says whether one node can open a connection to another. Two nodes need one of the two ways between them. A
// firewall that closes the other way stays unnoticed until that way is needed.
type Way struct {
	From  raysys.NodeID `json:"from"`
	To    raysys.NodeID `json:"to"`
	Error string        `json:"error,omitempty"` // "" is open
}
