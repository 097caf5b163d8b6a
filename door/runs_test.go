package door_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// begun gets the argument of each run of patient that begins, and the run goes on once goOn has something.
var begun, goOn = make(chan int, 100), make(chan struct{}, 100)

var patient = tasks.Define("door.patient", func(ctx context.Context, n int) (int, error) {
	begun <- n
	select {
	case <-goOn:
		if n < 0 {
			return 0, errNoMoney
		}
		return 2 * n, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
})

const noSlash, train = "/call/task/door.patient", "/call/task/door.patient/"

// TestRuns: a run is started once, outlives its client, and has its result until it is forgotten; each caller has runs
// of its own.
func TestRuns(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), twoCallers(t))
		alice, bob := s.as(aliceToken), s.as(bobToken)
		a, _ := alice.do("PUT", train+"r%2F1", "7")
		if a.StatusCode != 202 || a.Header.Get("Location") != train+"r%2F1" {
			t.Fatal(a.StatusCode, a.Header)
		}
		if n := <-begun; n != 7 {
			t.Fatal(n)
		}
		alice.want(202, "", "PUT", train+"r/1", " 7 ")
		alice.want(202, "", "GET", train+"r/1", "")
		alice.want(202, "", "GET", train+"r/1?wait=10ms", "")
		if p := alice.want(409, "", "PUT", train+"r/1", "8"); p.Type != "raysys:name-taken" || p.Ran != "no" {
			t.Errorf("%+v", p)
		}
		for _, method := range []string{"GET", "DELETE"} {
			bob.want(404, "no such run", method, train+"r/1", "")
			alice.want(404, "no such run", method, "/call/task/door%2Fsquare/r/1", "")
		}
		bob.want(202, "", "PUT", train+"r/1", "8") // another one
		<-begun
		goOn <- struct{}{}
		goOn <- struct{}{}
		alice.want(200, "14", "GET", train+"r/1?wait=60s", "")
		bob.want(200, "16", "GET", train+"r/1?wait=60s", "")
		alice.want(200, "14", "GET", train+"r/1", "")
		alice.want(202, "", "PUT", train+"r/1", "7") // it has run
		alice.want(409, "", "PUT", train+"r/1", "8")
		alice.want(200, "14", "GET", train+"r/1", "")
		alice.want(204, "", "DELETE", train+"r/1", "")
		alice.want(404, "", "GET", train+"r/1", "")
		alice.want(404, "", "DELETE", train+"r/1", "")
		bob.want(200, "16", "GET", train+"r/1", "")
	})
}

// lap is an argument of quick: how often a name has run is counted.
type lap struct {
	Name string
	N    int
}

var laps sync.Map // name -> *atomic.Int64

var quick = tasks.Define("door.quick", func(_ context.Context, l lap) (int, error) {
	n, _ := laps.LoadOrStore(l.Name, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return l.N, nil
})

// TestRunOnce: a name runs once, also when clients start it with several arguments at the moment at which it ends: those
// of the first are taken, and others are a 409.
func TestRunOnce(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), door.Task(quick, "Counts."))
		const clients = 8
		for i := range long.Form(60, 2000) {
			name := fmt.Sprintf("%s-%d", path.Base(t.Name()), i)
			laps.Delete(name)
			var taken sync.Map // the arguments that a client was told are taken
			var putting sync.WaitGroup
			for c := range clients {
				putting.Go(func() {
					n := c % 4
					a, text := s.do("PUT", "/call/task/door.quick/"+name, fmt.Sprintf(`{"Name":%q,"N":%d}`, name, n))
					switch a.StatusCode {
					case 202:
						taken.Store(n, true)
					case 409:
					default:
						t.Errorf("%d %s", a.StatusCode, text)
					}
				})
			}
			putting.Wait()
			_, text := s.do("GET", "/call/task/door.quick/"+name+"?wait=60s", "")
			first, err := strconv.Atoi(text)
			taken.Range(func(n, _ any) bool {
				if n != first {
					t.Errorf("%s: %v is taken, and so is %d", name, n, first)
				}
				return true
			})
			ran, _ := laps.Load(name)
			if _, is := taken.Load(first); err != nil || !is || ran.(*atomic.Int64).Load() != 1 {
				t.Fatalf("%s has run %d times: %s", name, ran.(*atomic.Int64).Load(), text)
			}
		}
	})
}

// wordy leaves no room for the name of a run.
var wordy = tasks.Define0(strings.Repeat("ü", 100), func(context.Context) (int, error) { return 1, nil })

// TestRunEnds: DELETE ends a run that goes on; a failure is the outcome like a result.
func TestRunEnds(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), door.Task0(wordy, ""))
		s.want(202, "", "PUT", train+"ends", "7")
		<-begun
		s.want(204, "", "DELETE", train+"ends", "")
		if p := s.want(500, "", "GET", train+"ends?wait=60s", ""); p.Type != "raysys:cancelled" || len(p.ID) != 32 {
			t.Errorf("%+v", p)
		}
		s.want(204, "", "DELETE", train+"ends", "")
		s.want(404, "", "GET", train+"ends", "")

		s.want(202, "", "PUT", noSlash+"?key=a//b", "-1")
		<-begun
		goOn <- struct{}{}
		if p := s.want(402, "not enough money", "GET", noSlash+"?key=a//b&wait=60s", ""); p.Ran != "yes" {
			t.Errorf("%+v", p)
		}
		if _, err := raysys.Lookup[int](k.Context(), "door/local/door.patient/a//b").Get(k.Context()); !errors.Is(err, errNoMoney) {
			t.Error("the run has another name")
		}
		for _, c := range []struct{ text, method, path, body string }{
			{"30s", "GET", train + "x?wait=-1s", ""},
			{"30s", "GET", train + "x?wait=61s", ""},
			{"30s", "GET", train + "x?wait=x", ""},
			{"bytes here", "PUT", noSlash + "?key=", "1"},
			{"1 to 0 bytes here", "PUT", "/call/task/" + strings.Repeat("%C3%BC", 100) + "/r", ""},
			{"bytes here", "PUT", train + strings.Repeat("r", 513), "1"},
			{"is no int", "PUT", train + "x", `"a"`},
		} {
			if p := s.want(400, c.text, c.method, c.path, c.body); p.Ran != "no" {
				t.Errorf("%s: %+v", c.path, p)
			}
		}
		s.want(405, "GET, PUT, DELETE", "POST", train+"x", "1")
	})
}
