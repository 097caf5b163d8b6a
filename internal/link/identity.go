package link

import (
	"encoding/binary"
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

func (id *Identity) append(dst []byte) []byte {
	dst = appendText(dst, tagCluster, id.Cluster)
	dst = appendText(dst, tagNode, id.Node)
	dst = appendNumber(dst, tagIncarnation, id.Incarnation)
	dst = appendText(dst, tagAddress, id.Address)
	dst = appendText(dst, tagRole, id.Role)
	dst = appendText(dst, tagVersion, id.Version)
	dst = appendText(dst, tagNamespace, id.Namespace)
	var entry []byte
	for _, f := range id.Functions {
		entry = appendText(entry[:0], tagFunctionKind, f.Kind)
		entry = appendText(entry, tagFunctionName, f.Name)
		// Eight bytes and not a varint: fingerprints are hashes.
		entry = appendField(entry, tagFunctionFingerprint, binary.LittleEndian.AppendUint64(nil, f.Fingerprint))
		dst = appendField(dst, tagFunction, entry)
	}
	return dst
}

// read takes one field and reports whether it is an identity's.
func (id *Identity) read(tag uint64, value []byte) (bool, error) {
	switch tag {
	case tagCluster:
		return true, readText(tag, value, &id.Cluster)
	case tagNode:
		return true, readText(tag, value, &id.Node)
	case tagIncarnation:
		return true, readNumber(tag, value, &id.Incarnation)
	case tagAddress:
		return true, readText(tag, value, &id.Address)
	case tagRole:
		return true, readText(tag, value, &id.Role)
	case tagVersion:
		return true, readText(tag, value, &id.Version)
	case tagNamespace:
		return true, readText(tag, value, &id.Namespace)
	case tagFunction:
		if len(id.Functions) == maxFunctions {
			return true, fmt.Errorf("%w: more than %d functions", ErrCorrupt, maxFunctions)
		}
		var f Function
		err := f.read(value)
		id.Functions = append(id.Functions, f)
		return true, err
	}
	return false, nil
}

func (f *Function) read(b []byte) error {
	return readFields(b, func(tag uint64, value []byte) error {
		switch tag {
		case tagFunctionKind:
			return readText(tag, value, &f.Kind)
		case tagFunctionName:
			return readText(tag, value, &f.Name)
		case tagFunctionFingerprint:
			if len(value) != 8 {
				return fmt.Errorf("%w: a fingerprint of %d bytes", ErrCorrupt, len(value))
			}
			f.Fingerprint = binary.LittleEndian.Uint64(value)
		}
		return nil
	})
}
