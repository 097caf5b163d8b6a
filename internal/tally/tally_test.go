package tally

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestBuckets: each time is in the bucket whose limits enclose it, limits grow by an eighth at most, and the last bucket has the rest.
func TestBuckets(t *testing.T) {
	for i := 1; i < numBuckets; i++ {
		low, high := limit(i-1), limit(i)
		if low >= high || float64(high-low) > float64(low)/8+1 {
			t.Fatalf("bucket %d has %d to %d ns", i, low, high)
		}
		for _, ns := range []int64{low, (low + high) / 2, high - 1} {
			if got := bucketOf(ns); got != i {
				t.Fatalf("%d ns are in bucket %d, want %d", ns, got, i)
			}
		}
	}
	if got := bucketOf(0); got != 0 {
		t.Errorf("0 ns are in bucket %d", got)
	}
	if got := bucketOf(int64(100 * time.Hour)); got != numBuckets-1 {
		t.Errorf("100 h are in bucket %d of %d", got, numBuckets)
	}
	if size := unsafe.Sizeof(histogram{}); size > 4<<10 {
		t.Errorf("a histogram has %d bytes", size)
	}
}

// TestQuantile: against the sorted times, an eighth more at most and never less.
func TestQuantile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var a, b histogram
		var all []int64
		for i := range 1 + rnd.IntN(2000) {
			ns := rnd.Int64N(int64(1) << (7 + rnd.IntN(33)))
			all = append(all, max(ns, 64))
			[]*histogram{&a, &b}[i%2].add(max(ns, 64), 1)
		}
		slices.Sort(all)
		times := a.times().Plus(b.times())
		if times.Count() != uint64(len(all)) {
			t.Fatalf("%d were counted of %d", times.Count(), len(all))
		}
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			want := all[min(int(q*float64(len(all))), len(all)-1)]
			if got := int64(times.Quantile(q)); got <= want || float64(got) > float64(want)*1.125+1 {
				t.Errorf("quantile %v of %d times is %d, and exactly %d", q, len(all), got, want)
			}
		}
	}
	if got := (Times{}).P99(); got != 0 {
		t.Errorf("without times: %v", got)
	}
}

// TestRows: what is counted is in the rows of its kind, those of two nodes add up, and a cache that two nodes share keeps them apart.
func TestRows(t *testing.T) {
	var a, b Tally
	var cache Cache
	for _, n := range []*Tally{&a, &b, &a} {
		f := cache.Of(n, TaskKind, "f")
		f.OK(3)
		f.OK(4)
		f.Ended(OK, 5)
		f.Ended(Cancelled, 2)
		f.Took(1000, 7)
	}
	a.Function(CallKind, "k.m").Failed(Panic, time.Unix(1, 0), func() Example { return Example{} })
	a.Function(TaskKind, "e")
	rows := a.Rows(TaskKind)
	if len(rows) != 2 || rows[0].Name != "e" || rows[1].Name != "f" || rows[1].Outcomes != (Counts{OK: 14, Cancelled: 4}) || rows[1].Times.Count() != 14 {
		t.Errorf("tasks: %+v", rows)
	}
	if rows := a.Rows(CallKind); len(rows) != 1 || rows[0].Outcomes.Failed() != 1 || rows[0].Outcomes.Runs() != 1 {
		t.Errorf("calls: %+v", rows)
	}
	rows[1].Running, rows[1].Oldest = 1, time.Second
	sum := rows[1].Plus(Row{Outcomes: b.Rows(TaskKind)[0].Outcomes, Waiting: 2, Oldest: time.Minute})
	if sum.Outcomes.Runs() != 27 || sum.Running != 1 || sum.Waiting != 2 || sum.Oldest != time.Minute {
		t.Errorf("of two nodes: %+v", sum)
	}
}

// TestSample: each run is timed until one was short, then one in 16, which stands for them all, until one was long.
func TestSample(t *testing.T) {
	f := new(Tally).Function(TaskKind, "f")
	timed := 0
	run := func(ns int64) {
		if f.Timed(1) {
			timed++
			f.Sampled(ns, Sample)
		}
		f.OK(1)
	}
	for range 1 + 15 + 32 {
		run(1000)
	}
	if got := f.row().Times; timed != 3 || got.Count() != 1+32 {
		t.Fatalf("%d were timed, %d counted", timed, got.Count())
	}
	for range 3 {
		run(int64(time.Second))
	}
	if timed != 6 {
		t.Errorf("%d were timed, of which long ones 3", timed)
	}
}

// TestFailures: texts that differ in digits alone are one group, the latest an example; of a storm few texts are made.
func TestFailures(t *testing.T) {
	var n Tally
	f, at := n.Function(TaskKind, "f"), time.Unix(1000, 0)
	made := 0
	fail := func(f *Function, o Outcome, text string) {
		f.Failed(o, at, func() Example { made++; return Example{Text: text, ID: fmt.Sprint(made), Stack: []byte("main.f")} })
	}
	fail(f, Error, "file 12 of 7 is gone")
	at = at.Add(time.Second)
	fail(f, Error, "file 9 of 1234 is gone")
	fail(f, Panic, "index out of range [5]")
	fail(n.Function(CallKind, "f"), Error, "file 1 of 1 is gone")
	list := n.Failures()
	if len(list) != 3 {
		t.Fatalf("groups: %+v", list)
	}
	for _, g := range list {
		switch {
		case g.Kind == CallKind:
		case g.Panic:
			if g.Count != 1 || g.Stack != "main.f" {
				t.Errorf("the panic: %+v", g)
			}
		case g.Count != 2 || g.Text != "file 9 of 1234 is gone" || g.ID != "2" || g.Last.Sub(g.First) != time.Second:
			t.Errorf("the error: %+v", g)
		}
	}
	made = 0
	for range 1000 {
		fail(f, Error, "storm")
	}
	if made > textsPerSecond {
		t.Errorf("%d texts were made in a second", made)
	}
	left := uint64(1000 - made)
	for _, g := range n.Failures() {
		if want := map[Kind]uint64{TaskKind: left}[g.Kind]; g.Left != want {
			t.Errorf("%s %q: %d more were not looked at, want %d", g.Kind, g.Text, g.Left, want)
		}
	}
	if r := n.Rows(TaskKind)[0]; r.Left != left || r.Plus(r).Left != 2*left {
		t.Errorf("%d were not looked at, want %d", r.Left, left)
	}
	if got := n.Rows(TaskKind)[0].Outcomes; got[Error] != 1002 || got[Panic] != 1 {
		t.Errorf("counted: %v", got)
	}
	made = 0
	at = at.Add(time.Second)
	fail(f, Error, strings.Repeat("é", maxText))
	if g := n.Failures()[0]; made != 1 || len(g.Text) > maxText || !strings.HasSuffix(g.Text, "é ...") {
		t.Errorf("a long text after the storm: %d made, %d bytes: ...%q", made, len(g.Text), g.Text[len(g.Text)-10:])
	}
}

// TestManyGroups: the groups are bounded, and the latest stay.
func TestManyGroups(t *testing.T) {
	var n Tally
	f := n.Function(TaskKind, "f")
	for i := range 3 * maxGroups {
		f.Failed(Error, time.Unix(int64(i), 0), func() Example { return Example{Text: strings.Repeat("x", i)} })
	}
	list := n.Failures()
	if len(list) != maxGroups || len(list[0].Text) != 3*maxGroups-1 || len(list[maxGroups-1].Text) != 2*maxGroups {
		t.Errorf("%d groups, of %d to %d letters", len(list), len(list[0].Text), len(list[len(list)-1].Text))
	}
}

// TestWithoutDigits folds numbers, and nothing else.
func TestWithoutDigits(t *testing.T) {
	for in, want := range map[string]string{"": "", "a1b22c": "a0b0c", "7": "0", "é9é": "é0é", "plain": "plain", "1.5s": "0.0s"} {
		if got := withoutDigits(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
