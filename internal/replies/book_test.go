package replies

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// errGone is what a call gets whose reply has gone.
var errGone = errors.New("gone")

// table drives replies as an activation does, and the store beside it.
type table struct {
	t      *testing.T
	r      Book
	stored map[raysys.TaskID][]byte
	sides  map[string][]byte
	now    time.Time
	next   uint64
	room   int // of a commit, for what goes
}

func newTable(t *testing.T) *table {
	x := &table{t: t, stored: map[raysys.TaskID][]byte{}, sides: map[string][]byte{}, now: time.Unix(1000, 0), room: 64}
	x.r = New(0, time.Hour)
	return x
}

// call makes a call whose reply may go an hour later. It is committed at once.
func (x *table) call(p *Reply) error {
	x.next++
	if p.Call.IsZero() {
		p.Call = raysys.TaskID{Hi: 1, Lo: x.next}
		if p.Kind == OfKey {
			p.Call = idOfKey(x.next)
		}
	}
	if p.Kind != OfDriver {
		p.Until = x.now.Add(time.Hour).UnixMilli()
	}
	p.Made = x.now.UnixMilli()
	if x.r.Below(p, x.now) || x.r.ByCall[p.Call] == nil && x.r.WhyGone(p, nil, x.now) != "" {
		return errGone
	}
	if err := x.r.Room(p, x.now); err != nil {
		return err
	}
	x.r.Add(p)
	x.commit(p)
	return nil
}

func (x *table) commit(p *Reply) {
	x.t.Helper()
	puts := []graindir.StoredReply{}
	if p != nil {
		puts = append(puts, graindir.StoredReply{Call: p.Call, Data: p.Append(nil)})
		if p.Replaces {
			delete(x.stored, p.Call)
		}
	}
	var c graindir.Commit
	x.r.Changes(&c, x.now, x.room)
	for _, id := range c.Forget {
		delete(x.stored, id)
	}
	for _, s := range c.Sides {
		if s.Data == nil {
			delete(x.sides, s.Name)
		} else {
			x.sides[s.Name] = s.Data
		}
	}
	for _, s := range append(puts, c.Replies...) {
		if _, twice := x.stored[s.Call]; twice {
			x.t.Fatalf("%v is stored twice", s.Call)
		}
		x.stored[s.Call] = s.Data
	}
}

// restart reads everything back.
func (x *table) restart() {
	x.t.Helper()
	sizes := x.r.keys.sizes
	x.r = New(0, time.Hour)
	x.r.keys.sizes = sizes
	for id, data := range x.stored {
		p, err := Read(graindir.StoredReply{Call: id, Data: data})
		if err != nil {
			x.t.Fatal(err)
		}
		if !slices.Equal(p.Append(nil), data) {
			x.t.Fatalf("%+v is written differently", p)
		}
		x.r.Add(p)
	}
	for _, name := range slices.Sorted(maps.Keys(x.sides)) {
		if err := x.r.AddStored(graindir.Side{Family: graindir.SideKeys, Name: name, Data: x.sides[name]}); err != nil {
			x.t.Fatal(err)
		}
	}
	x.r.Restored(x.now)
}

// TestRepliesOfTurns: a turn's oldest replies go, also by their bytes; no other turn is hindered, and after KeepReplies
// nothing is left of them.
func TestRepliesOfTurns(t *testing.T) {
	x := newTable(t)
	of := func(turn, seq uint64, size int) *Reply {
		return &Reply{Kind: OfTurn, Turn: raysys.TaskID{Hi: 2, Lo: turn}, Seq: seq, Body: make([]byte, size)}
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
	if n := len(x.stored); n > Max+100 {
		t.Errorf("%d are stored", n)
	}
	for range 2 {
		if err := x.call(of(1, 3, 0)); !errors.Is(err, errGone) {
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

// TestFloorToCome: the calls of a schedule have their due times as numbers. A floor that a clock has left which was ahead refuses none of those that
// come by the right one, though it is remembered for as long.
func TestFloorToCome(t *testing.T) {
	x := newTable(t)
	at := func(at time.Time) *Reply {
		return &Reply{Kind: OfTurn, Turn: raysys.TaskID{Hi: 2, Lo: 1}, Seq: uint64(at.UnixNano())}
	}
	right := x.now
	x.now = right.Add(30 * 24 * time.Hour)
	for i := range 2 * Max {
		if err := x.call(at(x.now.Add(time.Duration(i) * time.Millisecond))); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.call(at(x.now)); !errors.Is(err, errGone) {
		t.Errorf("by the same clock: %v", err)
	}
	x.now = right.Add(time.Minute)
	if err := x.call(at(x.now)); err != nil {
		t.Errorf("by the right clock: %v", err)
	}
}

// TestFloorsAreBounded: beyond their number the oldest replies of turns become keys, so that no call is refused, and none of
// those that have lost their replies runs again, also after a restart.
func TestFloorsAreBounded(t *testing.T) {
	x := newTable(t)
	of := func(turn uint64) *Reply {
		return &Reply{Call: raysys.TaskID{Hi: turn << 40, Lo: 7}, Kind: OfTurn, Turn: raysys.TaskID{Hi: 2, Lo: turn}, Seq: 1}
	}
	const turns = maxFloors + 2*Max
	for turn := range uint64(turns) {
		if err := x.call(of(turn + 1)); err != nil {
			t.Fatal(turn, err)
		}
	}
	for range 2 {
		if n := x.r.Kinds[floor].N; n != maxFloors {
			t.Errorf("%d floors", n)
		}
		for turn := range uint64(turns) {
			p := of(turn + 1)
			if x.r.ByCall[p.Call] == nil && !x.r.Below(p, x.now) && x.r.WhyGone(p, nil, x.now) == "" {
				t.Fatalf("the call of turn %d may run again", turn)
			}
		}
		x.restart()
	}
	for _, p := range []*Reply{of(turns + 1), {Kind: OfKey}, {Kind: OfDriver, Owner: core.NodeKey{Node: "d"}}} {
		if err := x.call(p); err != nil {
			t.Error(err)
		}
	}
	x.now = x.now.Add(2 * time.Hour)
	if err := x.call(of(1)); err != nil {
		t.Errorf("after KeepReplies: %v", err)
	}
}

// TestBodiesOfKeys: beyond MaxBytes the oldest bodies go, and their keys stay.
func TestBodiesOfKeys(t *testing.T) {
	x := newTable(t)
	for i := range Max {
		if err := x.call(&Reply{Kind: OfKey, Body: make([]byte, 500)}); err != nil {
			t.Fatal(i, err)
		}
	}
	for range Max / 16 {
		x.commit(nil)
	}
	for range 2 {
		bytes := 0
		for _, data := range x.stored {
			bytes += len(data)
		}
		if bytes > MaxBytes+overhead*Max || bytes < MaxBytes/2 || len(x.stored) != Max {
			t.Errorf("%d keys of %d bytes are stored", len(x.stored), bytes)
		}
		x.restart()
	}
}

// TestRepliesToDrivers have a bound of their own.
func TestRepliesToDrivers(t *testing.T) {
	x := newTable(t)
	driver := func() *Reply { return &Reply{Owner: core.NodeKey{Node: "d", Incarnation: 1}} }
	for range Max {
		if err := x.call(driver()); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.call(driver()); !errors.Is(err, raysys.ErrOverloaded) {
		t.Error(err)
	}
	if err := x.call(&Reply{Kind: OfTurn, Turn: raysys.TaskID{Hi: 3}, Seq: 1}); err != nil {
		t.Error(err)
	}
	x.r.Spend(x.r.ByCall[raysys.TaskID{Hi: 1, Lo: 1}])
	if err := x.call(driver()); err != nil {
		t.Error(err)
	}
}
