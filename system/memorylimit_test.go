package system_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
)

// caching is a grain whose cache is larger than its State.
type caching struct {
	Calls grains.State[int]
	cache []byte
}

// OnActivate implements grains.Activator.
func (c *caching) OnActivate(context.Context) error {
	c.cache = bytes.Repeat([]byte{1}, 64<<10)
	return nil
}

var (
	cachings    = grains.Define[caching]("caching", grains.Durable())
	cachingCall = grains.Method0(cachings, "call", func(c *caching, _ context.Context) (int, error) {
		c.Calls.Value++
		return c.Calls.Value, nil
	})
)

// cachingsVariable says how many grains fillMemory has.
const cachingsVariable = "RAYSYS_TEST_CACHINGS"

// fillMemory has many grains one after the other, and the first of them again, and says what the process took at most.
func fillMemory(ctx context.Context) error {
	const callers = 4
	grains, err := strconv.ParseInt(os.Getenv(cachingsVariable), 10, 64)
	if err != nil {
		return err
	}
	var refused atomic.Int64
	for round, last := range []int64{1: grains, 2: grains / 32} {
		var next atomic.Int64
		var wg sync.WaitGroup
		failed := make(chan error, callers)
		for range callers {
			wg.Go(func() {
				for i := next.Add(1); i <= last; i = next.Add(1) {
					n, err := cachingCall.Call(ctx, cachings.Get(strconv.FormatInt(i, 10))).Get(ctx)
					for errors.Is(err, raysys.ErrOverloaded) && ctx.Err() == nil {
						refused.Add(1)
						<-time.After(20 * time.Millisecond)
						n, err = cachingCall.Call(ctx, cachings.Get(strconv.FormatInt(i, 10))).Get(ctx)
					}
					if err == nil && n != round {
						err = fmt.Errorf("grain %d counts %d in round %d", i, n, round)
					}
					if err != nil {
						failed <- err
						return
					}
				}
			})
		}
		wg.Wait()
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	s, err := system.NodeOf(ctx).Status(ctx)
	if err != nil {
		return err
	}
	m := s.Nodes[0].Memory
	fmt.Printf("peak %s KiB, %d went, %d were refused, %d calls again\n", strings.Fields(peak)[0], m.Unloaded, m.Refused, refused.Load())
	return nil
}

// TestMemoryLimitHolds: a program with more grains than its memory limit has room for, in the long form twice as many, stays below it,
// and loses no call.
func TestMemoryLimitHolds(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system does not say what a process took at most")
	}
	const limit = 512
	out, err := command(t, "fills its memory", fmt.Sprintf("RAYSYS_MEMORY_LIMIT=%dMiB", limit), fmt.Sprint(cachingsVariable, "=", long.Form(10<<10, 16<<10))).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	var peak, went, refused, again int
	_, last, _ := bytes.Cut(out, []byte("peak "))
	if _, err := fmt.Sscanf("peak "+string(last), "peak %d KiB, %d went, %d were refused, %d calls again", &peak, &went, &refused, &again); err != nil {
		t.Fatal(err)
	}
	most := long.Form(limit*5/4, limit) << 10 // beside other tests looks come late; all grains take more than that
	if peak > most {
		t.Errorf("it took %d KiB, of %d KiB", peak, most)
	}
	if went == 0 {
		t.Error("no grain went")
	}
}
