package countload

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a system that counts in memory. Each call takes 100 ms.
type fake struct {
	mu    sync.Mutex
	calls int
	sums  map[string]int64
	kept  map[string]int64 // by id

	keeps bool                         // a call that is made again gets its first answer
	fault func(call int) (int64, bool) // of this call: how much is added in place of 1, and whether the call fails then
}

func (f *fake) call(_ context.Context, key, id string) (int64, error) {
	<-time.After(100 * time.Millisecond) // of the bubble
	f.mu.Lock()
	defer f.mu.Unlock()
	if sum, ok := f.kept[id]; ok && f.keeps {
		return sum, nil
	}
	f.calls++
	n, fails := int64(1), false
	if f.fault != nil {
		n, fails = f.fault(f.calls)
	}
	f.sums[key] += n
	f.kept[id] = f.sums[key]
	if fails {
		return 0, errors.New("the answer is lost")
	}
	return f.sums[key], nil
}

// TestLoad: each part has its callers, and says what it was; what is counted wrong is said.
func TestLoad(t *testing.T) {
	at := func(call int, n int64, fails bool) func(int) (int64, bool) {
		return func(c int) (int64, bool) {
			if c == call {
				return n, fails
			}
			return 1, false
		}
	}
	const inFirst = keys + 3 // a call of the first part
	for _, c := range []struct {
		name   string
		f      *fake
		keyed  bool
		wrong  string
		failed int64
	}{
		{"all count once", &fake{}, false, "", 0},
		{"all count once, with keys", &fake{keeps: true}, true, "", 0},
		{"a call is not counted", &fake{fault: at(inFirst, 0, false)}, false, "1 sums came twice", 0},
		{"a call counts twice", &fake{fault: at(inFirst, 2, false)}, false, "0 sums came twice", 0},
		{"a call is answered with no sum", &fake{fault: at(inFirst, -9, false)}, false, "1 sums came twice", 0},
		{"a call fails and counted", &fake{fault: at(inFirst, 1, true)}, false, "", 1},
		{"a call fails and did not count", &fake{fault: at(inFirst, 0, true)}, false, "", 1},
		{"a call fails and counted twice", &fake{fault: at(inFirst, 2, true)}, false, "1 failed", 1},
		{"a key is forgotten", &fake{}, true, "when it was made again with its key", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.f.sums, c.f.kept = map[string]int64{}, map[string]int64{}
				var got []Result
				err := Load(Peer{Context: t.Context(), Call: c.f.call}, c.keyed, time.Second, func(r Result) error {
					got = append(got, r)
					return nil
				})
				if err != nil || len(got) != len(allParts) {
					t.Fatal(got, err)
				}
				first := got[0]
				wrong := "" // in the parts: what was counted too much shows when the counter answers again
				for _, r := range got {
					wrong += r.Wrong
				}
				if (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
					t.Errorf("%q, want %q", wrong, c.wrong)
				}
				if first.Failed != c.failed || (first.Error == "") != (c.failed == 0) {
					t.Errorf("%d calls failed, want %d: %s", first.Failed, c.failed, first.Error)
				}
				for i, r := range got {
					p := allParts[i]
					// A call that begins before the time of measuring may end in it.
					if want := 10 * float64(p.callers); r.Part != p.name || r.Rate < want*0.9 || r.Rate > want*1.1 || r.P50 != 100 || r.P99 != 100 {
						t.Errorf("%+v, want %v calls/s of 100 ms", r, want)
					}
				}
			})
		})
	}
}

// TestHotPartHasOneCounter: the last part calls one counter, the others all.
func TestHotPartHasOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake{sums: map[string]int64{}, kept: map[string]int64{}}
		var before map[string]int64
		err := Load(Peer{Context: t.Context(), Call: f.call}, false, time.Second, func(r Result) error {
			grew := 0
			for key, sum := range f.sums {
				if sum > before[key] {
					grew++
				}
			}
			switch {
			case r.Part == "1,000" && grew != keys, strings.HasPrefix(r.Part, "100 of") && grew != 1:
				t.Errorf("part %s called %d counters", r.Part, grew)
			}
			before = map[string]int64{}
			for key, sum := range f.sums {
				before[key] = sum
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestLoadEnds: an error of what takes the Results ends it.
func TestLoadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake{sums: map[string]int64{}, kept: map[string]int64{}}
		full, n := errors.New("full"), 0
		err := Load(Peer{Context: t.Context(), Call: f.call}, false, time.Second, func(Result) error {
			n++
			return full
		})
		if err != full || n != 1 {
			t.Error(n, err)
		}
	})
}
