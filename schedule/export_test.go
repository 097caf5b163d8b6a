package schedule

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/system"
)

// ShardOf is the shard of a schedule: the one whose page has it.
func ShardOf(n *system.Node, name string) int {
	store, err := due.StoreOf(n)
	if err != nil {
		return -1
	}
	for shard := range store.Shards() {
		found := make(chan bool, 1)
		store.List(due.Query{Shard: shard, Prefix: due.Name{Namespace: n.Namespace(), Name: name}.Key(), Limit: 1}, func(p due.Page, _ error) { found <- p.Count > 0 })
		if <-found {
			return shard
		}
	}
	return -1
}

// State is a record as it is stored. Times are nanoseconds of Unix time.
type State struct {
	Version       due.Version
	Line          string
	Jitter        int64 // how much later a firing is begun
	Paused        bool
	Next          int64
	Running       map[int64]uint64 // due times that run or wait, each with what it tells of those missed
	Asked         []int64          // those of them that Run has asked for
	Missed, Since uint64
}

func stateOf(name string, v due.Version, data []byte) (s State, err error) {
	r, err := decode(data)
	s = State{v, r.when.String(), r.Spec.jitter(name), r.Paused, r.Next, map[int64]uint64{}, nil, r.Missed, r.Since}
	for _, f := range r.Running {
		s.Running[f.Due] = f.Missed
		if f.Asked {
			s.Asked = append(s.Asked, f.Due)
		}
	}
	return s, err
}

// Stored is the record of a schedule.
func Stored(ctx context.Context, name string) (s State, err error) {
	err = edit(ctx, name, func(i due.Item) (c due.Change, err error) {
		c.Read = true
		if !i.Exists() {
			return c, raysys.ErrNotFound
		}
		s, err = stateOf(name, i.Version, i.Record.Data)
		return c, err
	})
	return s, err
}

// Edit is a try to change a record: it is made where the record still has the version of Was. Now is the time of day that it goes by.
type Edit struct {
	Now     int64
	Was, Is State
}

// EditSlowly is Pause, Resume or Run, by their verb, where a while passes between the reading of the record and the first try to store it.
func EditSlowly(ctx context.Context, name, verb string, while func()) error {
	return edit(ctx, name, func(i due.Item) (due.Change, error) {
		c, err := do(verb, i, nil)
		while()
		while = func() {}
		return c, err
	})
}

// Change does what Pause, Resume and Run do, by their verb; "replace" gives the schedule another When and other options, as Call and Task do. It
// returns its tries: where there is no error the last was made, and one before it was where its answer was lost.
func Change(ctx context.Context, name, verb string, w When, opts ...Option) (tries []Edit, err error) {
	err = edit(ctx, name, func(i due.Item) (c due.Change, err error) {
		was, err := stateOf(name, i.Version, i.Record.Data)
		if verb == "replace" && err == nil {
			c, err = replaced(i, w, opts)
		} else if err == nil {
			c, err = do(verb, i, nil)
		}
		if err != nil {
			return c, err
		}
		is, err := stateOf(name, due.Version{}, c.Next.Data)
		tries = append(tries, Edit{i.Now, was, is})
		return c, err
	})
	return tries, err
}

// replaced is what set makes of a record whose work stays.
func replaced(i due.Item, w When, opts []Option) (due.Change, error) {
	r, err := decode(i.Record.Data)
	s, bad := settingOf(w, opts)
	if err = errors.Join(err, bad); err != nil {
		return due.Change{}, err
	}
	s.Work = r.Spec.Work
	r.replace(s.spec, i.Now, r.Spec.jitter(i.Name.Name))
	return changed(i, r)
}

// HoldPosts has what Durable grains post tried in vain until let is called.
func HoldPosts() (tried *atomic.Int32, let func()) {
	tried = &atomic.Int32{}
	grainengine.RegisterDeliverer(messages, func(context.Context, grainengine.Post) (outcome, err error) {
		tried.Add(1)
		return nil, errors.New("held by test")
	})
	return tried, func() { grainengine.RegisterDeliverer(messages, deliver) }
}

// PostTwice has each post arrive, and again when it has.
func PostTwice() (end func()) {
	grainengine.RegisterDeliverer(messages, func(ctx context.Context, p grainengine.Post) (outcome, err error) {
		if outcome, err = deliver(ctx, p); err == nil {
			_, err = deliver(ctx, p)
		}
		return outcome, err
	})
	return func() { grainengine.RegisterDeliverer(messages, deliver) }
}

// DeliverNow delivers a message.
var DeliverNow = deliver
