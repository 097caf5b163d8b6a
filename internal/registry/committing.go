package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// recordTable has a leader's open requests about records of objects and tasks, which lie in the shard's table. When the
// leader ends, the askers ask the next one.
type recordTable struct {
	changing map[string][]request    // by keys whose change is being committed: the requests that wait for its outcome
	watching map[string][]request    // by key: the requests that wait for a change
	open     map[request]*committing // the requests whose changes are being committed
}

func newRecordTable() recordTable {
	return recordTable{map[string][]request{}, map[string][]request{}, map[request]*committing{}}
}

// recordBatch is a batch that changes the records of keys.
type recordBatch struct {
	shardlog.Batch
	keys      []string
	committed func(shardlog.Result) // is called on the shard's own goroutine, or nil
}

// committing is a request whose changes are being committed.
type committing struct {
	left   int   // batches without an outcome
	err    error // of the first that was refused
	answer func()
}

// changed is the outcome of committing a recordBatch.
type changed struct {
	q    request // nil for a reaping
	keys []string
	err  error
}

// free reports whether the records that q would change can be changed now. Else q waits for one of them, or is refused
// because they lie in several shards.
func (l *leader) free(q request, keys []string) bool {
	for _, key := range keys {
		if l.reg.cfg.Layout.ShardOf(key) != q.who().shard {
			q.fail(fmt.Errorf("%w: changes of records in several shards", wire.ErrCorrupt))
			return false
		}
		if waiting, busy := l.records.changing[key]; busy {
			l.records.changing[key] = append(waiting, q)
			return false
		}
	}
	return true
}

// commitRecords commits the batches for q, and calls answer when all of them are. q is nil for a reaping, which has no
// answer.
func (l *leader) commitRecords(q request, batches []recordBatch, answer func()) {
	if q != nil {
		l.records.open[q] = &committing{left: len(batches), answer: answer}
	}
	for _, b := range batches {
		for _, key := range b.keys {
			l.records.changing[key] = nil
		}
	}
	for _, b := range batches {
		l.propose(b.Batch, func(res shardlog.Result, err error) {
			if err == nil && b.committed != nil {
				b.committed(res)
			}
			l.post(&changed{q, b.keys, err})
		})
	}
}

// changed answers the request whose changes were committed, serves the requests that waited for that, and wakes those
// that wait for a change.
func (l *leader) changed(m *changed) {
	var next []request
	for _, key := range m.keys {
		next = append(next, l.records.changing[key]...)
		delete(l.records.changing, key)
	}
	if m.q == nil {
		if refusedForNow(m.err) {
			l.postpone(m.keys)
		}
	} else if c := l.records.open[m.q]; c != nil {
		if c.left--; c.err == nil {
			c.err = m.err
		}
		if c.left == 0 {
			delete(l.records.open, m.q)
			switch {
			case errors.Is(c.err, shardlog.ErrConflict):
				next = append([]request{m.q}, next...)
			case c.err != nil:
				m.q.fail(outcome(c.err))
			default:
				c.answer()
			}
		}
	}
	if m.err == nil {
		for _, key := range m.keys {
			l.wake(key)
		}
	}
	for _, q := range next {
		q.serveAt(l)
	}
	if m.err == nil {
		for _, key := range m.keys {
			switch {
			case groupengine.IsKey(key):
				l.drive(key)
			case strings.HasPrefix(key, due.Prefix): // changed, or gone
				l.due.Look(key)
			}
		}
	}
}

// stopRecords sends all open requests to the next leader, also those whose changes may have been committed: a change
// that is made again comes to the same.
func (l *leader) stopRecords() {
	for q := range l.records.open {
		q.fail(errNotLeader)
	}
	for _, table := range []map[string][]request{l.records.changing, l.records.watching} {
		for _, waiting := range table {
			for _, q := range waiting {
				q.fail(errNotLeader)
			}
		}
	}
	l.records = recordTable{}
}
