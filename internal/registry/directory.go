package registry

import (
	"context"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/store"
)

// Directory is this node's side of the object directory, whose records lie in the shards. It sends changes of one shard
// together, and resends updates.
type Directory struct {
	reg *Registry

	mu      sync.Mutex // guards the rest
	waiting map[int]*batch
	updates map[string]*update // by key
	late    []*update          // to be resent; an alarm is set while there are any
}

// batch is the changes that wait to be sent to the leader of one shard.
type batch struct {
	list []Change
	done []func(Entry, error)
}

// NewDirectory returns the directory of the node with registry r.
func NewDirectory(r *Registry) *Directory {
	return &Directory{reg: r, waiting: map[int]*batch{}, updates: map[string]*update{}}
}

// gather is how long a change waits for others to the same shard. A batch costs the shard's log as much as one change.
const gather = 2 * time.Millisecond

// Change makes one change, together with others. done is called on any goroutine and must not block.
func (d *Directory) Change(ch Change, done func(Entry, error)) {
	d.mu.Lock()
	d.overtake(&ch)
	d.mu.Unlock()
	d.add(ch, done)
}

// add puts a change into the batch of its shard.
func (d *Directory) add(ch Change, done func(Entry, error)) {
	n := d.reg.cfg.Layout.ShardOf(ch.key)
	d.mu.Lock()
	b := d.waiting[n]
	if b == nil {
		b = &batch{}
		d.waiting[n] = b
		d.reg.cfg.Runner.After(gather, func() { d.flush(n, b) })
	}
	b.list, b.done = append(b.list, ch), append(b.done, done)
	full := len(b.list) == maxChanges
	if full {
		delete(d.waiting, n) // a leader takes no more changes in one request: the batch is sent now
	}
	d.mu.Unlock()
	if full {
		d.send(b)
	}
}

// flush sends a batch, unless it was sent when it was full.
func (d *Directory) flush(shard int, b *batch) {
	d.mu.Lock()
	due := d.waiting[shard] == b
	if due {
		delete(d.waiting, shard)
	}
	d.mu.Unlock()
	if due {
		d.send(b)
	}
}

func (d *Directory) send(b *batch) {
	ask(d.reg, &changes{b.list}, func(entries []Entry, err error) {
		for i, done := range b.done {
			if err != nil {
				done(Entry{}, err)
				continue
			}
			done(entries[i], nil)
		}
	})
}

// Find returns a record.
func (d *Directory) Find(key string, done func(Entry, error)) { d.reg.Find(key, done) }

// Await returns a record once it has another version than seen.
func (d *Directory) Await(key string, seen store.Version, done func(Entry, error)) {
	d.reg.Await(key, seen, done)
}

// FindWait is Find that waits.
func (d *Directory) FindWait(ctx context.Context, key string) (Entry, error) {
	return runner.Wait(ctx, func(done func(Entry, error)) { d.Find(key, done) })
}

// ChangeWait is Change that waits.
func (d *Directory) ChangeWait(ctx context.Context, ch Change) (Entry, error) {
	return runner.Wait(ctx, func(done func(Entry, error)) { d.Change(ch, done) })
}
