package entries_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/entries"
	"github.com/raysys/raysys/internal/graindir"
)

// line is a value, and code a named type of key.
type (
	line struct {
		Text string
		Tags []string
		Raw  []byte
	}
	code int16
)

// shop is a grain with two Maps, and what is stored of it.
type shop struct {
	book    *entries.Book
	lines   entries.Link[string, line]
	codes   entries.Link[code, string]
	stored  map[string][]byte
	pending []graindir.Side // of turns that have ended and are not stored
}

func open(t testing.TB, stored map[string][]byte) *shop {
	s := &shop{stored: stored}
	s.book = entries.New(func() error { return nil })
	if err := errors.Join(s.book.Add("lines", &s.lines), s.book.Add("codes", &s.codes), s.book.Restore(sides(stored))); err != nil {
		t.Fatal(err)
	}
	return s
}

func sides(stored map[string][]byte) (list []graindir.Side) {
	for name, data := range stored {
		list = append(list, graindir.Side{Family: graindir.SideEntries, Name: name, Data: data})
	}
	return list
}

// commit stores what the turns have changed, in their order.
func (s *shop) commit() {
	for _, c := range s.pending {
		if c.Data == nil {
			delete(s.stored, c.Name)
		} else {
			s.stored[c.Name] = c.Data
		}
	}
	s.pending = nil
}

func (s *shop) endTurn(t testing.TB) {
	list, err := s.book.Changes()
	if err != nil {
		t.Fatal(err)
	}
	s.book.Accept()
	s.pending = append(s.pending, list...)
}

// world is a model of the two Maps.
type world struct {
	lines map[string]string
	codes map[code]string
}

func (w world) clone() world { return world{maps.Clone(w.lines), maps.Clone(w.codes)} }

// TestBesideGoMaps: after any turns, turns that fail, commits that are discarded and restarts, the Maps have what Go's
// maps have, in the order of the keys, and a turn changes what differs, no more.
func TestBesideGoMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := open(t, map[string][]byte{})
		now := world{map[string]string{}, map[code]string{}}
		began, kept := now.clone(), now.clone() // when the turn began, and what is stored
		key := rapid.SampledFrom([]string{"", "a", "a\x00", "b", "\xff", "lines"})
		number := rapid.SampledFrom([]code{-32768, -1, 0, 1, 32767})
		value := rapid.SampledFrom([]string{"", "x", "yy"})
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				k, v := key.Draw(rt, "key"), value.Draw(rt, "value")
				s.lines.Set(k, line{Text: v})
				now.lines[k] = v
			},
			"set code": func(rt *rapid.T) {
				k, v := number.Draw(rt, "key"), value.Draw(rt, "value")
				s.codes.Set(k, v)
				now.codes[k] = v
			},
			"delete": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				s.lines.Delete(k)
				delete(now.lines, k)
			},
			"delete code": func(rt *rapid.T) {
				k := number.Draw(rt, "key")
				s.codes.Delete(k)
				delete(now.codes, k)
			},
			"turn": func(*rapid.T) {
				before := len(s.pending)
				s.endTurn(t)
				differ := differing(began.lines, now.lines) + differing(began.codes, now.codes)
				if n := len(s.pending) - before; n != differ {
					rt.Fatalf("the turn changes %d entries, and %d differ", n, differ)
				}
				began = now.clone()
			},
			"failed turn": func(*rapid.T) {
				s.book.TakeBack()
				now = began.clone()
			},
			"commit": func(*rapid.T) {
				s.endTurn(t)
				s.commit()
				began, kept = now.clone(), now.clone()
			},
			"discard": func(*rapid.T) { // or a restart
				s = open(t, s.stored)
				now, began = kept.clone(), kept.clone()
			},
			"": func(rt *rapid.T) {
				compare(rt, &s.lines, now.lines, func(v line) string { return v.Text })
				compare(rt, &s.codes, now.codes, func(v string) string { return v })
			},
		})
	})
}

func differing[K comparable](a, b map[K]string) (n int) {
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			n++
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			n++
		}
	}
	return n
}

func compare[K interface{ ~string | ~int16 }, V any](rt *rapid.T, m *entries.Link[K, V], want map[K]string, text func(V) string) {
	var keys []K
	for k, v := range m.All() {
		keys = append(keys, k)
		if w, ok := want[k]; !ok || w != text(v) {
			rt.Fatalf("%v is %q, want %q, %v", k, text(v), w, ok)
		}
		if v, ok := m.Get(k); !ok || text(v) != want[k] {
			rt.Fatalf("get %v: %q, %v", k, text(v), ok)
		}
	}
	if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) || m.Len() != len(want) {
		rt.Fatalf("%d of them: %v, want %v", m.Len(), keys, want)
	}
}

// TestCopies: what was set and what was got share nothing with the entry.
func TestCopies(t *testing.T) {
	s := open(t, map[string][]byte{})
	v := line{"x", []string{"a"}, []byte("raw")}
	s.lines.Set("k", v)
	v.Tags[0], v.Raw[0] = "b", 'X'
	got, _ := s.lines.Get("k")
	got.Tags[0], got.Raw[0] = "c", 'Y'
	if again, ok := s.lines.Get("k"); !ok || again.Tags[0] != "a" || string(again.Raw) != "raw" {
		t.Errorf("%+v", again)
	}
}

// TestSetBack: an entry that a turn changes and sets back is no change.
func TestSetBack(t *testing.T) {
	s := open(t, map[string][]byte{})
	s.codes.Set(1, "a")
	s.endTurn(t)
	s.pending = nil
	s.codes.Set(1, "b")
	s.codes.Set(1, "a")
	s.codes.Set(2, "b")
	s.codes.Delete(2)
	s.codes.Delete(1)
	s.codes.Set(1, "a")
	if s.endTurn(t); len(s.pending) != 0 {
		t.Errorf("the turn changes %d entries", len(s.pending))
	}
}

// TestLoop: a loop over All may change the Map.
func TestLoop(t *testing.T) {
	s := open(t, map[string][]byte{})
	for _, k := range []string{"a", "b", "c", "d"} {
		s.lines.Set(k, line{Text: k})
	}
	var seen []string
	for k, v := range s.lines.All() {
		seen = append(seen, k+v.Text)
		if k == "a" {
			s.lines.Set("aa", line{})
			s.lines.Set("c", line{Text: "new"})
			s.lines.Delete("b")
		}
		if k == "c" {
			break
		}
	}
	if want := []string{"aa", "cnew"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	if n := s.lines.Len(); n != 4 {
		t.Errorf("%d entries, want 4", n)
	}
}

// TestBounds: beyond a bound the turn fails and says why; when it is taken back the next one goes on, and up to the bound
// all fits.
func TestBounds(t *testing.T) {
	s := open(t, map[string][]byte{})
	fails := func(says string) {
		t.Helper()
		_, err := s.book.Changes()
		if !errors.Is(err, raysys.ErrTooLarge) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrTooLarge and %q", err, says)
		}
		s.book.TakeBack()
		if _, err := s.book.Changes(); err != nil {
			t.Errorf("the turn after it: %v", err)
		}
	}
	s.lines.Set(strings.Repeat("k", entries.MaxKey), line{})
	s.codes.Set(1, strings.Repeat("v", entries.MaxValue-16))
	s.endTurn(t)
	s.lines.Set(strings.Repeat("k", entries.MaxKey+1), line{})
	fails("the key has 513 bytes")
	s.codes.Set(2, "fine")
	s.codes.Set(1, strings.Repeat("v", entries.MaxValue))
	fails(`map "codes", entry 1: `)
	if v, _ := s.codes.Get(1); len(v) != entries.MaxValue-16 || s.codes.Len() != 1 {
		t.Errorf("after the failed turn: %d bytes, %d codes", len(v), s.codes.Len())
	}

	for i := 2; i < entries.MaxEntries; i++ {
		s.lines.Set(fmt.Sprint(i), line{})
	}
	s.endTurn(t)
	s.lines.Set("7", line{Text: "an entry that is there"})
	s.endTurn(t)
	s.codes.Set(3, "one more")
	fails("65536 entries")
	s.lines.Delete("9")
	s.codes.Set(3, "in its place")
	s.endTurn(t)

	s = open(t, map[string][]byte{})
	big := strings.Repeat("v", entries.MaxValue-16)
	n := 0
	for ; (n+1)*(len(big)+40) < entries.MaxBytes; n++ {
		s.codes.Set(code(n), big)
	}
	s.endTurn(t)
	s.codes.Set(code(n), big)
	fails("16777216")
	s.codes.Set(0, "less")
	s.codes.Set(code(n), big)
	s.endTurn(t)
	s.commit()
	s = open(t, s.stored)
	s.codes.Set(0, big) // what was read counts too
	fails("16777216")
}

// TestAtTheBound: a grain whose entries have come to the bound of their bytes, or stand beyond it since a field is back,
// still takes a value that is no larger than what it replaces, and loses entries.
func TestAtTheBound(t *testing.T) {
	s := open(t, map[string][]byte{})
	key := func(i int) string { return fmt.Sprintf("%0*d", entries.MaxKey, i) }
	s.lines.Set(key(0), line{Text: strings.Repeat("v", 60_000)})
	s.endTurn(t)
	one := entries.MaxKey + len(s.pending[0].Data)
	n := entries.MaxBytes / one
	for i := 1; i < n; i++ {
		s.lines.Set(key(i), line{Text: strings.Repeat("v", 60_000)})
	}
	s.endTurn(t)
	room := entries.MaxBytes - n*one // less than the key that changes would take a second time
	s.codes.Set(1, strings.Repeat("v", room-entries.MaxKey/2))
	s.endTurn(t)
	s.lines.Set(key(0), line{Text: strings.Repeat("w", 60_000)})
	s.endTurn(t)
	if v, _ := s.lines.Get(key(0)); v.Text[0] != 'w' {
		t.Error("the entry has its former value")
	}

	s.commit()
	data := s.stored[entries.AppendName("lines", 's', key(0))]
	s.stored[entries.AppendName("lines", 's', "beyond")] = data
	s = open(t, s.stored)
	s.lines.Set("beyond", line{Text: "less"})
	s.endTurn(t)
	s = open(t, s.stored)
	s.lines.Set(key(1), line{Text: strings.Repeat("x", 60_000)})
	s.endTurn(t)
	s.lines.Set("one more", line{})
	if _, err := s.book.Changes(); !errors.Is(err, raysys.ErrTooLarge) {
		t.Errorf("a new entry beyond the bound: %v", err)
	}
}

// TestNotNow: where nothing may be changed, Set and Delete panic and say why, and a Map of no grain is empty.
func TestNotNow(t *testing.T) {
	no := errors.New("not now")
	var m, loose entries.Link[string, int]
	b := entries.New(func() error { return no })
	if err := b.Add("m", &m); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){"Set": func() { m.Set("a", 1) }, "Delete": func() { m.Delete("a") }} {
		if p, _ := panicOf(f).(error); !errors.Is(p, no) || !strings.HasPrefix(p.Error(), name+` of map "m"`) {
			t.Errorf("%s: %v", name, p)
		}
	}
	if p := panicOf(func() { loose.Set("a", 1) }); p == nil || !strings.Contains(fmt.Sprint(p), "no field of an active grain") {
		t.Errorf("a Map of no grain: %v", p)
	}
	if _, ok := loose.Get("a"); ok || loose.Len() != 0 {
		t.Error("a Map of no grain has an entry")
	}
	for range loose.All() {
		t.Error("a Map of no grain has an entry")
	}
}

func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// TestChangedTypes: a K that got wider has its keys, and any other K says what is wrong. A V that cannot read what is
// stored is a panic, when that is read.
func TestChangedTypes(t *testing.T) {
	type of[K comparable] = entries.Link[K, string]
	var small of[int8]
	b := entries.New(func() error { return nil })
	if err := b.Add("m", &small); err != nil {
		t.Fatal(err)
	}
	small.Set(-128, "low")
	small.Set(127, "high")
	stored, err := b.Changes()
	if err != nil {
		t.Fatal(err)
	}
	read := func(f entries.Field) error {
		b := entries.New(func() error { return nil })
		return errors.Join(b.Add("m", f), b.Restore(stored))
	}
	var wide of[int64]
	if err := read(&wide); err != nil {
		t.Error(err)
	}
	if v, ok := wide.Get(-128); !ok || v != "low" {
		t.Errorf("-128 is %q, %v", v, ok)
	}
	refused := func(f entries.Field, says string) {
		t.Helper()
		if err := read(f); !errors.Is(err, graindir.ErrUnreadable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrUnreadable and %q", err, says)
		}
	}
	refused(&of[string]{}, "a signed integer, and the keys are of the type string now")
	refused(&of[uint64]{}, "a signed integer, and the keys are of the type uint64 now")
	far := graindir.Side{Family: graindir.SideEntries, Name: entries.AppendName("m", 'i', "\x80\x00\x00\x00\x00\x00\x01\x00"), Data: stored[0].Data}
	stored = append(stored, far)
	refused(&of[int8]{}, "which no int8 holds")
	stored = []graindir.Side{{Family: graindir.SideEntries, Name: entries.AppendName("m", 'f', "12345678"), Data: []byte{1}}}
	refused(&of[string]{}, "a newer program wrote it")
	stored = []graindir.Side{{Family: graindir.SideEntries, Name: entries.AppendName("m", 'i', "1234567"), Data: []byte{1}}}
	refused(&of[int]{}, "unknown here")
	stored = []graindir.Side{{Family: graindir.SideEntries, Name: "m", Data: []byte{1}}}
	refused(&of[int]{}, "names no entry")

	var numbers entries.Link[int8, int]
	small.Set(5, "five")
	if stored, err = b.Changes(); err != nil {
		t.Fatal(err)
	}
	if err := read(&numbers); err != nil {
		t.Fatal(err)
	}
	p, _ := panicOf(func() { numbers.Get(5) }).(error)
	if !errors.Is(p, graindir.ErrUnreadable) || !strings.Contains(p.Error(), `map "m", entry 5: `) || !strings.Contains(p.Error(), "another version") {
		t.Errorf("an entry of another type: %v", p)
	}
}

// TestOthersRecords: records of other families, and of fields that have gone, are left where they are.
func TestOthersRecords(t *testing.T) {
	s := open(t, map[string][]byte{entries.AppendName("gone", 's', "a"): {1, 2}})
	if err := s.book.Restore([]graindir.Side{{Family: 'k', Name: "lines", Data: []byte{9}}}); err != nil {
		t.Error(err)
	}
	s.endTurn(t)
	if len(s.pending) != 0 || s.lines.Len()+s.codes.Len() != 0 {
		t.Errorf("%v, %d lines, %d codes", s.pending, s.lines.Len(), s.codes.Len())
	}
}

// FuzzName: what is read as a name is written as it was, and nothing is read from other bytes.
func FuzzName(f *testing.F) {
	f.Add("lines", byte('s'), "a\x00b")
	f.Add("", byte('i'), "12345678")
	f.Add("\x03abc", byte(0), "")
	f.Add("\x81\x00a", byte('s'), "\x02sb") // a length in more bytes than it takes
	f.Fuzz(func(t *testing.T, field string, letter byte, key string) {
		name := entries.AppendName(field, letter, key)
		gotField, gotLetter, gotKey, err := entries.ReadName(name)
		if err != nil || gotField != field || gotLetter != letter || gotKey != key {
			t.Errorf("%q %q %q is read as %q %q %q, %v", field, letter, key, gotField, gotLetter, gotKey, err)
		}
		if f, l, k, err := entries.ReadName(field + key); err == nil && entries.AppendName(f, l, k) != field+key {
			t.Errorf("%q is read, and written as %q", field+key, entries.AppendName(f, l, k))
		}
		if _, _, _, err := entries.ReadName(name + "x"); err == nil {
			t.Error("a name with a byte too many is read")
		}
	})
}
