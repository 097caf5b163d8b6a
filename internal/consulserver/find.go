package consulserver

import (
	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/consulbuild"
)

// programVariable names the server, as it does for `raysys local`.
const programVariable = "RAYSYS_CONSUL_PROGRAM"

// Find returns the path of a server where a person may have put one: see childserver.Lookup.
func Find() (string, error) {
	return childserver.Lookup{Name: "Consul", File: "consul", Variable: programVariable, Build: consulbuild.Command}.Find()
}
