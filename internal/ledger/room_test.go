package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRoom: what is given back is what the needs lack, and nothing where that is not enough.
func TestRoom(t *testing.T) {
	devices := []Device{{UUID: "a", Model: "A100"}, {UUID: "b", Model: "H100"}, {UUID: "c", Model: "H100"}}
	a100, h100, any2 := Need{GPU: 1000, GPUModel: "A100"}, Need{GPU: 1000, GPUModel: "H100"}, Need{GPU: 2000}
	for _, c := range []struct {
		name  string
		held  []Need // a letter each, by which want names them; the first is not offered
		needs []Need
		all   bool
		want  string
	}{
		{"is free", []Need{a100}, []Need{h100}, false, ""},
		{"the one that has it", []Need{{}, h100, a100, h100}, []Need{a100}, false, "c"},
		{"one of two", []Need{a100, h100, h100}, []Need{h100}, false, "b"},
		{"beside one that is free", []Need{a100, h100}, []Need{any2}, false, "b"},
		{"one that stays has it", []Need{a100, h100, h100}, []Need{a100}, false, ""},
		{"two needs", []Need{a100, h100, h100}, []Need{h100, h100}, true, "bc"},
		{"not all of them", []Need{a100, h100, h100}, []Need{h100, a100}, true, ""},
		{"as many as can be", []Need{a100, h100, h100}, []Need{a100, h100}, false, "b"},
		{"CPU and memory", []Need{{CPU: 1000}, {CPU: 3000, Memory: 50}, {Memory: 50}}, []Need{{CPU: 2000, Memory: 60}}, false, "bc"},
		{"memory alone", []Need{{CPU: 1000}, {CPU: 3000, Memory: 50}, {Memory: 50}}, []Need{{Memory: 50}}, false, "b"},
	} {
		l := newLine(Need{CPU: 4000, Memory: 100}, devices)
		var holds []*Hold
		for _, n := range c.held {
			w := &inside{}
			l.Push(n, w)
			if w.hold == nil {
				t.Fatalf("%s: %v is not free", c.name, n)
			}
			holds = append(holds, w.hold)
		}
		before := []any{l.Free(), l.Spares()}
		got := ""
		for _, h := range l.Room(c.needs, c.all, holds[1:]) {
			for i := range holds {
				if holds[i] == h {
					got += string(rune('a' + i))
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q are to be given back, want %q", c.name, got, c.want)
		}
		if diff := cmp.Diff(before, []any{l.Free(), l.Spares()}); diff != "" {
			t.Errorf("%s: the line has changed:\n%s", c.name, diff)
		}
	}
}

// TestRoomLaws: whatever is held, what Room names is enough for the needs once it is given back, and each of it is needed. Where it
// names nothing of all holds, the needs are free or cannot be.
func TestRoomLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine(Need{CPU: 4000, Memory: 4}, eight("H100")[:3])
		some := func(what string) Need {
			return Need{
				CPU: rapid.SampledFrom([]int64{0, 1000, 2000}).Draw(t, what+" CPU"), GPU: rapid.SampledFrom([]int64{0, 500, 1000, 2000}).Draw(t, what+" GPU"),
				Memory: rapid.Int64Range(0, 3).Draw(t, what+" memory"),
			}
		}
		var holds []*Hold
		for range rapid.IntRange(0, 6).Draw(t, "held") {
			if h, short := l.ledger.Take(some("held")); short.Empty() {
				holds = append(holds, &h)
			}
		}
		need := some("need")
		free := func(without []*Hold) bool { // whether need is, once those are given back
			for _, h := range without {
				l.ledger.Return(*h)
			}
			h, short := l.ledger.Take(need)
			if short.Empty() {
				l.ledger.Return(h)
			}
			for _, h := range without {
				l.ledger.enter(&h.need, h.devices, -1)
				l.ledger.CPU.Add(-h.need.CPU)
			}
			return short.Empty()
		}
		give := l.Room([]Need{need}, rapid.Bool().Draw(t, "all"), holds)
		if free(give) != free(holds) {
			t.Fatalf("with %d of %d holds given back the need is free: %v, with all of them: %v", len(give), len(holds), free(give), free(holds))
		}
		for i := range give {
			if free(append(append([]*Hold(nil), give[:i]...), give[i+1:]...)) {
				t.Fatalf("hold %d of %d is given back for nothing", i, len(give))
			}
		}
	})
}
