package registry

import (
	"context"
	"sync"

	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
)

// Directory is this node's side of the object directory, whose records lie in the shards. It sends changes of one shard
// together, and resends updates.
type Directory struct {
	reg *Registry

	changes gatherer[Change, Entry]

	mu      sync.Mutex         // guards the rest
	updates map[string]*update // by key
	late    []*update          // to be resent; an alarm is set while there are any
}

// NewDirectory returns the directory of the node with registry r.
func NewDirectory(r *Registry) *Directory {
	request := func(list []Change) operation[[]Entry] { return &changes{list} }
	return &Directory{reg: r, changes: gatherer[Change, Entry]{reg: r, request: request}, updates: map[string]*update{}}
}

// Change makes one change, together with others. done is called on any goroutine and must not block.
func (d *Directory) Change(ch Change, done func(Entry, error)) {
	d.mu.Lock()
	d.overtake(&ch)
	d.mu.Unlock()
	d.changes.add(ch, done)
}

// Find returns a record.
func (d *Directory) Find(key string, done func(Entry, error)) { d.reg.Find(key, done) }

// Await returns a record once it has another version than seen.
func (d *Directory) Await(key string, seen shardlog.Version, done func(Entry, error)) {
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
