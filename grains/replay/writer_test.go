package replay

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/codec"
)

// TestWriterLaw: whatever the patterns, the episodes, the sizes of steps and the moments at which batches are cut, a Writer makes the items
// that a list of whole episodes gives, in order, and keeps no step that nothing needs.
func TestWriterLaw(t *testing.T) {
	plan, err := codec.PlanOf(reflect.TypeFor[string]())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{sending: sending{b: &buffer{d: &definition{name: "x", plan: plan}}}}
		for i := range rapid.IntRange(0, 3).Draw(t, "patterns") {
			p := Episode("t")
			switch n := rapid.IntRange(1, 9).Draw(t, "length"); rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				p = NStep("t", n)
			case 1:
				p = Sequence("t", n, rapid.IntRange(1, n).Draw(t, "period"))
			}
			w.patterns = append(w.patterns, pattern{Pattern: p, table: i})
		}
		got, want := make([][]string, 3), make([][]string, 3)
		cut := func() {
			x := w.cut()
			for i, table := range x.Tables {
				got[table] = append(got[table], shown(x, int(x.First[i]), int(x.Last[i])))
			}
			kept := w.steps // what an item of this episode may still need
			for _, p := range w.patterns {
				kept = min(kept, p.next)
			}
			if len(w.batch.Ends) != w.steps-kept && w.steps > 0 || w.steps == 0 && len(w.batch.Ends) > 0 {
				t.Fatalf("%d steps are kept of %d, of which %d are made", len(w.batch.Ends), w.steps, kept)
			}
		}
		n := 0
		for range rapid.IntRange(1, 6).Draw(t, "episodes") {
			var episode []string
			for range rapid.IntRange(0, 25).Draw(t, "steps") {
				s := fmt.Sprint(n, ".", string(make([]byte, rapid.IntRange(0, 40).Draw(t, "size"))))
				n++
				episode = append(episode, s)
				if err := w.append(context.Background(), unsafe.Pointer(&s)); err != nil {
					t.Fatal(err)
				}
				if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
					cut()
				}
			}
			if err := w.end(context.Background()); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "cut") {
				cut()
			}
			for i, p := range w.patterns {
				want[i] = append(want[i], itemsOf(p.Pattern, episode)...)
			}
		}
		cut()
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("%+v makes\n%q, want\n%q", w.patterns[i], got[i], want[i])
			}
		}
	})
}

// items are those of an episode, as the docs of the patterns have them.
func itemsOf(p Pattern, episode []string) (list []string) {
	n, covered := len(episode), 0
	for i := 0; i < n; i += p.Period {
		switch {
		case i+p.Length <= n:
			list, covered = append(list, fmt.Sprintf("%q", episode[i:i+p.Length])), i+p.Length
		case p.rest:
			list = append(list, fmt.Sprintf("%q", episode[i:]))
		case covered < n:
			return append(list, fmt.Sprintf("%q", episode[i:]))
		}
	}
	return list
}

func shown(x batch, first, last int) string {
	var list []string
	for i := first; i < last; i++ {
		c := chunk{ends: x.Ends}
		var s string
		b := x.Data[c.start(i):x.Ends[i]]
		plan, _ := codec.PlanOf(reflect.TypeFor[string]())
		if err := plan.DecodeAt(b, unsafe.Pointer(&s), nil); err != nil {
			return err.Error()
		}
		list = append(list, s)
	}
	return fmt.Sprintf("%q", list)
}

// TestLongEpisode: the steps of a long item are copied from batch to batch only now and then.
func TestLongEpisode(t *testing.T) {
	plan, err := codec.PlanOf(reflect.TypeFor[string]())
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{sending: sending{b: &buffer{d: &definition{name: "x", plan: plan}}}, patterns: []pattern{{Pattern: Episode("t")}}}
	step, before, copied := string(make([]byte, 4<<10)), 0, 0
	for range 8 << 10 { // 32 MiB
		if err := w.append(context.Background(), unsafe.Pointer(&step)); err != nil {
			t.Fatal(err)
		}
		if w.kept != before {
			before, copied = w.kept, copied+w.kept
		}
	}
	if copied > 200<<20 || w.kept == 0 {
		t.Errorf("%d MiB were copied of an episode of 32 MiB", copied>>20)
	}
}
