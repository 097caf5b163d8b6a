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

// diskFiles are the objects of this node that stay in files.
type diskFiles struct {
	o *Objects
	Files
	recovered chan struct{} // closed when the files of earlier incarnations have been looked at
}

// labelOf is what the file of an object is kept for.
func (df *diskFiles) labelOf(key string) string { return df.StoreID + "\x00" + key }

// keyOfLabel returns the key in a label; false: the label is of another store.
func (df *diskFiles) keyOfLabel(label string) (key string, ours bool) {
	id, key, _ := strings.Cut(label, "\x00")
	return key, id == df.StoreID
}

// putOnDisk gives an object that is about to be named its file.
func (df *diskFiles) putOnDisk(ctx context.Context, future *core.Future, obj *objectstore.Object, key string) error {
	d, err := df.o.Describe(future)
	if err != nil {
		return err
	}
	if len(d.Refs) > 0 {
		return fmt.Errorf("%w: OnDisk of a value that holds references: what they stand for would not come back", raysys.ErrBadOption)
	}
	return df.persist(ctx, obj, key)
}

// persist gives an object a file under the key of its name.
func (df *diskFiles) persist(ctx context.Context, obj *objectstore.Object, key string) error {
	if df.Missing != "" {
		return fmt.Errorf("%w: OnDisk on node %s: %s", raysys.ErrNoStore, df.o.name, df.Missing)
	}
	return obj.Persist(ctx, df.labelOf(key))
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
func (df *diskFiles) withFiles(rec *registry.Record) []registry.Location {
	list := append([]registry.Location{{Node: rec.Owner, Kept: true}}, rec.At...)
	for _, name := range rec.Files {
		if k, ok := df.currentOf(name); ok && !slices.ContainsFunc(list, func(l registry.Location) bool { return l.Node == k }) {
			list = append(list, registry.Location{Node: k, Kept: true})
		}
	}
	return list
}

// currentOf returns the incarnation of a node that is a member.
func (df *diskFiles) currentOf(name raysys.NodeID) (core.NodeKey, bool) {
	if name == df.o.self().Node {
		return df.o.self(), true
	}
	n, ok := df.o.view().Node(name)
	return core.NodeKey{Node: name, Incarnation: n.Incarnation}, ok
}

// allAway is the error while some of the nodes that have an object's file are no members: they may come back with it. It
// is nil when all of them are.
func (df *diskFiles) allAway(files []raysys.NodeID) error {
	var names []string
	for _, name := range files {
		if _, ok := df.currentOf(name); !ok {
			names = append(names, string(name))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: its file is on node %s, which is not in the cluster now: start that node again", raysys.ErrUnreachable, strings.Join(names, " and on node "))
}

// whyDenied is the error of a node that does not have an object, with what became of its file.
func (df *diskFiles) whyDenied(oid raysys.TaskID, obj *objectstore.Object) error {
	why := df.o.store.Damaged(oid)
	if obj != nil {
		why = obj.Lost()
	}
	if why == nil {
		why = errors.New("it has neither a copy nor a file")
	}
	return fmt.Errorf("%w: node %s does not keep it: %w", raysys.ErrObjectLost, df.o.self(), why)
}
