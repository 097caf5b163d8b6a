package natsserver

import (
	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/natsbuild"
)

// programVariable names the server, as it does for `raysys local`.
const programVariable = "RAYSYS_NATS_PROGRAM"

// Find returns the path of a server where a person may have put one: see childserver.Lookup.
func Find() (string, error) {
	return childserver.Lookup{Name: "NATS", File: "nats-server", Variable: programVariable, Build: natsbuild.Command}.Find()
}
