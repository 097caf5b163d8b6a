package protoactor

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/cluster"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
)

// bound is a kind of proto.Actor with the kind of grain that stands for it.
type bound struct {
	kind  *cluster.Kind
	place string // the line that defined it
	grain grains.Kind[anchor]
	where grains.Func0[anchor, address]
	gone  grains.Act[anchor, string]
	flush grains.Act[anchor, string]
}

// kinds are all kinds, by name. Anchors are made by new(anchor), and find theirs here.
var kinds struct {
	mu sync.Mutex
	m  map[string]*bound
}

// prefix is what the names of the kinds of grain begin with.
const prefix = "proto."

func boundOf(kind string) *bound {
	kinds.mu.Lock()
	defer kinds.mu.Unlock()
	return kinds.m[kind]
}

func kindNames() (names []string) {
	kinds.mu.Lock()
	defer kinds.mu.Unlock()
	for name := range kinds.m {
		names = append(names, name)
	}
	return names
}

// Kinds defines kinds of proto.Actor, but for those that Kind has defined: each is a kind of grain called proto.<kind>. Call it
// once, in a package variable. A bad kind is reported by system.New. It returns its arguments.
func Kinds(all ...*cluster.Kind) []*cluster.Kind {
	for _, k := range all {
		if b := boundOf(nameOf(k)); b == nil || b.kind != k {
			define(k, nil)
		}
	}
	return all
}

// Kind defines one kind of proto.Actor with options of its grains: Holds, Label, Placement and such say where its actors run.
// Actors decide themselves how long they live, so IdleAfter has no effect, and StatelessWorker and Durable are refused. It
// returns k, for Kinds.
func Kind(k *cluster.Kind, opts ...grains.Option) *cluster.Kind {
	define(k, opts)
	return k
}

// define is called by Kinds and Kind alone: the place of the kind is the line that calls those.
func define(k *cluster.Kind, opts []grains.Option) {
	_, file, line, _ := runtime.Caller(2)
	name := nameOf(k)
	b := &bound{kind: k, place: fmt.Sprintf("%s:%d", file, line)}
	old := boundOf(name)
	b.grain = grains.Define[anchor](prefix+name, append(opts, grains.Keep(), grains.Unfiltered(), func(o *grainengine.KindOptions) error {
		switch {
		case name == "" || k.Props == nil:
			return fmt.Errorf("%s: a *cluster.Kind has no name or no Props: make it with cluster.NewKind", b.place)
		case old != nil:
			return fmt.Errorf("kind %q of proto.Actor is defined twice: at %s and at %s", name, old.place, b.place)
		case o.Stateless || o.Durable:
			return fmt.Errorf("%s: kind %q of proto.Actor: %w", b.place, name, errOption)
		}
		return nil
	})...)
	if old != nil {
		return
	}
	b.where = grains.Method0(b.grain, "where", (*anchor).where).Idempotent()
	b.gone = grains.Action(b.grain, "gone", (*anchor).gone)
	b.flush = grains.Action(b.grain, "flush", (*anchor).flush)
	kinds.mu.Lock()
	defer kinds.mu.Unlock()
	if kinds.m == nil {
		kinds.m = map[string]*bound{}
	}
	kinds.m[name] = b
}

var errOption = errors.New("options StatelessWorker and Durable are for grains: an actor has one activation, and commits by State")

func nameOf(k *cluster.Kind) string {
	if k == nil {
		return ""
	}
	return k.Kind
}
