package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
)

var errAway = errors.New("away")

// model drives a Box as a grain does, with its store and its receivers.
type model struct {
	t      *rapid.T
	box    Box
	now    int64
	turn   uint64
	stored map[uint64]*Message
	flying []*Message
	order  map[string][]uint64 // that were stored, by receiver
	ran    map[string][]uint64 // what receivers have run
	floors map[string]*Floors  // of durable receivers
	sides  map[string][]graindir.Side

	dropped map[uint64]bool // they may arrive or not
}

func newModel(t *rapid.T) *model {
	x := &model{t: t, stored: map[uint64]*Message{}, order: map[string][]uint64{}, ran: map[string][]uint64{}}
	x.dropped = map[uint64]bool{}
	x.sides = map[string][]graindir.Side{}
	x.floors = map[string]*Floors{"d1": {}, "d2": {}}
	return x
}

// durableReceiver reports whether a receiver keeps the order by numbers.
func durableReceiver(to string) bool { return to[0] == 'd' }

// commitTurn ends a turn that has sent something; its commit is made, is refused, or is made without an answer.
func (x *model) commitTurn(n int, how string) {
	x.turn++
	var list []*Message
	for i := range n {
		to := rapid.SampledFrom([]string{"d1", "d2", "p1", "p2"}).Draw(x.t, "to")
		m := New(Tell, to, []byte(fmt.Sprint(x.turn, i)))
		m.Number, m.Wide = x.turn<<PlaceBits|uint64(i), durableReceiver(to)
		list = append(list, m)
	}
	x.box.Count(list, 1)
	if how == "refused" {
		x.box.Count(list, -1)
		return
	}
	for _, m := range list {
		x.stored[m.Number] = m
		x.order[m.To] = append(x.order[m.To], m.Number)
	}
	if how == "made" {
		x.box.Add(list)
		return
	}
	x.box.Count(list, -1)
	x.box.Restore(x.restored())
}

// restored reads everything back.
func (x *model) restored() (list []*Message) {
	for n, was := range x.stored {
		m, err := ReadMessage(graindir.Side{Family: graindir.SideOutbox, Name: Name(n), Data: was.Record})
		if err != nil {
			x.t.Fatal(err)
		}
		m.Wide = was.Wide
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *Message) int { return strings.Compare(Name(a.Number), Name(b.Number)) })
	return list
}

func (x *model) restart() {
	x.box, x.flying = Box{}, nil // what is on its way may arrive, and its answer comes to nobody
	x.box.Restore(x.restored())
}

func (x *model) send() (again int64) {
	list, again := x.box.Next(x.now)
	x.flying = append(x.flying, list...)
	by := map[string]int{}
	for _, m := range x.flying {
		if m.state == dropped {
			continue
		}
		if by[m.To]++; by[m.To] > 1 && !m.Wide || by[m.To] > wide {
			x.t.Fatalf("%d messages are on their way to %s", by[m.To], m.To)
		}
	}
	return again
}

// deliver gives a message to its receiver, which answers it unless the answer is lost.
func (x *model) deliver(i int, answered bool) {
	m := x.flying[i]
	x.flying = slices.Delete(x.flying, i, i+1)
	s, f, now := &Sent{From: sender, Number: m.Number, Before: m.Before}, x.floors[m.To], time.UnixMilli(x.now/1e6)
	var err error
	switch {
	case !durableReceiver(m.To):
		x.ran[m.To] = append(x.ran[m.To], m.Number)
	case f.Judge(s) == TooEarly:
		err = errAway
	case f.Judge(s) == Runs && rapid.IntRange(0, 9).Draw(x.t, "receiver") == 0: // its commit is refused, or it moves
		f.Raise(s, now)
		x.restartReceiver(m.To)
		err = errAway
	case f.Judge(s) == Runs:
		f.Raise(s, now)
		x.sides[m.To] = Store(x.sides[m.To], s, now)
		x.ran[m.To] = append(x.ran[m.To], m.Number)
	}
	if !answered {
		err = errAway
	}
	x.box.Ended(m, err, x.now)
}

// sender is the id of the model's grain.
var sender = raysys.TaskID{Hi: 1, Lo: 2}

func (x *model) restartReceiver(to string) {
	f, err := ReadFloors(x.sides[to])
	if err != nil {
		x.t.Fatal(err)
	}
	x.floors[to] = &f
}

func (x *model) removeGone() {
	list := slices.Clone(x.box.Gone(7))
	for _, n := range list {
		if x.stored[n] == nil {
			x.t.Fatalf("message %x is removed twice", n)
		}
		delete(x.stored, n)
	}
	x.box.Removed(list)
}

// drop gives up the messages to a receiver, or one of them, as an operator does.
func (x *model) drop(to string, one bool) {
	n := 0
	got, last := x.box.Drop(func(m *Message) bool {
		if m.To != to || one && n > 0 {
			return false
		}
		n++
		x.dropped[m.Number] = true
		return true
	})
	if got != n || n > 0 && !slices.Contains(x.box.gone, last) {
		x.t.Fatalf("%d messages to %s are dropped, want %d", got, to, n)
	}
}

// kept are the numbers of messages that were never dropped.
func (x *model) kept(list []uint64) (kept []uint64) {
	for _, n := range list {
		if !x.dropped[n] {
			kept = append(kept, n)
		}
	}
	return kept
}

// TestBox: with turns that fail, commits that are refused or whose outcome is unknown, faults, lost answers and
// restarts, each message that was stored and not dropped arrives, those to one receiver in their order; at a receiver
// that knows numbers each once; and nothing is left.
func TestBox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newModel(t)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 10).Draw(t, "step") {
			case 10:
				if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
					to := rapid.SampledFrom([]string{"d1", "d2", "p1", "p2"}).Draw(t, "of")
					x.drop(to, rapid.Bool().Draw(t, "one"))
				}
			case 0, 1:
				fates := []string{"made", "made", "made", "refused", "unknown"}
				x.commitTurn(rapid.IntRange(1, 40).Draw(t, "messages"), rapid.SampledFrom(fates).Draw(t, "commit"))
			case 2:
				x.now += int64(rapid.IntRange(0, 100).Draw(t, "pass")) * int64(time.Millisecond)
			case 3:
				if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
					x.restart()
				}
			case 4:
				x.removeGone()
			case 5:
				x.box.Restore(x.restored())
			default:
				x.send()
				for range min(len(x.flying), 3) {
					i := rapid.IntRange(0, len(x.flying)-1).Draw(t, "which")
					if rapid.IntRange(0, 5).Draw(t, "fate") == 0 {
						m := x.flying[i]
						x.flying = slices.Delete(x.flying, i, i+1)
						x.box.Ended(m, errAway, x.now)
					} else {
						x.deliver(i, rapid.IntRange(0, 5).Draw(t, "answer") > 0)
					}
				}
			}
		}
		for range 10_000 {
			again := x.send()
			if len(x.flying) == 0 && again == 0 {
				break
			}
			for len(x.flying) > 0 {
				x.deliver(0, true)
			}
			x.now = max(x.now, again)
		}
		for to, sent := range x.order {
			var first []uint64
			for _, n := range x.ran[to] {
				if !slices.Contains(first, n) {
					first = append(first, n)
				}
			}
			if !slices.Equal(x.kept(first), x.kept(sent)) {
				t.Fatalf("%s ran %x, and was sent %x", to, first, sent)
			}
			if durableReceiver(to) && len(x.ran[to]) != len(first) {
				t.Fatalf("%s ran %x, and was sent %x", to, x.ran[to], sent)
			}
		}
		for len(x.box.gone) > 0 {
			x.removeGone()
		}
		if b := &x.box; b.N != 0 || b.Size != 0 || b.active+b.hung != 0 || len(b.lines) != 0 || len(x.stored) != 0 {
			t.Fatalf(
				"%d messages of %d bytes, %d lines, %d of them active, and %d records are left",
				b.N, b.Size, len(b.lines), b.active, len(x.stored))
		}
	})
}

// TestSenders: beyond their number the one that was silent for longest is forgotten, in memory and in the store; also
// after a restart.
func TestSenders(t *testing.T) {
	stored := map[string]graindir.Side{}
	apply := func(sides []graindir.Side) {
		for _, s := range sides {
			if s.Data == nil {
				delete(stored, s.Name)
			} else {
				stored[s.Name] = s
			}
		}
	}
	id := func(i int) raysys.TaskID { return raysys.TaskID{Hi: uint64(i * 7919 % (2 * MaxSenders)), Lo: 1} }
	var f Floors
	for i := range MaxSenders + 50 {
		s, now := &Sent{From: id(i), Number: 5}, time.UnixMilli(int64(i))
		f.Raise(s, now)
		apply(Store(nil, s, now))
		if i == MaxSenders-1 {
			s.From = id(0) // it speaks again
			f.Raise(s, now)
			apply(Store(nil, s, now))
			f = restoredFloors(t, stored)
		}
	}
	apply(f.Forget(nil, 20))
	apply(f.Forget(nil, 1000))
	for range 2 {
		if len(stored) != MaxSenders || len(f.by) != MaxSenders {
			t.Fatalf("%d senders are stored, and %d known", len(stored), len(f.by))
		}
		for i, want := range map[int]Verdict{0: Done, 1: TooEarly, 50: TooEarly, 51: Done, MaxSenders + 49: Done} {
			if got := f.Judge(&Sent{From: id(i), Number: 5, Before: 4}); got != want {
				t.Errorf("a message of sender %d: %d, want %d", i, got, want)
			}
		}
		if got := f.Judge(&Sent{From: id(1), Number: 5}); got != Runs {
			t.Errorf("the first message of a sender that is not known: %d", got)
		}
		f = restoredFloors(t, stored)
	}
	if got := f.Judge(&Sent{From: id(0), Number: 8, Before: 7}); got != TooEarly {
		t.Errorf("a message before which one is missing: %d", got)
	}
}

func restoredFloors(t *testing.T, stored map[string]graindir.Side) Floors {
	f, err := ReadFloors(slices.Collect(maps.Values(stored)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFloorRecord: a floor is stored as testdata says, and what a later version has written, or what is damaged, is
// said to be so.
func TestFloorRecord(t *testing.T) {
	s := Store(nil, &Sent{From: sender, Number: 7<<PlaceBits | 2}, time.UnixMilli(1_800_000_000_000))[0]
	if got := append([]byte(s.Name), s.Data...); !bytes.Equal(golden.Hex(t, "v1/floor.hex", got), got) {
		t.Errorf("a floor is stored as %x", got)
	}
	for name, bad := range map[string]graindir.Side{
		"a later version": {Name: s.Name, Data: append([]byte{2}, s.Data[1:]...)},
		"cut off":         {Name: s.Name, Data: s.Data[:2]},
		"a short name":    {Name: s.Name[:9], Data: s.Data},
	} {
		bad.Family = graindir.SideFloors
		if _, err := ReadFloors([]graindir.Side{bad}); !errors.Is(err, graindir.ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzFloors: whatever is stored, reading it fails or gives a floor.
func FuzzFloors(f *testing.F) {
	s := Store(nil, &Sent{From: raysys.TaskID{Hi: 1}, Number: 9}, time.UnixMilli(5))[0]
	f.Add(s.Name, s.Data)
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		floors, err := ReadFloors([]graindir.Side{{Family: graindir.SideFloors, Name: name, Data: data}})
		if err == nil && (len(floors.by) != 1 || floors.silent.Len() != 1) {
			t.Errorf("%x, %x is read as %d floors", name, data, len(floors.by))
		}
	})
}

// TestReceivers: messages go to 256 receivers at once, and to one of them 32 once it has answered; one that does not
// answer holds up nobody else.
func TestReceivers(t *testing.T) {
	to := func(receivers int) (*Box, []*Message) {
		b := &Box{}
		var all []*Message
		for i := range receivers {
			for n := range 2 * wide {
				m := New(Tell, fmt.Sprint("r", i), nil)
				m.Number, m.Wide = uint64(n+1)<<PlaceBits|uint64(i), true
				all = append(all, m)
			}
		}
		b.Count(all, 1)
		b.Add(all)
		list, _ := b.Next(0)
		return b, list
	}
	b, list := to(maxReceivers + 3)
	if len(list) != maxReceivers {
		t.Fatalf("%d messages go at first", len(list))
	}
	b.Ended(list[7], nil, 0)
	if more, _ := b.Next(0); len(more) != 1 || more[0].To != fmt.Sprint("r", maxReceivers) {
		t.Errorf("once one of the receivers has answered, %d go", len(more))
	}
	b, list = to(2)
	b.Ended(list[0], nil, 0)
	if more, _ := b.Next(0); len(more) != wide || more[0].To != "r0" || more[3].Before != more[2].Number {
		t.Errorf("%d messages go to a receiver that has answered", len(more))
	}
	b.Ended(list[1], errAway, 0)
	if more, again := b.Next(0); len(more) != 0 || again != int64(firstPause) {
		t.Errorf("after a fault %d messages go, and the next look is after %d", len(more), again)
	}
	now, pause := int64(0), time.Duration(0)
	for range 30 {
		_, again := b.Next(now)
		pause, now = time.Duration(again-now), again
		more, _ := b.Next(now)
		if len(more) != 1 || more[0] != list[1] {
			t.Fatalf("after the pause of %v %d messages go", pause, len(more))
		}
		b.Ended(more[0], errAway, now)
	}
	if pause != lastPause {
		t.Errorf("the last pause is %v", pause)
	}
}

// TestHungReceivers: receivers of which no answer comes give their places to others, up to a bound; in the end all have
// all messages, in their order, one at a time.
func TestHungReceivers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hang := rapid.IntRange(1, maxFlying+200).Draw(t, "hang")
		all := hang + rapid.IntRange(1, 300).Draw(t, "live")
		hangs := map[string]bool{}
		b, now, n := &Box{}, int64(0), uint64(0)
		for _, i := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(all) {
			to := fmt.Sprint("r", i)
			hangs[to] = i < hang
			for range 2 {
				n++
				m := New(Tell, to, nil)
				m.Number = n
				b.Count([]*Message{m}, 1)
				b.Add([]*Message{m})
			}
		}
		flying, got := map[string]*Message{}, map[string]uint64{}
		arrive := func(to string) {
			m := flying[to]
			if m.Number <= got[to] {
				t.Fatalf("message %d to %s arrives behind %d", m.Number, to, got[to])
			}
			got[to] = m.Number
			delete(flying, to)
			b.Ended(m, nil, now)
		}
		run := func() {
			for again := int64(1); again != 0; {
				var list []*Message
				list, again = b.Next(now)
				for _, m := range list {
					if flying[m.To] != nil {
						t.Fatalf("two messages are on their way to %s", m.To)
					}
					flying[m.To] = m
				}
				if len(flying) > maxFlying || len(flying) != b.active+b.hung {
					t.Fatalf("%d messages are on their way; %d lines live and %d hang", len(flying), b.active, b.hung)
				}
				for _, m := range list {
					if !hangs[m.To] {
						arrive(m.To)
						again = max(again, 1)
					}
				}
				if len(list) == 0 && again != 0 {
					if again <= now {
						t.Fatal("the next look is in the past")
					}
					now = again
				}
			}
		}
		run()
		if hung := len(flying); hung != min(hang, maxFlying) {
			t.Fatalf("%d of %d that hang have a message", hung, hang)
		}
		if want := all - hang; hang < maxFlying && len(got) != want || len(flying) < maxFlying && b.N != 2*hang {
			t.Fatalf("%d receivers have messages, want %d; %d are left", len(got), want, b.N)
		}
		clear(hangs)
		for len(flying) > 0 {
			for _, to := range slices.Sorted(maps.Keys(flying)) {
				arrive(to)
			}
			run()
		}
		if b.N != 0 || b.active+b.hung != 0 || len(b.lines) != 0 || now > 6*int64(hangsAfter) {
			t.Fatalf("%d messages are left, %d lines live and %d hang, after %v", b.N, b.active, b.hung, time.Duration(now))
		}
	})
}

// TestUnreadable: of a message that cannot be read nothing is sent, nor of those behind it: of its line, or of all where
// its receiver is not known. It is seen, and once it is dropped the others go.
func TestUnreadable(t *testing.T) {
	numbers := func(b *Box) (list []uint64) {
		for range 3 {
			next, _ := b.Next(0)
			for _, m := range next {
				list = append(list, m.Number)
			}
			for _, m := range next {
				b.Ended(m, nil, 0)
			}
		}
		return list
	}
	message := func(n uint64, to string) *Message {
		m := New(Tell, to, nil)
		m.Number, m.Wide = n, true
		return m
	}
	damaged := message(3, "a")
	damaged.Bad = errAway
	later, err := ReadMessage(graindir.Side{Name: Name(5), Data: []byte{9, 9}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Sender{}
	b := &s.box
	b.Restore([]*Message{message(1, "a"), message(2, "b"), damaged, message(4, "a"), later, message(6, "b"), message(7, "c")})
	s.cfg.Runtime = stopped{}
	if got := numbers(b); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("%v are sent", got)
	}
	if s.Late(1) || !s.Late(0) {
		t.Error("a message that has just come is late, or one that has waited for that long is not")
	}
	w := s.Waiting(2).Receivers
	if len(w) != 2 || w[0].To != "0000000000000003" || w[1].To != "0000000000000005" || w[1].Kind != Unreadable || w[1].Why != later.Bad {
		t.Errorf("%+v wait", w)
	}
	drop := func(n uint64) {
		if got, _ := b.Drop(func(m *Message) bool { return m.Number == n }); got != 1 {
			t.Fatalf("%d messages are dropped", got)
		}
	}
	drop(5)
	if got := numbers(b); !slices.Equal(got, []uint64{6, 7}) {
		t.Fatalf("%v are sent once the message without a receiver is dropped", got)
	}
	drop(3)
	if got := numbers(b); !slices.Equal(got, []uint64{4}) || b.N != 0 || len(b.lines) != 0 {
		t.Fatalf("%v are sent in the end, and %d are left", got, b.N)
	}
}

// stopped is a clock that stands.
type stopped struct{ core.Runtime }

func (stopped) Now() int64 { return 0 }

// TestFull: calls are refused beyond the number of messages and beyond their bytes, those that are messages at twice
// as many.
func TestFull(t *testing.T) {
	for name, size := range map[string]int{"messages": 0, "bytes": 4 << 10} {
		m := New(Tell, "r", make([]byte, size))
		var b Box
		n := 0
		for ; b.Full(false) == nil; n++ {
			b.Count([]*Message{m}, 1)
		}
		if b.N != Max && b.Size < MaxBytes {
			t.Errorf("%s: it is full with %d of %d bytes", name, b.N, b.Size)
		}
		if err := b.Full(true); err != nil {
			t.Errorf("%s: a call that is a message: %v", name, err)
		}
		for range n {
			b.Count([]*Message{m}, 1)
		}
		if err := b.Full(true); !errors.Is(err, raysys.ErrOverloaded) {
			t.Errorf("%s: a call that is a message, at twice as many: %v", name, err)
		}
	}
}

// TestRecord: a message is stored as testdata says, and what a later version has written, or what is damaged, is said
// to be so.
func TestRecord(t *testing.T) {
	m := New(Tell, "cart\x00a/b", []byte{1, 2, 3})
	m.Number = 7<<PlaceBits | 2
	stored := append([]byte(Name(m.Number)), m.Record...)
	if want := golden.Hex(t, "v1/message.hex", stored); !bytes.Equal(want, stored) {
		t.Errorf("a message is stored as %x", m.Record)
	}
	for name, s := range map[string]graindir.Side{
		"a later version": {Name: Name(1), Data: append([]byte{2}, m.Record[1:]...)},
		"cut off":         {Name: Name(1), Data: m.Record[:4]},
		"empty":           {Name: Name(1)},
		"of no kind":      {Name: Name(1), Data: []byte{recordVersion, 0, 0}},
	} {
		m, err := ReadMessage(s)
		if err != nil || m.Number != 1 || m.To != "" || !errors.Is(m.Bad, graindir.ErrUnreadable) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := ReadMessage(graindir.Side{Name: "x", Data: m.Record}); !errors.Is(err, graindir.ErrUnreadable) {
		t.Errorf("a short name: %v", err)
	}
}

// FuzzMessage: whatever is stored, reading it fails or gives a message that is written the same.
func FuzzMessage(f *testing.F) {
	f.Add(Name(1), New(Tell, "cart\x00a", []byte("x")).Record)
	f.Add("", []byte{recordVersion})
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		m, err := ReadMessage(graindir.Side{Name: name, Data: data})
		if err != nil || m.Bad != nil && m.line() == unreadable {
			return
		}
		again := New(m.Kind, m.To, m.Body)
		if Name(m.Number) != name || !bytes.Equal(again.Body, m.Body) || again.Kind != m.Kind || again.To != m.To || m.Bad != nil {
			t.Errorf("%x is read as %+v", data, m)
		}
	})
}
