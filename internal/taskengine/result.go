package taskengine

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// HandleResult takes a KindTaskResult frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResult(wp wire.Peer, frame []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := readers.Get().(*wire.Reader)
	defer putReader(r)
	*r = wire.NewReader(frame)
	if err := x.takeFrame(p, r); err != nil {
		return err
	}
	x.answered()
	return nil
}

// readers spare each frame an allocation.
var readers = sync.Pool{New: func() any { return new(wire.Reader) }}

func putReader(r *wire.Reader) {
	*r = wire.Reader{}
	readers.Put(r)
}

// HandleResults takes a KindTaskResults frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResults(wp wire.Peer, list []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	l := resultBatches.Get().(*resultBatch)
	defer func() {
		*l = resultBatch{}
		resultBatches.Put(l)
	}()
	for all := wire.NewReader(list); all.Len() > 0; {
		if err := x.takeBatch(p, l, &all); err != nil {
			return err
		}
	}
	x.answered()
	return nil
}

// resultBatch are results that are taken in together: locks and counters cost as much for many as for one.
type resultBatch struct {
	n       int
	results [resultBatchSize]wire.Reader
	slots   [resultBatchSize]uint64
	flights [resultBatchSize]flight
	found   [resultBatchSize]bool
	waits   [resultBatchSize]bool
}

const resultBatchSize = 32

var resultBatches = sync.Pool{New: func() any { return new(resultBatch) }}

// takeBatch takes in the first results of a list.
func (x *exchange) takeBatch(p *peer, l *resultBatch, all *wire.Reader) error {
	l.n = 0
	for l.n < resultBatchSize && all.Len() > 0 {
		r := &l.results[l.n]
		*r = wire.NewReader(all.Bytes())
		if err := all.Err(); err != nil {
			return fmt.Errorf("results from node %s: %w", p.Node(), err)
		}
		waits, err := x.resultHead(p, r)
		if err != nil {
			return err
		}
		if r.Len() == 0 {
			continue
		}
		l.slots[l.n], l.waits[l.n] = taskwire.ReadSlot(r), waits
		if err := r.Err(); err != nil {
			return fmt.Errorf("result from node %s: %w", p.Node(), err)
		}
		l.n++
	}
	p.flights.TakeAll(l.slots[:l.n], l.flights[:], l.found[:])
	// Before any of them is settled: the program may submit again then, and wait for room.
	x.flightsEnded(p, l)
	var bad error
	for i := range l.n {
		if l.waits[i] && l.found[i] {
			x.waitsAt(p, l.flights[i].task)
		}
		err := x.settleFlight(p, &l.results[i], l.flights[i], l.found[i])
		if err == nil {
			err = x.takeRest(p, &l.results[i], false)
		}
		if err != nil && bad == nil { // the link will be closed; the flights that were taken out are settled nevertheless
			bad = fmt.Errorf("result from node %s: %w", p.Node(), err)
		}
	}
	return bad
}

// flightsEnded is flightEnded for all that were found.
func (x *exchange) flightsEnded(p *peer, l *resultBatch) {
	var n, bytes, same, shaped int64
	var of *group
	for i := range l.n {
		if !l.found[i] {
			continue
		}
		f := &l.flights[i]
		n++
		bytes += int64(f.size)
		if f.shaped {
			shaped++
		}
		if f.group != of {
			x.release(p, of, same)
			of, same = f.group, 0
		}
		same++
	}
	x.release(p, of, same)
	x.away.Add(-n)
	p.inflight.Add(-n)
	if shaped > 0 {
		p.shaped.Add(-shaped)
	}
	p.bytes.Add(-bytes)
}

func (x *exchange) takeFrame(p *peer, r *wire.Reader) error {
	waits, err := x.resultHead(p, r)
	if err != nil {
		return err
	}
	if err := x.takeRest(p, r, waits); err != nil {
		return fmt.Errorf("result from node %s: %w", p.Node(), err)
	}
	return nil
}

// resultHead reads what comes before the results. waits says that something waits at p for the first of their tasks.
func (x *exchange) resultHead(p *peer, r *wire.Reader) (waits bool, err error) {
	flags := r.Uvarint()
	if flags&taskwire.ResultLoad != 0 {
		l, err := loadreport.ReadLoad(r)
		if err != nil {
			return false, fmt.Errorf("load of node %s: %w", p.Node(), err)
		}
		x.loaded(p, l)
	}
	if err := r.Err(); err != nil {
		return false, fmt.Errorf("result from node %s: %w", p.Node(), err)
	}
	return flags&taskwire.ResultWaits != 0, nil
}

// takeRest takes the results that follow; waits is for the first.
func (x *exchange) takeRest(p *peer, r *wire.Reader, waits bool) error {
	for r.Len() > 0 {
		if err := x.takeNext(p, r, waits); err != nil {
			return err
		}
		waits = false
	}
	return r.Err()
}

// waitsAt has p told when the task is final.
func (x *exchange) waitsAt(p *peer, c *core.Future) {
	c.TurnFor().WhenFinal(&finalTask{x, p, c.RunID()})
}

// answered is called when results have come: there may be room for more tasks.
func (x *exchange) answered() {
	switch x.state.Load() {
	case awake:
	case stalled:
		if x.peerHasRoom() {
			x.wakeNow()
		}
	default:
		// No peer that had room could run the deferred tasks.
		if x.deferred.sendable(x) {
			x.wakeNow()
		}
	}
	x.e.checkDrained()
}

// takeNext takes one result. That of a slot that was answered before, or never used, changes nothing.
func (x *exchange) takeNext(p *peer, r *wire.Reader, waits bool) error {
	slot := taskwire.ReadSlot(r)
	if err := r.Err(); err != nil {
		return err
	}
	f, found := p.flights.Take(slot)
	if found {
		// The program may submit again before this returns, and wait for room.
		x.flightEnded(p, f)
		if waits {
			x.waitsAt(p, f.task)
		}
	}
	return x.settleFlight(p, r, f, found)
}

// settleFlight takes in what follows a slot; f was in flight under it if found is set.
func (x *exchange) settleFlight(p *peer, r *wire.Reader, f flight, found bool) error {
	var w *record
	if found {
		w = taskOf(f.task)
	}
	status := r.Byte()
	if err := r.Err(); err != nil {
		if found {
			w.lost(x, p.Node(), err)
		}
		return err
	}
	switch status {
	case taskwire.ResultValueEffects:
		if found {
			w.hadEffects(&p.effect)
		}
		status = taskwire.ResultValue
	case taskwire.ResultErrorEffects:
		if found {
			w.hadEffects(&p.effect)
		}
		status = taskwire.ResultError
	}
	switch status {
	case taskwire.ResultValue:
		if !found {
			r.Rest()
			return nil
		}
		if err := w.resolveFrom(r, p, p.Node()); err != nil {
			w.lost(x, p.Node(), err)
			return err
		}
	case taskwire.ResultError:
		err := wire.ReadError(r)
		switch {
		case !found:
		case r.Err() != nil:
			w.lost(x, p.Node(), r.Err())
		default:
			w.failedThere(err)
		}
	case taskwire.ResultGivenBack:
		if found {
			x.markFull(p)
			x.deferAgain(unplacedTask{task: w, avoid: p.Node()})
		}
	case taskwire.ResultLost:
		if found {
			p.avoid.Store(true)
			w.lost(x, p.Node(), errClosing)
		}
	default:
		err := fmt.Errorf("%w: a result of status %d", wire.ErrCorrupt, status)
		if found {
			w.lost(x, p.Node(), err)
		}
		return err
	}
	return nil
}
