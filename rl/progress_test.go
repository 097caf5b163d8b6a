package rl

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

const redrawn = "\r\x1b[K\x1b[?7l" // what a drawing begins with

// screen is a fake terminal with a clock of its own.
type screen struct {
	bytes.Buffer
	t     time.Time
	looks int
	lines bool // it is none
}

func (s *screen) Terminal() bool { return !s.lines }

func (s *screen) now() time.Time {
	s.looks++
	return s.t
}

func (s *screen) record(steps int) *record {
	g := newProgress("catch-dqn", &Plan{Steps: steps, Progress: s}, -0.6)
	g.now = s.now
	s.t = time.Unix(1, 0)
	return &record{progress: g}
}

func TestLiveLine(t *testing.T) {
	var s screen
	r := s.record(4_000)
	p := Point{Return: 0.25, Evaluated: math.NaN(), Loss: 0.0123, Age: 3}
	for range 3_000 { // of a millisecond each
		s.t = s.t.Add(time.Millisecond)
		p.Steps++
		p.LearnerSteps = p.Steps / 4
		r.show(&p)
		if p.Steps == 1_000 {
			at := p
			at.Evaluated = 0.93
			if err := r.add(at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := strings.Count(s.String(), redrawn); n < 15 || n > 30 {
		t.Errorf("in 3 s the line was drawn %d times, want 15 to 30", n)
	}
	if strings.Contains(s.String(), "\n") {
		t.Error("the line has an end before the run has")
	}
	s.Reset()
	p.Steps = 4_000
	if err := errors.Join(r.add(p), r.close(), r.close()); err != nil {
		t.Fatal(err)
	}
	want := redrawn + "catch-dqn: 4000 of 4000 steps (100%), 1000 steps/s, return 0.25, evaluated 0.93 (random -0.6), " +
		"0.1875 learner steps/step, age 3, loss 0.0123\x1b[?7h\n"
	if got := s.String(); got != want {
		t.Errorf("at the end the line is\n%q\nwant\n%q", got, want)
	}
}

// TestLooks: where calls are many, few look at the clock; where they are rare, each does.
func TestLooks(t *testing.T) {
	for _, c := range []struct {
		every            time.Duration
		low, high, drawn int
	}{
		{time.Microsecond, 150, 160, 0},
		{time.Second, 10_000, 10_000, 9_999},
	} {
		var s screen
		r := s.record(10_000)
		for i := range 10_000 {
			s.t = s.t.Add(c.every)
			r.show(&Point{Steps: i + 1, Loss: math.NaN()})
		}
		if n := strings.Count(s.String(), redrawn); s.looks < c.low || s.looks > c.high || n != c.drawn {
			t.Errorf("with a call each %v there were %d looks at the clock and %d drawings, want %d to %d, and %d", c.every, s.looks, n, c.low, c.high, c.drawn)
		}
	}
}

// TestGoesOn: a run that goes on from a checkpoint does not count the steps before it as made in the first second.
func TestGoesOn(t *testing.T) {
	var s screen
	r := s.record(100_000)
	for i := range 3 {
		r.show(&Point{Steps: 50_000 + 200*i, Loss: math.NaN()})
		s.t = s.t.Add(time.Second)
	}
	if !strings.HasSuffix(s.String(), ": 50400 of 100000 steps (50%), 200 steps/s, return 0 (random -0.6)\x1b[?7h") {
		t.Errorf("the line is %q", s.String())
	}
}

func TestLinesOfPoints(t *testing.T) {
	var s screen
	s.lines = true
	r := s.record(1_000)
	for i := range 1_000 {
		s.t = s.t.Add(10 * time.Millisecond)
		p := Point{Steps: i + 1, Return: math.NaN(), Evaluated: math.NaN(), Loss: math.NaN()}
		r.show(&p)
		if p.Steps%500 != 0 {
			continue
		}
		p.Return = float64(p.Steps) * 3
		if err := r.add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	want := `catch-dqn: 500 of 1000 steps (50%), 100 steps/s, return 1500 (random -0.6)
catch-dqn: 1000 of 1000 steps (100%), 100 steps/s, return 3000 (random -0.6)
`
	if s.String() != want {
		t.Errorf("the lines are\n%swant\n%s", s.String(), want)
	}
}

func TestWhereProgressGoes(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/talk")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // the one character device that every machine has
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	for _, c := range []struct {
		name        string
		w           io.Writer
		stderr      *os.File
		shown, live bool
	}{
		{"io.Discard", io.Discard, null, false, false},
		{"a file", file, null, true, false},
		{"a terminal", null, file, true, true},
		{"no writer, with standard error on a terminal", nil, null, true, true},
		{"no writer, with standard error in a file", nil, file, false, false},
	} {
		os.Stderr = c.stderr
		g := newProgress("x", &Plan{Steps: 1, Progress: c.w}, 0)
		if shown := g != nil; shown != c.shown || shown && g.line.Live() != c.live {
			t.Errorf("%s: progress is %+v, want it shown: %v, and live: %v", c.name, g, c.shown, c.live)
		}
	}
}

// TestDueShows: a run draws the line as it asks whether a point is due.
func TestDueShows(t *testing.T) {
	var s screen
	c := course{record: s.record(10), next: 2}
	for range 2 {
		c.now.Steps++
		s.t = s.t.Add(time.Second)
		c.due()
	}
	if !strings.Contains(s.String(), redrawn+"catch-dqn: 2 of 10 steps") {
		t.Errorf("the terminal has %q", s.String())
	}
}

func TestCloseTwice(t *testing.T) {
	r, err := newRecord("x", &Plan{Steps: 1, Log: t.TempDir() + "/run.csv", Progress: io.Discard}, &Point{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.close(), r.close()); err != nil {
		t.Error(err)
	}
}

func TestNothingToShow(t *testing.T) {
	var s screen
	if err := s.record(10).close(); err != nil || s.Len() > 0 {
		t.Errorf("a run without steps showed %q, %v", s.String(), err)
	}
}

func TestBrief(t *testing.T) {
	for x, want := range map[float64]string{0: "0", -0.61234: "-0.6123", 475: "475", 999.96: "1000", 12345.6: "12346", -1e6: "-1000000", 3e12: "3e+12", 1e-9: "1e-09"} {
		if got := brief(x); got != want {
			t.Errorf("brief(%v) is %s, want %s", x, got, want)
		}
	}
}

// nowhere is a terminal that shows nothing.
type nowhere struct{}

func (*nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (*nowhere) Terminal() bool              { return true }

// BenchmarkShow: what the live line costs each step of an environment.
func BenchmarkShow(b *testing.B) {
	r := &record{progress: newProgress("catch-dqn", &Plan{Steps: b.N, Progress: &nowhere{}}, -0.6)}
	var p Point
	b.ReportAllocs()
	for b.Loop() {
		p.Steps++
		r.show(&p)
	}
}
