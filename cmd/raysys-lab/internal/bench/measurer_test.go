package bench

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSliceKeepsDurations(t *testing.T) {
	var h hist
	for i := range 1000 {
		h.add(time.Duration(i*i) * time.Nanosecond)
	}
	b, err := json.Marshal(sliceOf(&h))
	if err != nil {
		t.Fatal(err)
	}
	var s slice
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	got, err := s.hist()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&h, got, cmp.AllowUnexported(hist{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, bad := range []int{-1, histBuckets} {
		if h, err := (slice{Counts: map[int]uint64{bad: 1}}).hist(); err == nil {
			t.Errorf("bucket %d is taken: %+v", bad, h.n)
		}
	}
}

func TestMeasureOnDemand(t *testing.T) {
	calls := 0
	var out strings.Builder
	err := measureOnDemand(t.Context(), one(func() error { calls++; return nil }), strings.NewReader("1\n1\n"), &out)
	if err != nil || calls != 2 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(out.String(), readyLine)))
	for range 2 {
		var s slice
		if err := dec.Decode(&s); err != nil || len(s.Counts) != 1 || s.Max <= 0 {
			t.Errorf("slice %+v, %v", s, err)
		}
	}
	if err := measureOnDemand(t.Context(), one(func() error { return nil }), strings.NewReader("soon\n"), io.Discard); err == nil {
		t.Error("a parent that writes no number is obeyed")
	}
	broken := errors.New("broken")
	if err := measureOnDemand(t.Context(), one(func() error { return broken }), strings.NewReader("1\n"), io.Discard); !errors.Is(err, broken) {
		t.Errorf("an operation that fails: %v", err)
	}
}

// A child's error reaches its parent, with the child's own words.
func TestMeasurerThatFails(t *testing.T) {
	e, err := listenEcho(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := launchReady(t.Context(), small, anywhere, childPing, e.address(), "12")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.measure(time.Millisecond)
	if err != nil || h.n == 0 || h.quantile(0.5) < time.Microsecond {
		t.Fatalf("slice %+v, %v", h, err)
	}
	e.close()
	if _, err := c.measure(time.Millisecond); err == nil || !strings.Contains(err.Error(), "child bench-child ping") {
		t.Errorf("the other end is gone: %v", err)
	}
	if err := c.end(); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

func TestWorst(t *testing.T) {
	variants := []*variant{
		{"one", measured{value: 30, limitValue: 20, rounds: []float64{30}, limits: []float64{20}, latency: &hist{n: 1}}, false},
		{"two", measured{value: 80, limitValue: 60, rounds: []float64{80}, limits: []float64{60}, latency: &hist{n: 1}}, false},
	}
	m := worst(variants, func(v *variant) float64 { return v.value / v.limitValue })
	if m.value != 30 || m.limitValue != 20 || m.detail["worst"] != "one" {
		t.Errorf("worst is %+v", m)
	}
	all := m.detail["variants"].(map[string]any)
	for name, ratio := range map[string]float64{"one": 1.5, "two": 1.333} {
		if d := all[name].(map[string]any); d["ratio"] != ratio || d["p50_us"] == nil || d["rounds"] == nil || d["limit_rounds"] == nil {
			t.Errorf("variant %s: %v", name, d)
		}
	}
}
