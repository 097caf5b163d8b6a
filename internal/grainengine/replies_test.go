package grainengine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// table drives replies as an activation does, and the store beside it.
type table struct {
	t      *testing.T
	r      replies
	stored map[raysys.TaskID][]byte
	now    time.Time
	next   uint64
}

func newTable(t *testing.T) *table {
	return &table{t: t, r: newReplies(0), stored: map[raysys.TaskID][]byte{}, now: time.Unix(1000, 0)}
}

// call makes a call whose reply may go an hour later. It is committed at once.
func (x *table) call(p *reply) error {
	x.next++
	if p.call.IsZero() {
		p.call = raysys.TaskID{Hi: 1, Lo: x.next}
	}
	if p.kind != ofDriver {
		p.until = x.now.Add(time.Hour).UnixMilli()
	}
	if x.r.below(p, x.now) {
		return ErrReplyGone
	}
	if err := x.r.room(p, x.now); err != nil {
		return err
	}
	x.r.add(p)
	x.commit(p)
	return nil
}

func (x *table) commit(p *reply) {
	x.t.Helper()
	puts := []graindir.StoredReply{}
	if p != nil {
		puts = append(puts, graindir.StoredReply{Call: p.call, Data: p.append(nil)})
		if p.replaces {
			delete(x.stored, p.call)
		}
	}
	forget, more := x.r.changes(x.now, 64)
	for _, id := range forget {
		delete(x.stored, id)
	}
	for _, s := range append(puts, more...) {
		if _, twice := x.stored[s.Call]; twice {
			x.t.Fatalf("%v is stored twice", s.Call)
		}
		x.stored[s.Call] = s.Data
	}
}

// restart reads everything back.
func (x *table) restart() {
	x.t.Helper()
	x.r = newReplies(0)
	for id, data := range x.stored {
		p, err := readReply(graindir.StoredReply{Call: id, Data: data})
		if err != nil {
			x.t.Fatal(err)
		}
		if !slices.Equal(p.append(nil), data) {
			x.t.Fatalf("%+v is written differently", p)
		}
		x.r.add(p)
	}
	x.r.restored(x.now)
}

// TestRepliesOfTurns: a turn's oldest replies go, also by their bytes; no other turn is hindered, and after KeepReplies
// nothing is left of them.
func TestRepliesOfTurns(t *testing.T) {
	x := newTable(t)
	of := func(turn, seq uint64, size int) *reply {
		return &reply{kind: ofTurn, turn: raysys.TaskID{Hi: 2, Lo: turn}, seq: seq, body: make([]byte, size)}
	}
	for seq := range uint64(10_000) {
		if err := x.call(of(1, seq, 100)); err != nil {
			t.Fatal(err)
		}
		if seq%7 == 0 {
			if err := x.call(of(2, seq, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if seq == 5000 {
			x.restart()
		}
	}
	if n := len(x.stored); n > maxReplies+100 {
		t.Errorf("%d are stored", n)
	}
	for range 2 {
		if err := x.call(of(1, 3, 0)); !errors.Is(err, ErrReplyGone) {
			t.Errorf("an old call without a reply: %v", err)
		}
		x.restart()
	}
	if err := x.call(of(3, 3, 0)); err != nil {
		t.Error(err)
	}
	x.now = x.now.Add(2 * time.Hour)
	if err := x.call(of(1, 3, 0)); err != nil {
		t.Errorf("after KeepReplies: %v", err)
	}
	for range 200 {
		x.restart() // which sees that they are over
		x.commit(nil)
	}
	if n := len(x.stored); n != 1 {
		t.Errorf("%d are stored after KeepReplies", n)
	}
}

// TestFloorsAreBounded: beyond their number only such calls are refused whose turns would need a further one.
func TestFloorsAreBounded(t *testing.T) {
	x := newTable(t)
	var err error
	turns := uint64(0)
	for err == nil && turns < 2*maxFloors+2*maxReplies {
		turns++
		err = x.call(&reply{kind: ofTurn, turn: raysys.TaskID{Hi: 2, Lo: turns}, seq: 1})
	}
	if !errors.Is(err, raysys.ErrOverloaded) || turns < maxFloors {
		t.Fatalf("after %d turns: %v", turns, err)
	}
	if err := x.call(&reply{kind: ofKey}); err != nil {
		t.Error(err)
	}
	if err := x.call(&reply{kind: ofDriver, owner: core.NodeKey{Node: "d"}}); err != nil {
		t.Error(err)
	}
	x.now = x.now.Add(2 * time.Hour)
	if err := x.call(&reply{kind: ofTurn, turn: raysys.TaskID{Hi: 2, Lo: 1}, seq: 1}); err != nil {
		t.Errorf("after KeepReplies: %v", err)
	}
}

// TestRepliesToKeys: bodies go, keys stay, and beyond their number such calls are refused until keys are over.
func TestRepliesToKeys(t *testing.T) {
	x := newTable(t)
	for i := range maxKeys {
		if err := x.call(&reply{kind: ofKey, body: make([]byte, 500)}); err != nil {
			t.Fatal(i, err)
		}
	}
	for range maxKeys / 64 {
		x.commit(nil)
	}
	bytes := 0
	for _, data := range x.stored {
		bytes += len(data)
	}
	if bytes > 2<<20 {
		t.Errorf("%d bytes are stored", bytes)
	}
	for range 2 {
		if n := len(x.stored); n != maxKeys {
			t.Errorf("%d keys are stored", n)
		}
		if err := x.call(&reply{kind: ofKey}); !errors.Is(err, raysys.ErrOverloaded) {
			t.Error(err)
		}
		if err := x.call(&reply{kind: ofTurn, turn: raysys.TaskID{Hi: 3}, seq: 1}); err != nil {
			t.Error(err)
		}
		x.r.spend(x.r.byCall[raysys.TaskID{Hi: 1, Lo: x.next}])
		x.commit(nil)
		x.restart()
	}
	x.now = x.now.Add(2 * time.Hour)
	if err := x.call(&reply{kind: ofKey}); err != nil {
		t.Errorf("after KeepReplies: %v", err)
	}
}

// TestRepliesToDrivers have a bound of their own.
func TestRepliesToDrivers(t *testing.T) {
	x := newTable(t)
	driver := func() *reply { return &reply{owner: core.NodeKey{Node: "d", Incarnation: 1}} }
	for range maxReplies {
		if err := x.call(driver()); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.call(driver()); !errors.Is(err, raysys.ErrOverloaded) {
		t.Error(err)
	}
	if err := x.call(&reply{kind: ofTurn, turn: raysys.TaskID{Hi: 3}, seq: 1}); err != nil {
		t.Error(err)
	}
	x.r.spend(x.r.byCall[raysys.TaskID{Hi: 1, Lo: 1}])
	if err := x.call(driver()); err != nil {
		t.Error(err)
	}
}
