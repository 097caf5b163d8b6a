package replies

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
)

// keyModel is a grain that is called with keys, and what it has counted.
type keyModel struct {
	table
	*rapid.T
	skew    time.Duration // of the clock of the node that has the grain
	pending []*Reply
	counted map[uint64][]int64 // by key: when its calls that counted were made, by the clock of the node
	order   []uint64           // keys, in the order in which their calls counted
	first   map[uint64]int64   // by key: when it was first given, by the clock of the caller
}

// idOfKey is the id of the reply to a key.
func idOfKey(key uint64) raysys.TaskID { return raysys.TaskID{Hi: key * 0x9E3779B97F4A7C15, Lo: key} }

// call calls with a key, and says whether the method runs.
func (m *keyModel) give(key uint64, first bool) (ran bool) {
	m.Helper()
	m.now = m.now.Add(time.Millisecond)
	now := m.now.Add(m.skew)
	p := &Reply{Call: idOfKey(key), Kind: OfKey, Pending: true, Made: now.UnixMilli(), Until: now.Add(time.Hour).UnixMilli()}
	if m.first[key] == 0 {
		m.first[key] = m.now.UnixMilli()
	}
	if first {
		p.First = m.first[key]
	}
	old := m.r.ByCall[p.Call]
	if old != nil && (old.Pending || !old.Over(now)) {
		return false
	}
	if m.r.WhyGone(p, old, now) != "" {
		if at := m.counted[key]; len(at) == 0 {
			if _, forgotten := m.r.Known(now); p.First == 0 || p.First >= forgotten.UnixMilli()+clocks.Milliseconds() {
				m.Fatalf("new key %d is refused: first made at %d, forgotten up to %v", key, p.First, forgotten)
			}
		}
		return false
	}
	if err := m.r.Room(p, now); err != nil {
		m.Fatal(err)
	}
	m.r.Add(p)
	m.pending = append(m.pending, p)
	return true
}

// store commits what is pending. room is what Changes may take.
func (m *keyModel) store(room int) {
	m.r.Sweep(OfKey, m.now.Add(m.skew)) // as Changes does where there are many
	c := graindir.Commit{}
	for _, p := range m.pending {
		c.Replies = append(c.Replies, graindir.StoredReply{Call: p.Call, Data: p.Append(nil)})
		if p.Replaces {
			c.Forget = append(c.Forget, p.Call)
		}
	}
	m.r.Changes(&c, m.now.Add(m.skew), room)
	if n := len(c.Forget) + len(c.Sides); n > room+len(m.pending)+m.r.keys.sizes.block+1 {
		m.Fatalf("a commit removes and puts %d beside its calls, and has room for %d", n, room)
	}
	for _, id := range c.Forget {
		delete(m.stored, id)
	}
	for _, s := range c.Replies {
		if m.stored[s.Call] != nil {
			m.Fatalf("%v is stored twice", s.Call)
		}
		m.stored[s.Call] = s.Data
	}
	for _, s := range c.Sides {
		if m.sides[s.Name] = s.Data; s.Data == nil {
			delete(m.sides, s.Name)
		}
	}
	for _, p := range m.pending {
		p.Pending = false
		key := p.Call.Lo
		m.counted[key], m.order = append(m.counted[key], p.Made), append(m.order, key)
	}
	m.pending = nil
}

// known reports whether the grain has to know a key: few calls have counted after it, by their order or by a clock.
func (m *keyModel) known(key uint64) bool {
	at := m.counted[key]
	s := m.r.keys.sizes
	if len(at) == 0 || m.now.Add(m.skew).UnixMilli() > at[len(at)-1]+time.Hour.Milliseconds() {
		return false
	}
	after, seen := 0, false
	for _, other := range m.order {
		made := m.counted[other]
		if seen || other != key && made[len(made)-1] >= at[len(at)-1] {
			after++
		}
		seen = seen || other == key
	}
	return after < s.whole+s.block*s.blocks
}

// TestKeysModel: with restarts, commits that are lost, clocks that differ and time that passes, no call with a key counts twice
// within KeepReplies while the key is among the newest, none ever that says when it was first made, and no call with a new
// key is refused.
func TestKeysModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &keyModel{table: *newTable(t), T: rt, counted: map[uint64][]int64{}, first: map[uint64]int64{}}
		m.now = time.Unix(1_000_000, 0)
		m.r.keys.sizes = keySizes{whole: 6, block: 4, blocks: 3}
		next := uint64(0)
		for range rapid.IntRange(1, 150).Draw(rt, "operations") {
			switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); op {
			case 0, 1, 2:
				for range rapid.IntRange(1, 9).Draw(rt, "new keys") {
					next++
					first := rapid.Bool().Draw(rt, "with FirstMade")
					if ran := m.give(next, first); !ran && !first {
						rt.Fatalf("new key %d does not run", next)
					}
				}
			case 3, 4:
				if next == 0 {
					continue
				}
				key := rapid.Uint64Range(max(1, next-min(next-1, 30)), next).Draw(rt, "repeated key")
				first := rapid.Bool().Draw(rt, "with FirstMade")
				if known, ran := m.known(key), m.give(key, first); ran && known {
					rt.Fatalf("key %d runs again, and counted at %v", key, m.counted[key])
				} else if ran && first && len(m.counted[key]) > 0 {
					rt.Fatalf("key %d runs again, is first made at %d, and counted at %v", key, m.first[key], m.counted[key])
				}
			case 5, 6, 7:
				m.store(rapid.IntRange(1, 12).Draw(rt, "room"))
			case 8:
				m.skew = time.Duration(rapid.IntRange(-2000, 2000).Draw(rt, "skew")) * time.Millisecond
				m.now = m.now.Add(m.skew) // restart reads with the node's clock
				m.restart()               // what is pending is lost
				m.now, m.pending = m.now.Add(-m.skew), nil
			case 9:
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "seconds")) * time.Second)
			}
		}
	})
}

// TestKeysOfAWholeHour: at the usual sizes nothing is refused, and the bounds of memory and of the store hold.
func TestKeysOfAWholeHour(t *testing.T) {
	x := newTable(t)
	key := func(i int) *Reply {
		return &Reply{Call: idOfKey(uint64(i + 1)), Kind: OfKey, Body: make([]byte, 20), Made: x.now.UnixMilli(), Until: x.now.Add(time.Hour).UnixMilli()}
	}
	const all = MaxKeys + 20*blockKeys
	for i := range all {
		x.now = x.now.Add(time.Millisecond)
		p := key(i)
		if why := x.r.WhyGone(p, nil, x.now); why != "" {
			t.Fatal(i, why)
		}
		if err := x.r.Room(p, x.now); err != nil {
			t.Fatal(i, err)
		}
		x.r.Add(p)
		x.stored[p.Call] = p.Append(nil)
		if i%100 == 0 {
			x.commit(nil) // of room for 64
			x.commit(nil)
		}
	}
	for range 100 {
		x.commit(nil)
	}
	early := x.r.TakeEarly()
	for range 2 {
		n, forgotten := x.r.Known(x.now)
		if n > MaxKeys || n < MaxKeys-4*blockKeys || early < all-MaxKeys || forgotten.IsZero() {
			t.Errorf("%d keys are known, %d went early, forgotten up to %v", n, early, forgotten)
		}
		bytes := 0
		for name, data := range x.sides {
			bytes += len(name) + len(data)
		}
		if len(x.stored) > Max+2*blockKeys || bytes > 2<<20+64<<10 {
			t.Errorf("%d replies are stored, and %d bytes of blocks", len(x.stored), bytes)
		}
		for i := early; i < all; i += 97 {
			if p := key(i); x.r.ByCall[p.Call] == nil && x.r.WhyGone(p, nil, x.now) == "" {
				t.Fatalf("key %d is not known, and %d went early", i, early)
			}
		}
		old := key(0)
		if why := x.r.WhyGone(old, nil, x.now); why != "" {
			t.Error(why)
		}
		old.First = x.now.Add(-time.Hour).UnixMilli()
		if why := x.r.WhyGone(old, nil, x.now); !strings.Contains(why, "it may have counted") {
			t.Errorf("a forgotten key with FirstMade: %q", why)
		}
		x.restart()
	}
	x.now = x.now.Add(2 * time.Hour)
	for range Max {
		x.commit(nil)
	}
	if n, _ := x.r.Known(x.now); n != 0 || len(x.sides) != 1 || len(x.stored) != 0 {
		t.Errorf("after KeepReplies %d keys are known, %d replies and %d records of keys stored", n, len(x.stored), len(x.sides))
	}
}

// TestForgottenByAClockAhead: what a clock that was a month ahead has left refuses only calls that were first made
// before the clock was right again. A key that was forgotten before is among them.
func TestForgottenByAClockAhead(t *testing.T) {
	x := newTable(t)
	x.r.keys.sizes = keySizes{whole: 2, block: 2, blocks: 1}
	twenty := func() {
		t.Helper()
		for range 20 {
			if err := x.call(&Reply{Kind: OfKey}); err != nil {
				t.Fatal(err)
			}
		}
	}
	made := func(at time.Time) error {
		return x.call(&Reply{Call: idOfKey(1), Kind: OfKey, First: at.UnixMilli()})
	}
	begun := x.now
	twenty()
	right := begun.Add(time.Minute)
	x.now = right
	if err := made(begun); !errors.Is(err, errGone) {
		t.Fatalf("a key that is forgotten: %v", err)
	}
	x.now = right.Add(30 * 24 * time.Hour)
	twenty()
	for range 3 {
		x.now = right
		x.restart()
		if err := made(begun); !errors.Is(err, errGone) {
			t.Errorf("a key that was forgotten before the clock was ahead: %v", err)
		}
		right = right.Add(10 * time.Second)
		x.now = right
		if err := x.call(&Reply{Kind: OfKey, First: x.now.UnixMilli()}); err != nil {
			t.Errorf("a call that was first made 10 s after the clock was right: %v", err)
		}
	}
	twenty()
	if err := x.call(&Reply{Kind: OfKey, First: x.now.UnixMilli()}); !errors.Is(err, errGone) {
		t.Errorf("keys of now are forgotten, and a call that was first made before is let in: %v", err)
	}
	x.now = x.now.Add(10 * time.Second)
	if err := x.call(&Reply{Kind: OfKey, First: x.now.UnixMilli()}); err != nil {
		t.Errorf("a call that was first made 10 s after what is forgotten: %v", err)
	}
}

// TestKeysOfAWrongClock: what a grain stores by a clock of before 1970, or after 9999, it reads again.
func TestKeysOfAWrongClock(t *testing.T) {
	for _, at := range []time.Time{time.Unix(-1000, 0), time.UnixMilli(0), time.Unix(1<<39, 0)} {
		x := newTable(t)
		x.now = at
		x.r.keys.sizes = keySizes{whole: 2, block: 2, blocks: 2}
		for range 20 {
			if err := x.call(&Reply{Kind: OfKey}); err != nil {
				t.Fatal(err)
			}
			x.restart()
		}
		if len(x.sides) == 0 {
			t.Errorf("by a clock that says %v nothing is stored of old keys", at)
		}
	}
}

// TestRestoredKeysOfABlock: a reply whose key is in a block, and which no commit had room to remove, goes after a restart.
func TestRestoredKeysOfABlock(t *testing.T) {
	x := newTable(t)
	x.r.keys.sizes, x.room = keySizes{whole: 2, block: 2, blocks: 9}, 1
	for range 4 {
		if err := x.call(&Reply{Kind: OfKey}); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.sides) != 1 || len(x.stored) != 3 {
		t.Fatalf("%d blocks and %d replies are stored", len(x.sides), len(x.stored))
	}
	x.restart()
	if n := x.r.Kinds[OfKey].N; n != 2 {
		t.Errorf("%d replies are whole after a restart", n)
	}
	x.commit(nil)
	if len(x.stored) != 2 {
		t.Errorf("%d replies are stored", len(x.stored))
	}
}

// TestKeyAfterItsBlock: a call whose key was in a block that was over by one clock, and is not by another one, is known
// for KeepReplies of its own.
func TestKeyAfterItsBlock(t *testing.T) {
	x := newTable(t)
	x.r.keys.sizes = keySizes{whole: 2, block: 2, blocks: 9}
	begun := x.now
	for i := range 6 { // the first block is newer than the second one, which waits for it
		x.now = begun
		if i < 2 {
			x.now = begun.Add(time.Minute)
		}
		if err := x.call(&Reply{Kind: OfKey}); err != nil {
			t.Fatal(err)
		}
	}
	x.now = begun.Add(time.Hour + 2*time.Second)
	if err := x.call(&Reply{Call: idOfKey(3), Kind: OfKey}); err != nil || len(x.sides) != 2 {
		t.Fatalf("a key whose block is over, of %d: %v", len(x.sides), err)
	}
	x.now = begun.Add(time.Hour - time.Second)
	x.restart()
	x.commit(nil)
	x.now = begun.Add(time.Hour + 3*time.Second)
	x.restart()
	p := &Reply{Call: idOfKey(3), Kind: OfKey}
	if old := x.r.ByCall[p.Call]; (old == nil || old.Over(x.now)) && x.r.WhyGone(p, old, x.now) == "" {
		t.Error("the key is forgotten a second after its call")
	}
}

// TestFiringsNeedNoFirstMade: that keys are forgotten refuses no call that has a floor: of a turn, or of a schedule.
// The runtime says of a firing that it repeats when it was first made.
func TestFiringsNeedNoFirstMade(t *testing.T) {
	x := newTable(t)
	x.r.keys.sizes = keySizes{whole: 2, block: 2, blocks: 1}
	for range 20 {
		if err := x.call(&Reply{Kind: OfKey}); err != nil {
			t.Fatal(err)
		}
	}
	first := x.now.UnixMilli() - 1
	if err := x.call(&Reply{Kind: OfKey, First: first}); !errors.Is(err, errGone) {
		t.Errorf("a call with a key: %v", err)
	}
	if err := x.call(&Reply{Kind: OfTurn, Turn: raysys.TaskID{Hi: 2}, Seq: 1, First: first}); err != nil {
		t.Errorf("a firing: %v", err)
	}
}

// TestStoredKeys: the records are what this version writes, and one of a later version or a damaged one is refused.
func TestStoredKeys(t *testing.T) {
	b := &block{number: 7, first: 1, last: 300, hashes: []uint64{1, 1 << 63}}
	good := b.append(nil)
	if want := []byte("\x01\x01\xac\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"); !bytes.Equal(good, want) {
		t.Errorf("a block is %q", good)
	}
	for _, c := range []struct{ name, data, want string }{
		{blockName(7), string(good), ""},
		{"", "\x01\x05", ""},
		{blockName(7), "\x02" + string(good[1:]), "in format 2, and this program knows format 1: it was written by a newer version"},
		{"", "\x02\x05", "newer version"},
		{blockName(7), "", "damaged"},
		{blockName(7), string(good[:4]), "damaged"},
		{blockName(7), string(good[:9]), "damaged"},
		{blockName(7), string(good) + strings.Repeat("12345678", blockKeys), "damaged"},
		{blockName(7), "\x01\x00\x05\x01\x00\x00\x00\x00\x00\x00\x00", "damaged"},
		{blockName(7), "\x01\x05\x04\x01\x00\x00\x00\x00\x00\x00\x00", "damaged"},
		{blockName(7), "\x01\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00\x00\x00\x00\x00\x00\x00", "damaged"},
		{"seven", string(good), "damaged"},
		{"", "\x01\x00", "damaged"},
		{"", "\x01\x05\x05", "damaged"},
	} {
		r := New(0, time.Hour)
		err := r.AddStored(graindir.Side{Family: graindir.SideKeys, Name: c.name, Data: []byte(c.data)})
		switch {
		case c.want == "" && err != nil, c.want != "" && (!errors.Is(err, graindir.ErrUnreadable) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("record %x of %q: %v, want %q", c.name, c.data, err, c.want)
		}
	}
}

// FuzzStoredKeys: a record of keys is read and written as it was, or refused.
func FuzzStoredKeys(f *testing.F) {
	f.Add(true, []byte("\x01\x01\xac\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"))
	f.Add(false, []byte("\x01\x05"))
	f.Fuzz(func(t *testing.T, block bool, data []byte) {
		r, s := New(0, time.Hour), graindir.Side{Family: graindir.SideKeys, Data: data}
		if block {
			s.Name = blockName(3)
		}
		if err := r.AddStored(s); err != nil {
			if !errors.Is(err, graindir.ErrUnreadable) {
				t.Error(err)
			}
			return
		}
		r.Restored(time.Unix(1000, 0))
		if !block {
			r.keys.raised = true
			var c graindir.Commit
			r.keys.store(&c)
			data = c.Sides[0].Data
		} else {
			data = r.keys.blocks[0].append(nil)
		}
		again := New(0, time.Hour)
		if err := again.AddStored(graindir.Side{Family: s.Family, Name: s.Name, Data: data}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again.keys.forgotten, again.keys.next) != fmt.Sprint(r.keys.forgotten, r.keys.next) {
			t.Error("it is read differently again")
		}
		for _, b := range again.keys.blocks {
			if !slices.Equal(b.hashes, r.keys.blocks[0].hashes) {
				t.Error("its hashes are read differently again")
			}
			for _, h := range b.hashes {
				if !b.has(h) {
					t.Errorf("%x is not found", h)
				}
			}
		}
	})
}

// BenchmarkKnownKeys is the look for a new key where a grain knows the most.
func BenchmarkKnownKeys(b *testing.B) {
	r := New(0, time.Hour)
	now := time.Now()
	for i := range usualSizes.blocks {
		next := &block{number: uint64(i), first: now.UnixMilli(), last: now.UnixMilli()}
		for j := range blockKeys {
			next.hashes = append(next.hashes, idOfKey(uint64(i*blockKeys+j)).Hi)
		}
		next.order()
		r.keys.blocks = append(r.keys.blocks, next)
	}
	p := &Reply{Kind: OfKey}
	for i := uint64(1 << 40); b.Loop(); i++ {
		p.Call = idOfKey(i)
		if r.WhyGone(p, nil, now) != "" {
			b.Fatal("it is known")
		}
	}
}
