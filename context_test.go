package raysys_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// A task's context keeps the rules of context.Context at every point of its life.
func TestTaskContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		steps, next := make(chan context.Context), make(chan struct{})
		task := tasks.Define0In(table, "task", func(ctx context.Context) (int, error) {
			steps <- ctx
			<-next
			return 1, nil
		})
		_, root := node(t, table)
		check := func(name string, ctx context.Context, done bool, err, cause error) {
			t.Helper()
			// Cause first: it must not need Done to have been asked for.
			if got := context.Cause(ctx); (got != nil) != (err != nil) || cause != nil && !errors.Is(got, cause) {
				t.Errorf("%s: Cause %v, want %v", name, got, cause)
			}
			if got := ctx.Err(); got != err {
				t.Errorf("%s: Err %v, want %v", name, got, err)
			}
			synctest.Wait()
			select {
			case <-ctx.Done():
				if !done {
					t.Errorf("%s: it is done", name)
				}
			default:
				if done {
					t.Errorf("%s: it is not done", name)
				}
			}
			if first, again := ctx.Done(), ctx.Done(); first != again {
				t.Errorf("%s: Done gives two channels", name)
			}
		}
		for _, early := range []bool{true, false} { // whether Done is asked for before the end
			for end, want := range map[string][2]error{
				"returned": {context.Canceled, nil}, "cancelled": {context.Canceled, raysys.ErrCancelled},
				"deadline": {context.DeadlineExceeded, raysys.ErrDeadline}, "scope": {context.Canceled, errBoom},
			} {
				sub, cancel := context.WithCancelCause(root)
				work := task
				if end == "deadline" {
					work = task.With(raysys.Deadline(time.Minute))
				}
				r := work.Go(sub)
				ctx := <-steps
				_, hasDeadline := ctx.Deadline()
				if hasDeadline != (end == "deadline") {
					t.Errorf("%s: has a deadline: %v", end, hasDeadline)
				}
				after := make(chan struct{})
				if early {
					check(end+", running", ctx, false, nil, nil)
					context.AfterFunc(ctx, func() { close(after) })
				}
				switch end {
				case "returned":
					next <- struct{}{}
					r.Get(root)
				case "cancelled":
					r.Cancel()
				case "deadline":
					<-time.After(2 * time.Minute)
				case "scope":
					cancel(errBoom)
					synctest.Wait()
				}
				check(end, ctx, true, want[0], want[1])
				if !early {
					context.AfterFunc(ctx, func() { close(after) })
				}
				<-after
				if end != "returned" {
					next <- struct{}{}
				}
				cancel(nil)
			}
		}
	})
}

// The contexts of a long-lived driver's requests leave nothing behind, whether they carry values, an end or both.
func TestRequestContextsAreForgotten(t *testing.T) {
	table := raysys.NewTable()
	one := echo(table)
	outer, stop := context.WithCancel(context.Background())
	defer stop()
	n, _ := node(t, table)
	root := n.Context(outer)
	live, cancelLive := context.WithCancel(root)
	defer cancelLive()
	for name, request := range map[string]func(i int){
		"value":               func(i int) { get1(one, depth.With(root, i)) },
		"value under another": func(i int) { get1(one, depth.With(live, i)) },
		"end": func(int) {
			ctx, cancel := context.WithCancel(root)
			get1(one, ctx)
			cancel()
		},
		"both": func(i int) {
			ctx, cancel := context.WithTimeout(depth.With(root, i), time.Hour)
			get1(one, ctx)
			cancel()
		},
		"driver": func(i int) {
			ctx, cancel := context.WithCancel(outer)
			get1(one, n.Context(ctx))
			cancel()
		},
	} {
		const requests = 2000
		// As many as are measured, since the goroutines that end contexts leave the runtime's own records of them behind,
		// which it uses again. A turn alone has more than 300 bytes, a context 150.
		for i := range requests {
			request(i)
		}
		// More of those goroutines may live at the same time than ever before, so it is looked at again: what the requests
		// leave behind comes each time.
		nodetest.Eventually(t, name+": the requests' memory is free", func() bool {
			before := liveHeap()
			for i := range requests {
				request(i)
			}
			for range 3 {
				if liveHeap() < before+requests*100 {
					return true
				}
			}
			return false
		})
	}
}

func get1(one tasks.Task[int, int], ctx context.Context) {
	one.Go(ctx, 1).Get(ctx)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what cleanups of the first let go of, those of earlier tests too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A chain of tasks, each of which submits the next and returns, leaves nothing behind either.
func TestChainOfSuccessorsIsForgotten(t *testing.T) {
	table := raysys.NewTable()
	var next tasks.Task[int, int]
	at, goOn := make(chan int), make(chan struct{})
	next = tasks.DefineIn(table, "next", func(ctx context.Context, n int) (int, error) {
		if n%10_000 == 0 {
			at <- n
			<-goOn
		}
		if n < 40_000 {
			if n%2 == 0 {
				ctx = depth.With(ctx, n)
			}
			next.Go(ctx, n+1)
		}
		return n, nil
	})
	_, ctx := node(t, table)
	next.Go(ctx, 0)
	var heap [5]int64
	for i := range heap {
		<-at
		heap[i] = liveHeap()
		goOn <- struct{}{}
	}
	if grown := heap[4] - heap[1]; grown > 30_000*16 {
		t.Errorf("30,000 tasks, of which one at a time was alive, left %d bytes", grown)
	}
}

// Before Start a node's context is of no use, and says so.
func TestContextBeforeStart(t *testing.T) {
	table := raysys.NewTable()
	one := echo(table)
	n, err := system.New(system.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	ctx := n.Context(context.Background())
	if _, err := one.Go(ctx, 1).Get(ctx); !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	nodetest.Close(t, n)
}

// A driver's context ends with its node, and keeps the rules of context.Context whoever asks what first.
func TestDriverContextEndsWithTheNode(t *testing.T) {
	for _, early := range []bool{true, false} { // whether Done is asked for before the end
		for name, outer := range map[string]func() (context.Context, func()){
			"endless": func() (context.Context, func()) {
				return context.WithValue(context.Background(), asked{}, 1), func() {}
			},
			"with end": func() (context.Context, func()) {
				return cancellable(context.WithValue(context.Background(), asked{}, 1))
			},
			"a branch":  nil,
			"a timeout": nil,
		} {
			synctest.Test(t, func(t *testing.T) {
				n, err := system.New(system.Config{Table: raysys.NewTable(), Resources: raysys.Resources{CPU: 1}})
				if err == nil {
					err = n.Start(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				var ctx context.Context
				stop := func() {}
				switch {
				case outer != nil:
					ctx, stop = outer()
					ctx = n.Context(ctx)
				case name == "a branch":
					ctx = raysys.Branch(n.Context(context.WithValue(context.Background(), asked{}, 1)), 1)
				default:
					ctx, stop = context.WithTimeout(n.Context(context.WithValue(context.Background(), asked{}, 1)), time.Hour)
				}
				defer stop()
				ran := make(chan struct{})
				if early {
					context.AfterFunc(ctx, func() { close(ran) })
				}
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(asked{}) != 1 {
					t.Errorf("%s: before the node ends: Err %v, Cause %v, value %v", name, ctx.Err(), context.Cause(ctx), ctx.Value(asked{}))
				}
				if err := n.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				for name, ctx := range map[string]context.Context{name: ctx, name + ", derived": derived, name + ", later": n.Context(context.Background())} {
					if cause := context.Cause(ctx); !errors.Is(cause, raysys.ErrClosed) {
						t.Errorf("%s: the node is closed and its context's Cause is %v", name, cause)
					}
					if ctx.Err() != context.Canceled {
						t.Errorf("%s: the node is closed and its context's Err is %v", name, ctx.Err())
					}
					synctest.Wait()
					select {
					case <-ctx.Done():
					default:
						t.Errorf("%s: the node is closed and its context is not done", name)
					}
				}
				if early {
					<-ran
				}
				if ctx.Value(asked{}) != 1 {
					t.Errorf("%s: the value is gone with the node", name)
				}
			})
		}
	}
}

func cancellable(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel
}

// asked is a key of context.WithValue.
type asked struct{}
