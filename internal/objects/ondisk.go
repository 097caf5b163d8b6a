package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// A named object that was put with raysys.OnDisk lies in a file on each node that keeps it. The record of its name lists
// these nodes, and the label of the file is the key of that record. So the record alone says how long a file stays: a
// later incarnation of the node asks for it, offers the file again or deletes it (recoverfiles.go). A node whose file is
// damaged or gone gets the bytes of another one (restorefile.go).

// Files is what a node needs to keep objects on disk.
type Files struct {
	// Missing says what the configuration of the node lacks for that; empty: nothing.
	Missing string
	// StoreID is the random id of the store that has the records of names. Files of another store are left alone.
	StoreID string
	// Directory has these records.
	Directory *registry.Directory
}

// label is what the file of an object is kept for.
func (o *Objects) label(key string) string { return o.files.StoreID + "\x00" + key }

// labelled returns the key in a label; false: the label is of another store.
func (o *Objects) labelled(label string) (key string, ours bool) {
	id, key, _ := strings.Cut(label, "\x00")
	return key, id == o.files.StoreID
}

// putOnDisk gives an object that is about to be named its file.
func (o *Objects) putOnDisk(ctx context.Context, future *core.Future, obj *objectstore.Object, key string) error {
	d, err := o.Describe(future)
	if err != nil {
		return err
	}
	if len(d.Refs) > 0 {
		return fmt.Errorf("%w: OnDisk of a value that holds references: what they stand for would not come back", raysys.ErrBadOption)
	}
	return o.persist(ctx, obj, key)
}

// persist gives an object a file under the key of its name.
func (o *Objects) persist(ctx context.Context, obj *objectstore.Object, key string) error {
	if o.files.Missing != "" {
		return fmt.Errorf("%w: OnDisk on node %s: %s", raysys.ErrNoStore, o.name, o.files.Missing)
	}
	return obj.Persist(ctx, o.label(key))
}

// onDisk are the nodes that have a file, this one and others.
func onDisk(self core.NodeKey, others []core.NodeKey) []raysys.NodeID {
	nodes := []raysys.NodeID{self.Node}
	for _, k := range others {
		nodes = append(nodes, k.Node)
	}
	return nodes
}

// withFiles lists the nodes to ask for a named object: its owner, its locations, and nodes with a file that have come
// back and are no location yet.
func (o *Objects) withFiles(rec *registry.Record) []registry.Location {
	list := append([]registry.Location{{Node: rec.Owner, Kept: true}}, rec.At...)
	for _, name := range rec.Files {
		if k, ok := o.current(name); ok && !slices.ContainsFunc(list, func(l registry.Location) bool { return l.Node == k }) {
			list = append(list, registry.Location{Node: k, Kept: true})
		}
	}
	return list
}

// current returns the incarnation of a node that is a member.
func (o *Objects) current(name raysys.NodeID) (core.NodeKey, bool) {
	if name == o.self().Node {
		return o.self(), true
	}
	n, ok := o.view().Node(name)
	return core.NodeKey{Node: name, Incarnation: n.Incarnation}, ok
}

// away is the error while some of the nodes that have an object's file are no members: they may come back with it. It
// is nil when all of them are.
func (o *Objects) away(files []raysys.NodeID) error {
	var names []string
	for _, name := range files {
		if _, ok := o.current(name); !ok {
			names = append(names, string(name))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: its file is on node %s, which is not in the cluster now: start that node again", raysys.ErrUnreachable, strings.Join(names, " and on node "))
}

// denied is the error of a node that does not have an object, with what became of its file.
func (o *Objects) denied(oid raysys.TaskID, obj *objectstore.Object) error {
	why := o.store.Damaged(oid)
	if obj != nil {
		why = obj.Lost()
	}
	if why == nil {
		why = errors.New("it has neither a copy nor a file")
	}
	return fmt.Errorf("%w: node %s does not keep it: %w", raysys.ErrObjectLost, o.self(), why)
}
