package operate

import (
	"github.com/raysys/raysys/inspect"
)

// maxHeld bounds how many objects one answer lists.
const maxHeld = 10_000

// ownMemory lists this node's own store.
func ownMemory(o *Operator, limit int) inspect.NodeMemory {
	store := o.Node.Objects()
	m := inspect.NodeMemory{Name: o.Name, Store: inspect.ObjectStats(store.Stats()), Objects: []inspect.HeldObject{}}
	if c := o.Node.Cluster(); c != nil {
		m.Incarnation, m.Transfer, m.Exported = o.Self().Incarnation, inspect.TransferStats(store.Transfers()), c.Refs.Exported()
	}
	for _, i := range store.List() {
		m.Count++
		if len(i.Forms) > 0 {
			m.Bytes += i.Size
		}
		if m.Count <= min(limit, maxHeld) {
			m.Objects = append(m.Objects, inspect.HeldObject(i))
		}
	}
	m.Objects = bounded(m.Objects)
	return m
}
