package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// doorAt is a variable with the address at which a process that Processes started serves a door.
const doorAt = "DOOR_TEST_AT"

// serveAt is the process with the door. It ends with the test.
func serveAt(at string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	system.Main(func(ctx context.Context) error {
		d, err := door.New(system.NodeOf(ctx), marks...)
		if err != nil {
			return err
		}
		return system.Serve(ctx, at, d)
	})
}

// TestKilled: calls with keys, each repeated until it has an answer, count once, whatever is killed meanwhile: workers, or
// the process that has the door.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Run("workers", func(t *testing.T) {
		p := testkit.Processes(t, 3)
		p.Ready()
		postAndKill(t, serve(t, p.Node()).URL, long.Form(2, 10), func(k int) {
			p.Proc(k%3 + 1).Kill()
			p.Proc(k%3 + 1).Restart()
		})
	})
	t.Run("door", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		l.Close()
		p := testkit.Processes(t, 3, testkit.EnvOf(func(i int) []string {
			if i < 3 {
				return nil
			}
			return []string{"RAYSYS_ROLE=driver", doorAt + "=" + at}
		}))
		p.Ready()
		postAndKill(t, "http://"+at, long.Form(2, 5), func(int) { p.Proc(3).Restart() })
	})
}

// postAndKill posts calls to a door, while it kills something so often.
func postAndKill(t *testing.T, url string, kills int, kill func(k int)) {
	calls, keys := long.Form(3000, 100_000), long.Form(10, 1000)
	var next, repeated atomic.Int64
	var posting sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), long.Form(2*time.Minute, time.Hour))
	defer cancel()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	post := func(path, body, key string) (text string, ok bool) {
		r, _ := http.NewRequestWithContext(ctx, "POST", url+path, strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Raysys-Deadline": {"5s"}}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		a, err := client.Do(r)
		if err != nil { // there is no door for now
			pause, done := context.WithTimeout(ctx, 20*time.Millisecond)
			defer done()
			<-pause.Done()
			return err.Error(), false
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		return string(b), err == nil && a.StatusCode == 200
	}
	for range 16 {
		posting.Go(func() {
			for i := next.Add(1); i <= int64(calls) && ctx.Err() == nil; i = next.Add(1) {
				for tries := 0; ; tries++ {
					text, ok := post(fmt.Sprintf("/call/grain/door.account/add/%d", i%int64(keys)), `{"n":1}`, fmt.Sprint(i))
					if ok && (i%3 > 0 || tries > 0) { // every third is made twice in any case
						break
					}
					var bad problem
					if !ok && json.Unmarshal([]byte(text), &bad) == nil && bad.Status != 503 && bad.Status != 504 || ctx.Err() != nil {
						t.Errorf("call %d: %s", i, text)
						return
					}
					repeated.Add(1)
				}
			}
		})
	}
	for k := range kills {
		testkit.Eventually(t, time.Hour, "some calls are made", func() bool {
			return next.Load() > int64((k+1)*calls/(kills+2)) || ctx.Err() != nil
		})
		kill(k)
	}
	posting.Wait()
	sum := 0
	for i := range keys {
		testkit.Eventually(t, time.Minute, "the grain is read", func() bool {
			text, ok := post(fmt.Sprintf("/call/grain/door.account/read/%d", i), "", "")
			n := 0
			if ok {
				_, _ = fmt.Sscan(text, &n)
				sum += n
			}
			return ok
		})
	}
	if sum != calls {
		t.Errorf("the sum is %d after %d calls, %d of which were repeated", sum, calls, repeated.Load())
	}
	t.Logf("%d calls, %d repeated", calls, repeated.Load())
}
