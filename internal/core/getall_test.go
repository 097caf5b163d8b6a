package core_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys/internal/core"
)

// remote is a value of another node, which comes when the test answers.
type remote struct{ asked *[]func(int) }

func (remote) Name() string    { return "remote" }
func (remote) ID() core.TaskID { return core.TaskID{} }
func (remote) Cancelled()      {}

func (r remote) Fetch(into any, done func(error)) {
	*r.asked = append(*r.asked, func(v int) {
		*into.(*int) = v
		done(nil)
	})
}

// TestGetAllAsksForAll: GetAll asks for every value of another node before it waits for the first. One answer after the other
// would take as many round trips.
func TestGetAllAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		j := &core.Job{Runtime: still{}, Closed: make(chan struct{})}
		j.Top = core.NewRoot(j, context.Background(), nil, core.TaskID{})
		ctx := core.NewContext(core.NewRoot(j, context.Background(), j.Top, core.TaskID{Hi: 1}))
		var asked []func(int)
		refs := make([]core.Ref[int], n+1) // the last is the zero reference
		for i := range n {
			if err := core.SetRefFuture(&refs[i], &core.NewUntyped(j, remote{&asked}).Future); err != nil {
				t.Fatal(err)
			}
		}
		got, done := make([]int, n), make(chan error, 1)
		go core.GetAll(ctx, refs, func(i int, v int, err error) {
			if i == n {
				done <- err
				return
			}
			got[i] = v
		})
		synctest.Wait()
		if len(asked) != n {
			t.Errorf("%d of %d values were asked for, before one was there", len(asked), n)
		}
		for i := 0; i < len(asked); i++ { // grows where they are asked for in turn
			asked[i](i)
			synctest.Wait()
		}
		if err := <-done; err == nil {
			t.Error("the zero reference has a value")
		}
		for i, v := range got {
			if v != i {
				t.Errorf("value %d is %d", i, v)
			}
		}
	})
}
