package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestKilled: calls with keys, each repeated until it has an answer, count once, whatever workers are killed meanwhile.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	calls, keys, kills := long.Form(3000, 100_000), long.Form(10, 1000), long.Form(2, 10)
	p := testkit.Processes(t, 3)
	p.Ready()
	s := serve(t, p.Node())
	var next, repeated atomic.Int64
	var posting sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), long.Form(2*time.Minute, time.Hour))
	defer cancel()
	post := func(path, body, key string) (text string, ok bool) {
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Raysys-Deadline": {"5s"}}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		a, err := s.Client().Do(r)
		if err != nil {
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
		victim := p.Proc(k%3 + 1)
		victim.Kill()
		victim.Restart()
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
