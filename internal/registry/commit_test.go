package registry

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// replyOf is a stored reply that waits for a node's driver, or for nobody in particular.
func replyOf(owner core.NodeKey) []byte {
	b := wire.AppendNode([]byte{1}, owner)
	b = wire.AppendUvarint(b, 0)
	return append(b, 1, 2, 3, 4, 5, 6, 7, 8, 0, 'r')
}

func commitAlice(token graindir.Token, after graindir.ETag, turn uint64, calls ...uint64) *commit {
	o := &commit{alice(token), graindir.Commit{
		After: after, Counter: graindir.Counter{Turn: turn, Nonce: turn}, States: []graindir.StateChange{{Name: "n", Data: []byte{byte(turn)}}},
	}}
	for _, c := range calls {
		o.Replies = append(o.Replies, graindir.StoredReply{Call: raysys.TaskID{Lo: c}, Data: replyOf(aliveNode)})
	}
	return o
}

func restoreAlice(token graindir.Token) *restore { return &restore{load: *loadAlice(token)} }

// TestRestorePages: what is stored of a grain comes in answers of about pageBytes, each State and each reply once.
func TestRestorePages(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	names, after := []string{}, graindir.ETag{}
	for i := range 6 { // a commit each, of 250 KB
		o := commitAlice(now.Token, after, uint64(i+1))
		names = append(names, fmt.Sprint("s", i))
		o.States = append(o.States, graindir.StateChange{Name: names[i], Data: bytes.Repeat([]byte{byte(i)}, 120_000)})
		for j := range 120 {
			call := raysys.TaskID{Hi: 7, Lo: uint64(i*120 + j)}
			o.Replies = append(o.Replies, graindir.StoredReply{Call: call, Data: append(replyOf(aliveNode), make([]byte, 1000)...)})
		}
		a := says(e, aliveNode, o)
		if a.err != nil {
			t.Fatal(a.err)
		}
		after = a.value
	}
	next := restore{load: load{alice(now.Token), names}}
	states, pages, replies := 0, 0, map[raysys.TaskID]bool{}
	for more := true; more; pages++ {
		a := says(e, aliveNode, &next)
		if a.err != nil {
			t.Fatal(a.err)
		}
		size := 0
		for _, s := range a.value.States {
			if !s.Exists || s.Data[0] != byte(states) {
				t.Errorf("State %d is another", states)
			}
			states, size = states+1, size+len(s.Data)
		}
		for _, p := range a.value.Replies {
			if replies[p.Call] {
				t.Errorf("reply %s comes twice", p.Call)
			}
			replies[p.Call], size = true, size+len(p.Data)
			next.after = p.Call
		}
		if size > pageBytes+128<<10 {
			t.Errorf("page %d has %d bytes", pages, size)
		}
		next.names, more = names[states:], a.value.more
	}
	if states != len(names) || len(replies) != 720 || pages < 3 {
		t.Errorf("%d States and %d replies in %d pages", states, len(replies), pages)
	}
}

// TestCommit: the States, the counter and the replies of a turn are stored together or not at all, under the current token
// and behind the turn that they name.
func TestCommit(t *testing.T) {
	e := served(t)
	old := place(t, e, deadNode)
	e.dead.Store(deadNode, true)
	now := place(t, e, aliveNode)
	none := graindir.ETag{}
	first := says(e, aliveNode, commitAlice(now.Token, none, 1, 1, 2))
	if first.err != nil {
		t.Fatal(first.err)
	}
	for name, c := range map[string]struct {
		from core.NodeKey
		op   *commit
		want error
	}{
		"by an earlier activation":      {deadNode, commitAlice(old.Token, first.value, 2, 3), raysys.ErrMoved},
		"by another node":               {core.NodeKey{Node: "x", Incarnation: 1}, commitAlice(now.Token, first.value, 2, 3), raysys.ErrMoved},
		"behind no turn":                {aliveNode, commitAlice(now.Token, none, 2, 3), graindir.ErrETag},
		"behind a turn that is not the": {aliveNode, commitAlice(now.Token, graindir.ETag{Epoch: first.value.Epoch, Seq: first.value.Seq + 9}, 2, 3), graindir.ErrETag},
	} {
		if a := says(e, c.from, c.op); !errors.Is(a.err, c.want) {
			t.Errorf("a commit %s: %+v, want %v", name, a, c.want)
		}
	}
	got := says(e, aliveNode, restoreAlice(now.Token))
	if got.err != nil {
		t.Fatal(got.err)
	}
	r := got.value
	if r.Version != first.value || r.Counter.Turn != 1 || string(r.States[0].Data) != "\x01" || len(r.Replies) != 2 {
		t.Errorf("after commits that were refused there is %+v, want what the first one stored", r)
	}
	next := commitAlice(now.Token, first.value, 2, 3)
	next.Forget = []raysys.TaskID{{Lo: 1}}
	if a := says(e, aliveNode, next); a.err != nil {
		t.Fatal(a.err)
	}
	got = says(e, aliveNode, restoreAlice(now.Token))
	var calls []uint64
	for _, p := range got.value.Replies {
		calls = append(calls, p.Call.Lo)
	}
	slices.Sort(calls)
	if !slices.Equal(calls, []uint64{2, 3}) || got.value.Counter.Turn != 2 {
		t.Errorf("%+v, want the replies of calls 2 and 3: %v", got, calls)
	}
	if a := says(e, aliveNode, loadAlice(now.Token)); a.err != nil || string(a.value[0].Data) != "\x02" {
		t.Errorf("a durable grain's State is stored as any: %+v", a)
	}
	if a := says(e, deadNode, restoreAlice(old.Token)); !errors.Is(a.err, raysys.ErrMoved) {
		t.Errorf("an earlier activation restores: %+v", a)
	}
}

// TestRepliesOfTheDead: the replies that a dead driver alone could ask for are reaped, others stay.
func TestRepliesOfTheDead(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	c := commitAlice(now.Token, graindir.ETag{}, 1, 1)
	c.Replies = append(c.Replies,
		graindir.StoredReply{Call: raysys.TaskID{Lo: 2}, Data: replyOf(deadNode)},
		graindir.StoredReply{Call: raysys.TaskID{Lo: 3}, Data: replyOf(core.NodeKey{})},
		graindir.StoredReply{Call: raysys.TaskID{Lo: 4}, Data: []byte("of a newer version")})
	if a := says(e, aliveNode, c); a.err != nil {
		t.Fatal(a.err)
	}
	e.dead.Store(deadNode, true)
	e.reg.Reap()
	soon(t, "the reply goes", func() bool { return len(says(e, aliveNode, restoreAlice(now.Token)).value.Replies) == 3 })
	for _, p := range says(e, aliveNode, restoreAlice(now.Token)).value.Replies {
		if p.Call.Lo == 2 {
			t.Error("another reply was reaped")
		}
	}
}

// TestUnreadableCounter: of a newer program. Nothing is answered, and so nothing overwritten.
func TestUnreadableCounter(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	g := alice(now.Token)
	batch := shardlog.Batch{Puts: []shardlog.Put{{Key: g.counterKey(), Value: []byte{99, 1}}}}
	if _, err := e.reg.led[0].shard.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if a := says(e, aliveNode, restoreAlice(now.Token)); !errors.Is(a.err, graindir.ErrUnreadable) {
		t.Errorf("%+v, want ErrUnreadable", a)
	}
}

// TestSides: Side records are stored, removed and read with the turns of their grain, in pages, and with those of no
// other, whatever its name is.
func TestSides(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	c := commitAlice(now.Token, graindir.ETag{}, 1, 1)
	for i := range 20 {
		c.Sides = append(c.Sides,
			graindir.Side{Family: graindir.SideEntries, Name: fmt.Sprintf("%02d\x00", i), Data: []byte{byte(i)}},
			graindir.Side{Family: graindir.SideOutbox, Name: fmt.Sprintf("%02d", i), Data: make([]byte, 8<<10)})
	}
	first := says(e, aliveNode, c)
	if first.err != nil {
		t.Fatal(first.err)
	}
	other := alice(now.Token)
	other.id.Key += "\x00"
	batch := shardlog.Batch{Puts: []shardlog.Put{{Key: other.sidePrefix('m') + "x", Value: []byte("of another")}}}
	if _, err := e.reg.led[0].shard.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	next := commitAlice(now.Token, first.value, 2, 2)
	next.Sides = []graindir.Side{{Family: graindir.SideOutbox, Name: "07"}}
	for i := range 100 {
		next.Sides = append(next.Sides, graindir.Side{Family: graindir.SideKeys, Name: string([]byte{byte(i)}), Data: []byte{}})
	}
	if a := says(e, aliveNode, next); a.err != nil {
		t.Fatal(a.err)
	}
	for i := range uint64(6) { // beyond a page
		more := commitAlice(now.Token, says(e, aliveNode, restoreAlice(now.Token)).value.Version, 3+i, 3+i)
		for j := range 2 {
			more.Sides = append(more.Sides, graindir.Side{Family: graindir.SideEntries, Name: fmt.Sprint("large", i, j), Data: make([]byte, 60<<10)})
		}
		if a := says(e, aliveNode, more); a.err != nil {
			t.Fatal(a.err)
		}
	}
	var all []graindir.Side
	pages := 0
	for o := restoreAlice(now.Token); ; pages++ {
		a := says(e, aliveNode, o)
		if a.err != nil {
			t.Fatal(a.err)
		}
		all = append(all, a.value.Sides...)
		if !a.value.more {
			break
		}
		o = &restore{load: load{o.grain, nil}, last: all[len(all)-1]}
	}
	count := map[byte]int{}
	for i, s := range all {
		count[s.Family]++
		if s.Family == graindir.SideOutbox && (s.Name == "07" || len(s.Data) != 8<<10) || string(s.Data) == "of another" {
			t.Errorf("%c %q with %d bytes", s.Family, s.Name, len(s.Data))
		}
		if i > 0 && (s.Family < all[i-1].Family || s.Family == all[i-1].Family && s.Name <= all[i-1].Name) {
			t.Errorf("%c %q after %c %q", s.Family, s.Name, all[i-1].Family, all[i-1].Name)
		}
	}
	if want := map[byte]int{'e': 19, 'k': 100, 'm': 32}; !maps.Equal(count, want) || pages == 0 {
		t.Errorf("%d pages after the first with %v, want %v", pages, count, want)
	}
}

// TestRestoreCounter: who asks for the counter alone gets no replies and no Side records, in one answer.
func TestRestoreCounter(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	g := alice(now.Token)
	counter := graindir.Counter{Turn: 7, Nonce: 9}
	b := shardlog.Batch{Puts: []shardlog.Put{
		{Key: g.counterKey(), Value: appendCounter(counter)},
		{Key: g.replyKey(raysys.TaskID{Lo: 1}), Value: []byte{1}},
		{Key: g.sidePrefix('k') + "1", Value: []byte{1}},
		{Key: g.sidePrefix('m') + "\xff\xff", Value: make([]byte, 64<<10)},
	}}
	if _, err := e.reg.led[0].shard.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	a := says(e, aliveNode, &restore{load: load{g, nil}, last: behindAll})
	if a.err != nil || a.value.Counter != counter || a.value.Version == (graindir.ETag{}) {
		t.Errorf("%+v, %v, want %+v", a.value, a.err, counter)
	}
	if a.value.more || len(a.value.States)+len(a.value.Replies)+len(a.value.Sides) > 0 {
		t.Errorf("more than the counter: %+v", a.value)
	}
}

// TestDropSides: records of a grain that match are removed while it is on no node, however many; else nothing is.
func TestDropSides(t *testing.T) {
	e := served(t)
	now := place(t, e, aliveNode)
	o := commitAlice(now.Token, graindir.ETag{}, 1)
	for i := range 2*maxDropped + 6 {
		name := fmt.Sprintf("%04d", i)
		o.Sides = append(o.Sides, graindir.Side{Family: graindir.SideOutbox, Name: name, Data: []byte{byte(i % 2)}})
	}
	o.Sides = append(o.Sides, graindir.Side{Family: graindir.SideEntries, Name: "m", Data: []byte{1}})
	if a := says(e, aliveNode, o); a.err != nil {
		t.Fatal(a.err)
	}
	odd := func(_ string, data []byte) bool { return data[0] == 1 }
	drop := func() (int, raysys.NodeID, error) {
		return DropSides(t.Context(), e.reg, o.ns, o.id, graindir.SideOutbox, odd)
	}
	if n, at, err := drop(); n != 0 || at != aliveNode.Node || err != nil {
		t.Errorf("of a grain that is placed %d are removed; it is on %q: %v", n, at, err)
	}
	if a := says(e, aliveNode, releaseAlice(now.Token)); a.err != nil {
		t.Fatal(a.err)
	}
	for _, want := range []int{maxDropped + 3, 0} {
		if n, at, err := drop(); n != want || at != "" || err != nil {
			t.Errorf("%d are removed, want %d; it is on %q: %v", n, want, at, err)
		}
	}
	left := 0
	for _, family := range []byte{graindir.SideOutbox, graindir.SideEntries} {
		EachSide(e.reg, o.ns, o.id, family, func(string, []byte) { left++ })
	}
	if left != maxDropped+3+1 {
		t.Errorf("%d records are left", left)
	}
}

// TestStoredPages: what is stored of the grains of a kind comes in pages of 1,000 grains or about pageBytes, each record
// once, grain by grain in the order of their keys: those of the kind, the namespace and the prefix alone.
func TestStoredPages(t *testing.T) {
	e := served(t)
	want := map[string]string{} // by grain: the families of its records, in order
	put := func(ns, kind, key string, states []string, entries, size int) {
		g := grain{ns: ns, id: graindir.ID{Kind: kind, Key: key}}
		b := shardlog.Batch{Puts: []shardlog.Put{{Key: g.counterKey(), Value: appendCounter(graindir.Counter{Turn: 7})}}}
		for _, name := range states {
			b.Puts = append(b.Puts, shardlog.Put{Key: g.stateKey(name), Value: make([]byte, size)})
		}
		for i := range entries {
			b.Puts = append(b.Puts, shardlog.Put{Key: g.sidePrefix('m') + fmt.Sprintf("%03d", i), Value: make([]byte, size)})
		}
		if _, err := e.reg.led[0].shard.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if ns == "test" && kind == "account" && strings.HasPrefix(key, "eu/") {
			want[key] = "d" + strings.Repeat("s", len(states)) + strings.Repeat("m", entries)
		}
	}
	for i := range 1200 {
		put("test", "account", fmt.Sprintf("eu/%04d", i), []string{"a"}, 0, 8)
	}
	for i := range 8 { // large ones, after those
		put("test", "account", fmt.Sprintf("eu/x%d\x00", i), []string{"a", "b"}, i, 16<<10)
	}
	put("test", "account", "eu/x1", nil, 0, 0) // the begin of another's name
	put("test", "account", "us/1", []string{"a"}, 1, 8)
	put("test", "accounts", "eu/1", []string{"a"}, 1, 8)
	put("other", "account", "eu/1", []string{"a"}, 1, 8)
	got := map[string]string{}
	pages, last := 0, ""
	q := graindir.Query{Kind: "account", States: []string{"a", "b", "c"}, Prefix: "eu/"}
	for more := true; more; pages++ {
		a := says(e, core.NodeKey{Node: "any", Incarnation: 9}, &page{"test", q})
		if a.err != nil {
			t.Fatal(a.err)
		}
		grains, size := map[string]bool{}, 0
		for _, s := range a.value.Records {
			if got[s.Key] += string(s.Family); s.Key < last {
				t.Errorf("%q comes after %q", s.Key, last)
			}
			last, grains[s.Key] = s.Key, true
			size += len(s.Data)
		}
		if len(grains) > maxPageGrains || size > pageBytes+64<<10 {
			t.Errorf("a page of %d grains and %d bytes", len(grains), size)
		}
		if more = a.value.More; more {
			q.From = a.value.Records[len(a.value.Records)-1]
			q.From.Data = nil
		}
	}
	if !maps.Equal(got, want) || pages < 3 {
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("%q: %q, want %q", key, got[key], want[key])
			}
		}
		t.Errorf("%d grains in %d pages, want %d", len(got), pages, len(want))
	}
}

// FuzzPage: a question for a page, and a page, that are read are written as they were read, and others are refused.
func FuzzPage(f *testing.F) {
	q := page{"test", graindir.Query{Kind: "k", States: []string{"a"}, Prefix: "p", From: graindir.Stored{Key: "x", Side: graindir.Side{Family: 'm', Name: "n"}}}}
	f.Add(q.append(nil), q.appendAnswer(nil, graindir.Page{More: true, Records: []graindir.Stored{{Key: "x", Side: graindir.Side{Family: 'd', Data: []byte{1}}}}}))
	f.Fuzz(func(t *testing.T, ask, answer []byte) {
		var o, again page
		r := wire.NewReader(ask)
		if err := o.read(&r); err == nil {
			r = wire.NewReader(o.append(nil))
			if err := again.read(&r); err != nil || r.Len() > 0 || !bytes.Equal(again.append(nil), o.append(nil)) {
				t.Errorf("%+v is read as %+v, %v", o, again, err)
			}
		}
		r = wire.NewReader(answer)
		if p, err := o.readAnswer(&r); err == nil {
			r = wire.NewReader(o.appendAnswer(nil, p))
			if back, err := o.readAnswer(&r); err != nil || r.Len() > 0 || len(back.Records) != len(p.Records) || back.More != p.More {
				t.Errorf("%+v is read as %+v, %v", p, back, err)
			}
		}
	})
}

// TestListedPages: a listed page says of each grain how many keys, messages, bytes of States and entries there are,
// whatever the States are called; what is large to count ends a page, and each grain is in one.
func TestListedPages(t *testing.T) {
	e := served(t)
	put := func(key string, entries int) {
		g := grain{ns: "other", id: graindir.ID{Kind: "account", Key: key}}
		b := shardlog.Batch{Puts: []shardlog.Put{
			{Key: g.counterKey(), Value: appendCounter(graindir.Counter{Turn: 7})},
			{Key: g.stateKey("odd"), Value: make([]byte, 9)},
			{Key: g.sidePrefix(graindir.SideOutbox) + "12345678", Value: []byte{1}},
			{Key: g.sidePrefix(graindir.SideKeys) + "12345678", Value: append([]byte{1, 1, 1}, make([]byte, 24)...)},
			{Key: g.sidePrefix(graindir.SideKeys), Value: []byte{1, 5}},
			{Key: g.replyKey(raysys.TaskID{Lo: 1}), Value: (&replies.Reply{Kind: replies.OfKey}).Append(nil)},
			{Key: g.replyKey(raysys.TaskID{Lo: 2}), Value: replyOf(aliveNode)},
		}}
		for i := range entries {
			name := string(wire.AppendBytes(nil, []string{"A", "B"}[i*2/entries])) + fmt.Sprintf("%06d", i)
			b.Puts = append(b.Puts, shardlog.Put{Key: g.sidePrefix(graindir.SideEntries) + name, Value: make([]byte, 2)})
		}
		if _, err := e.reg.led[0].shard.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	keys := []string{"a", "a\x00b", "c", "d"}
	for i, key := range keys {
		put(key, 3000*(i%2+1)) // of pageBytes, about two make a page
	}
	var got []string
	pages := 0
	q := graindir.Query{Kind: "account", Listed: true, Namespace: "other"}
	for more := true; more; pages++ {
		answer := make(chan graindir.Page, 1)
		StoredPage(e.reg, q, func(p graindir.Page, err error) {
			if err != nil {
				t.Error(err)
			}
			answer <- p
		})
		p := <-answer
		for _, r := range p.Records {
			if r.Family == graindir.StoredCounter {
				got = append(got, fmt.Sprintf("%q turn %d", r.Key, r.Counter.Turn))
			} else {
				got = append(got, fmt.Sprintf("%c%s %v", r.Family, r.Name, graindir.ReadTally(r.Data)))
			}
			q.From.Key = r.Key + "\x00"
		}
		more = p.More
	}
	var want []string
	for i, key := range keys {
		n := uint64(1500 * (i%2 + 1))
		want = append(want, fmt.Sprintf("%q turn 7", key), fmt.Sprint("n ", graindir.Tally{N: 4, Size: 1}), fmt.Sprint("sodd ", graindir.Tally{N: 1, Size: 9}),
			fmt.Sprint("mA ", graindir.Tally{N: n, Size: 10 * n}), fmt.Sprint("mB ", graindir.Tally{N: n, Size: 10 * n}))
	}
	if !slices.Equal(got, want) || pages < 2 || pages > 4 {
		t.Errorf("in %d pages: %q, want %q", pages, got, want)
	}
}
