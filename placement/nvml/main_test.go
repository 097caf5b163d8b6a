package nvml

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/placement/devices"
)

// childVariable makes this program the child of a test: the value is how many inventories it writes, one a line, and the
// bound of each call.
const childVariable = "NVML_TEST_CHILD"

func TestMain(m *testing.M) {
	if v := os.Getenv(childVariable); v != "" {
		child(v)
		return
	}
	goleak.VerifyTestMain(m)
}

// child writes what a node would see, as JSON, or the error.
func child(v string) {
	var inventories int
	var limit time.Duration
	if _, err := fmt.Sscan(v, &inventories, (*duration)(&limit)); err != nil {
		panic(err)
	}
	out := json.NewEncoder(os.Stdout)
	w, err := devices.Open("auto", devices.Config{Limit: limit, Every: 10 * time.Millisecond, Say: func(line string) { out.Encode(seen{Said: line}) }})
	if err != nil {
		out.Encode(seen{Err: err.Error()})
		return
	}
	out.Encode(seen{Inventory: w.Inventory()})
	ctx, cancel := context.WithCancel(context.Background())
	if inventories--; inventories == 0 {
		cancel()
	}
	w.Run(ctx, func(i devices.Inventory) {
		out.Encode(seen{Inventory: i})
		if inventories--; inventories == 0 {
			cancel()
		}
	})
}

// seen is a line of a child.
type seen struct {
	devices.Inventory
	Said string
	Err  string
}

type duration time.Duration

func (d *duration) Scan(s fmt.ScanState, _ rune) error {
	b, err := s.Token(true, nil)
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(string(b))
	*d = duration(v)
	return err
}
