package system

import (
	"context"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/store"
)

// directory is this node's side of the object directory, whose records lie on the shards.
type directory struct {
	c *cluster

	mu      sync.Mutex // guards the rest
	waiting map[int]*changes
	notices map[string]*notice // by key
	late    []*notice          // what of them is to be sent again; an alarm is set while there are any
}

// changes are what waits to be sent to the leader of one shard.
type changes struct {
	list  []objectChange
	done  []func(objectAnswer, error)
	alarm core.Alarm
}

// gather is how long a change waits for others to the same shard: nobody waits for the first to be known elsewhere, and a
// batch costs the shard's log as much as one.
const gather = int64(2 * time.Millisecond)

// change makes one change, together with others. done is called on any goroutine and must not block.
func (d *directory) change(ch objectChange, done func(objectAnswer, error)) {
	d.mu.Lock()
	d.overtake(&ch)
	d.mu.Unlock()
	d.add(ch, done)
}

// add puts a change to those that wait for the same shard.
func (d *directory) add(ch objectChange, done func(objectAnswer, error)) {
	n := d.c.reg.conf.ShardOf(ch.key)
	d.mu.Lock()
	b := d.waiting[n]
	if b == nil {
		b = &changes{}
		if d.waiting == nil {
			d.waiting = map[int]*changes{}
		}
		d.waiting[n] = b
		b.alarm.At = d.c.node.Now() + gather
		b.alarm.Ring = func() { d.flush(n, b) }
		d.c.node.SetAlarm(&b.alarm)
	}
	b.list, b.done = append(b.list, ch), append(b.done, done)
	full := len(b.list) == maxChanges
	if full {
		delete(d.waiting, n) // at once: a leader takes no more than these in one request
	}
	d.mu.Unlock()
	if full {
		d.c.node.ClearAlarm(&b.alarm)
		d.send(b)
	}
}

// flush sends what has gathered, unless it was full before.
func (d *directory) flush(shard int, b *changes) {
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

func (d *directory) send(b *changes) {
	q := &request{op: opObjects, changes: b.list}
	locator{d.c}.ask(q, func(a answer) {
		for i, done := range b.done {
			switch {
			case a.err != nil:
				done(objectAnswer{}, a.err)
			case i < len(a.objects):
				done(a.objects[i], nil)
			default:
				done(objectAnswer{}, raysys.ErrOutcomeUnknown)
			}
		}
	})
}

// find asks for a record.
func (d *directory) find(key string, done func(objectAnswer, error)) {
	d.ask(&request{op: opFind, key: key}, done)
}

// await asks for a record of another version than seen, and is answered when there is one.
func (d *directory) await(key string, seen store.Version, done func(objectAnswer, error)) {
	d.ask(&request{op: opFind, key: key, seen: seen, wait: true}, done)
}

func (d *directory) ask(q *request, done func(objectAnswer, error)) {
	locator{d.c}.ask(q, func(a answer) {
		if a.err == nil && len(a.objects) == 0 {
			a.err = raysys.ErrOutcomeUnknown
		}
		if a.err != nil {
			done(objectAnswer{}, a.err)
			return
		}
		done(a.objects[0], nil)
	})
}

// look is find for a caller that waits.
func (d *directory) look(ctx context.Context, key string) (objectAnswer, error) {
	return runner.Wait(ctx, func(done func(objectAnswer, error)) { d.find(key, done) })
}

// make is change for a caller that waits.
func (d *directory) make(ctx context.Context, ch objectChange) (objectAnswer, error) {
	return runner.Wait(ctx, func(done func(objectAnswer, error)) { d.change(ch, done) })
}
