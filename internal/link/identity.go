package link

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// Identity is what a node says of itself in the handshake.
type Identity struct {
	Cluster     string
	Node        raysys.NodeID
	Incarnation uint64 // which life of the node this is
	Address     string // where others reach it; empty when they cannot
	Role        string
	Version     string // of the program, for people
	Namespace   string
	Functions   []Function // in the order of its table: calls name a function by its place
}

// Function is one entry of a node's table. Differing fingerprints under one name mean that values of one side do not
// decode on the other (rule C4): what follows is for the user to say.
type Function struct {
	Kind        string
	Name        string
	Fingerprint uint64
}

// maxFunctions bounds a table.
const maxFunctions = 1 << 16

// check is about what the node's own program hands in.
func (id *Identity) check() error {
	switch {
	case id.Cluster == "":
		return errors.New("the identity has no cluster")
	case id.Node == "":
		return errors.New("the identity has no node")
	case len(id.Functions) > maxFunctions:
		return fmt.Errorf("the identity has %d functions, the limit is %d", len(id.Functions), maxFunctions)
	}
	for _, s := range []string{id.Cluster, string(id.Node), id.Address, id.Role, id.Version, id.Namespace} {
		if len(s) > maxText {
			return fmt.Errorf("a name in the identity has %d bytes, the limit is %d", len(s), maxText)
		}
	}
	for _, f := range id.Functions {
		if len(f.Kind) > maxText || len(f.Name) > maxText {
			return fmt.Errorf("the name of function %.32q has %d bytes, the limit is %d", f.Name, len(f.Kind)+len(f.Name), maxText)
		}
	}
	return nil
}

// Tags of an identity, in a handshake's body.
const (
	tagCluster     = 1
	tagNode        = 2
	tagIncarnation = 3
	tagAddress     = 4
	tagRole        = 5
	tagVersion     = 6
	tagNamespace   = 7
	tagFunction    = 8 // repeated, with fields of its own:

	tagFunctionKind        = 1
	tagFunctionName        = 2
	tagFunctionFingerprint = 3
)

func (id *Identity) fields() []field {
	return []field{
		{tagCluster, &id.Cluster},
		{tagNode, (*string)(&id.Node)},
		{tagIncarnation, &id.Incarnation},
		{tagAddress, &id.Address},
		{tagRole, &id.Role},
		{tagVersion, &id.Version},
		{tagNamespace, &id.Namespace},
		{tagFunction, &id.Functions},
	}
}

func (f *Function) fields() []field {
	return []field{
		{tagFunctionKind, &f.Kind},
		{tagFunctionName, &f.Name},
		{tagFunctionFingerprint, (*fixed64)(&f.Fingerprint)},
	}
}
