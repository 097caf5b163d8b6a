package grainengine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// fakeKeeper keeps the States of a fakeNet that are objects. It lets go of one as soon as it hears that no record lists it.
type fakeKeeper struct {
	net *fakeNet

	mu      sync.Mutex // guards the rest
	objects map[raysys.TaskID][]byte
	open    map[raysys.TaskID]bool // KeptState was not called
	next    func() raysys.TaskID   // nil: drawn
	onKeep  func(size int) error   // before an object is kept
	onFetch func() error           // before one is read
	told    func(err error)        // the error of KeptState
}

var _ graindir.Retainer = (*fakeKeeper)(nil)

func (k *fakeKeeper) Retain(_ graindir.ID, _ string, _ []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	done(nil, nil, raysys.ErrNoStore)
}

func (k *fakeKeeper) Restore([]byte) ([]*core.Future, error) { return nil, raysys.ErrNoStore }

func (k *fakeKeeper) KeepState(id graindir.ID, name string, record []byte, done func([]byte, raysys.TaskID, error)) {
	k.net.answer("keep", func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.onKeep != nil {
			if err := k.onKeep(len(record)); err != nil {
				done(nil, raysys.TaskID{}, err)
				return
			}
		}
		oid := raysys.TaskID{Hi: rand.Uint64(), Lo: rand.Uint64()}
		if k.next != nil {
			oid = k.next()
		}
		k.objects[oid], k.open[oid] = record, true
		done([]byte(oid.String()), oid, nil)
	})
}

func (k *fakeKeeper) KeptState(_ graindir.ID, _ string, object raysys.TaskID, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, object)
	if k.told != nil {
		k.told(err)
	}
	if err != nil && !errors.Is(err, raysys.ErrOutcomeUnknown) && !errors.Is(err, raysys.ErrMoved) && !errors.Is(err, grains.ErrETag) {
		delete(k.objects, object)
	}
}

func (k *fakeKeeper) FetchState(_ graindir.ID, _ string, written []byte, done func([]byte, error)) {
	k.net.answer("fetch", func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.onFetch != nil {
			if err := k.onFetch(); err != nil {
				done(nil, err)
				return
			}
		}
		for oid, b := range k.objects {
			if oid.String() == string(written) {
				done(b, nil)
				return
			}
		}
		done(nil, fmt.Errorf("%w: %s", raysys.ErrObjectLost, written))
	})
}

// left is how many objects there are, and of how many nobody said what became of them.
func (k *fakeKeeper) left() (objects, open int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.objects), len(k.open)
}
