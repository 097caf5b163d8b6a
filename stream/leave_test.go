package stream_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/testkit"
)

// TestAllLeave: where all workers stop at once while events come, none waits for a node that would store how far its
// parts are: there is none.
func TestAllLeave(t *testing.T) {
	for i := range 3 { // one may find a leader that is still there
		t.Run(fmt.Sprint(i), allLeave)
	}
}

func allLeave(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), inMemory(t))
	ctx := k.Context()
	publishing, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	key := t.Name()
	all.Go(func() {
		for i := 0; publishing.Err() == nil; i++ {
			_ = notes.PublishAll(publishing, key+string(rune('a'+i%26)), []int{i})
		}
	})
	await(t, "some events are taken", func() bool { return len(written(key+"z")) > 3 })
	var leaving atomic.Int32
	leaving.Store(2)
	for i := 1; i <= 2; i++ {
		n := k.Cluster().Node(i)
		all.Go(func() {
			limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := n.Drain(limit); err != nil {
				t.Errorf("n%d drains: %v", i, err)
			}
			limit, cancel = context.WithTimeout(context.Background(), 9*time.Second) // system.Main waits for 10
			defer cancel()
			if err := n.Close(limit); err != nil {
				t.Errorf("n%d closes: %v", i, err)
			}
			if leaving.Add(-1) == 0 {
				stop()
			}
		})
	}
}
