package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// story is a history in which calls overlap as the text says: "a+5" begins op a as Add(5), "a=5" ends it with 5, "a?"
// leaves it open, "a!" refuses it; "b:r" begins a read, "b:s3" a set.
func story(t *testing.T, text string) *testkit.History {
	t.Helper()
	h := testkit.NewHistory()
	ops := map[string]*testkit.Op{}
	for i, w := range strings.Fields(text) {
		name, verb, rest := w[:1], w[1], w[2:]
		var n int
		fmt.Sscanf(strings.TrimLeft(rest, "rs"), "%d", &n)
		switch verb {
		case '+':
			ops[name] = h.Begin(i, "k", testkit.Add(n))
		case ':':
			if rest[0] == 'r' {
				ops[name] = h.Begin(i, "k", testkit.Read{})
			} else {
				ops[name] = h.Begin(i, "k", testkit.Set(n))
			}
		case '=':
			ops[name].End(n, nil)
		case '?':
			ops[name].End(0, raysys.ErrOutcomeUnknown)
		case '!':
			ops[name].End(0, fmt.Errorf("call: %w", raysys.ErrNotDelivered))
		default:
			t.Fatalf("bad story %q", w)
		}
	}
	return h
}

func TestLinearizable(t *testing.T) {
	for name, c := range map[string]struct {
		story string
		ok    bool
	}{
		"in order":                      {"a+1 a=1 b+1 b=2 c:r c=2", true},
		"at the same time, either way":  {"a+1 b+2 b=3 a=1", true},
		"lost update":                   {"a+1 a=1 b+1 b=1", false},
		"stale read":                    {"a+1 a=1 b:r b=0", false},
		"read during a write, old":      {"a+1 b:r b=0 a=1", true},
		"read during a write, new":      {"a+1 b:r b=1 a=1", true},
		"back in time":                  {"a+1 b:r b=1 c:r c=0 a=1", false},
		"open call took effect":         {"a+1 a? b:r b=1", true},
		"open call did not":             {"a+1 a? b:r b=0", true},
		"open call took effect late":    {"a+1 a? b:r b=0 c:r c=1", true},
		"open call took effect twice":   {"a+1 a? b:r b=2", false},
		"open call undone":              {"a+1 a? b:r b=1 c:r c=0", false},
		"refused call had no effect":    {"a+1 a! b:r b=0", true},
		"refused call had an effect":    {"a+1 a! b:r b=1", false},
		"call that nobody ended":        {"a+1 b:r b=1", true},
		"open reads say nothing":        {"a:r a? b:r b? c:r c=0", true},
		"register":                      {"a:s7 a=0 b:r b=7", true},
		"register, overwritten by none": {"a:s7 a=0 b:s8 b=0 c:r c=7", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{name: t.Name()}
			f.run(func() { testkit.Linearizable(f, story(t, c.story), testkit.Register()) })
			if got := len(f.errors) == 0; got != c.ok {
				t.Errorf("linearizable: %v, want %v: %q", got, c.ok, f.errors)
			}
			for _, e := range f.errors {
				path := regexp.MustCompile(`see (\S+)`).FindStringSubmatch(e)
				if path == nil {
					t.Fatalf("no path in %q", e)
				}
				page, err := os.ReadFile(path[1])
				if err != nil || !strings.Contains(string(page), "<svg") || !strings.Contains(string(page), "Read") && !strings.Contains(string(page), "Add") {
					t.Errorf("the picture at %s: %v", path[1], err)
				}
				os.RemoveAll(path[1][:strings.LastIndex(path[1], "/")])
			}
		})
	}
}

// TestLinearizableShowsTheCall: the calls up to the first that does not fit are in the failure, later ones are not.
func TestLinearizableShowsTheCall(t *testing.T) {
	f := &fake{name: "T"}
	f.run(func() {
		testkit.Linearizable(f, story(t, "a+1 a=1 o+4 o? b+1 b=2 c:r c=1 d+1 d=3 e:r e=9"), testkit.Register())
	})
	f.want(t, "client 6  Read  -> 1\n")
	if all := strings.Join(f.errors, ""); !strings.Contains(all, "Add 1 -> 2") || strings.Contains(all, "-> 3") || strings.Contains(all, "-> 9") {
		t.Errorf("not the calls up to the stale read: %s", all)
	}
}

func TestLinearizableNamesTheKey(t *testing.T) {
	h := testkit.NewHistory()
	for i, key := range []string{"good", "bad", "good"} {
		h.Begin(0, key, testkit.Add(1)).End(i+1-i%2, nil) // good: 1, 3 would be wrong
	}
	f := &fake{name: "T"}
	f.run(func() { testkit.Linearizable(f, h, testkit.Register()) })
	f.want(t, "key good")
	if strings.Contains(strings.Join(f.errors, ""), "key bad") {
		t.Error("the other key is blamed too")
	}
}

func TestHistoryOfManyClients(t *testing.T) {
	h := testkit.NewHistory()
	var mu sync.Mutex
	n := 0
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for range 50 {
				op := h.Begin(client, "k", testkit.Add(1))
				mu.Lock()
				n++
				v := n
				mu.Unlock()
				op.End(v, nil)
			}
		})
	}
	wg.Wait()
	testkit.Linearizable(t, h, testkit.Register())
	if a, r, o := h.Counts(); a != 400 || r != 0 || o != 0 {
		t.Errorf("counts %d, %d, %d", a, r, o)
	}
}

func TestNotDone(t *testing.T) {
	for err, want := range map[error]bool{
		raysys.ErrNotDelivered:   true,
		raysys.ErrOverloaded:     true,
		raysys.ErrOutcomeUnknown: false,
		raysys.ErrDeadline:       false,
		context.Canceled:         false,
		errors.New("mine"):       false,
		&raysys.TaskError{Function: "f", Err: raysys.ErrOverloaded}: false,

		fmt.Errorf("%w: the answer could not be sent: %w", raysys.ErrOutcomeUnknown, raysys.ErrOverloaded): false,
	} {
		if got := testkit.NotDone(err); got != want {
			t.Errorf("NotDone(%v) = %v", err, got)
		}
	}
}
