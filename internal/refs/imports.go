package refs

import (
	"runtime"
	"sync"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// imports are the futures of other nodes that this node holds. A reference that arrives many times is one future here,
// with one value.
type imports struct {
	refs *References

	mu   sync.Mutex // guards the rest
	list map[exportKey]weak.Pointer[RemoteSource]
	// submitters has the submitters' futures for futures of this node that have the value. It keeps neither: references
	// here keep both; see ownedHere.
	submitters map[weak.Pointer[core.Future]]weak.Pointer[RemoteSource]
}

// take returns the future that owner names, after a reference to it has arrived for which from counts this node; zero
// where the other half of a pair does.
func (i *imports) take(id raysys.TaskID, owner, from exportKey) *core.Future {
	i.mu.Lock()
	s := i.list[owner].Value()
	if s == nil {
		s = &RemoteSource{refs: i.refs, Owner: owner.owner, Number: owner.number, id: id, borrow: &borrow{owner: owner}}
		s.future = core.NewUntyped(i.refs.job, s)
		if i.list == nil {
			i.list = map[exportKey]weak.Pointer[RemoteSource]{}
		}
		i.list[owner] = weak.Make(s)
		// Weak: what a cleanup holds stays until s is collected, and the node leads to s, so that a closed node would
		// stay for ever.
		refs := weak.Make(i.refs)
		runtime.AddCleanup(s, func(b *borrow) {
			if r := refs.Value(); r != nil {
				r.collected(b)
			}
		}, s.borrow)
	} else if !s.future.Fresh() {
		s.future = core.NewUntyped(i.refs.job, s)
	}
	f := s.future
	i.mu.Unlock()
	if i.refs.table.arrived(s.borrow, from) {
		i.refs.register(s.borrow)
	}
	runtime.KeepAlive(s)
	return &f.Future
}

// owns notes the submitter's future of c, which is a future of this node.
func (i *imports) owns(c *core.Future, submitter *RemoteSource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := weak.Make(c)
	if i.submitters[k].Value() == submitter {
		return
	}
	if i.submitters == nil {
		i.submitters = map[weak.Pointer[core.Future]]weak.Pointer[RemoteSource]{}
	}
	i.submitters[k] = weak.Make(submitter)
	refs := weak.Make(i.refs)
	runtime.AddCleanup(submitter, func(k weak.Pointer[core.Future]) {
		if r := refs.Value(); r != nil {
			r.imports.disowns(k)
		}
	}, k)
}

// disowns is called by the collector's goroutine when a submitter's future is not referred to any more.
func (i *imports) disowns(k weak.Pointer[core.Future]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.submitters[k].Value() == nil {
		delete(i.submitters, k)
	}
}

// submitterOf finds the submitter's future of c, a future of this node; nil when nothing here refers to it.
func (i *imports) submitterOf(c *core.Future) *RemoteSource {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.submitters[weak.Make(c)].Value()
}

// again returns a future for a reference to s that is passed on.
func (i *imports) again(s *RemoteSource) *core.Future {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &s.future.Future
}

// of returns the futures of a node that are held and whose tasks are recorded.
func (i *imports) of(owner core.NodeKey) (list []*RemoteSource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, w := range i.list {
		if s := w.Value(); k.owner == owner && s != nil && s.run.Load() != 0 {
			list = append(list, s)
		}
	}
	return list
}

// size returns how many futures of other nodes are held.
func (i *imports) size() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.list)
}

// forget removes a future that is gone.
func (i *imports) forget(owner exportKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list[owner].Value() == nil { // else a reference has arrived since
		delete(i.list, owner)
	}
}
