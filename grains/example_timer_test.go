package grains_test

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A Quote is refreshed while it is in memory.
type Quote struct {
	version int
	stop    func()
}

var freshQuotes = make(chan int, 3)

// OnActivate begins to refresh it.
func (q *Quote) OnActivate(ctx context.Context) (err error) {
	q.stop, err = grains.Every(ctx, time.Millisecond, q.Refresh)
	return err
}

// Refresh is a turn like any other: it needs no lock.
func (q *Quote) Refresh(context.Context) error {
	if q.version++; q.version == 3 {
		q.stop()
	}
	freshQuotes <- q.version
	return nil
}

// Version is that of the last refresh.
func (q *Quote) Version(context.Context) (int, error) { return q.version, nil }

// A grain that does something at a time: Every and After have a function called as a turn.
func ExampleEvery() {
	table := raysys.NewTable()
	quotes := grains.DefineIn[Quote](table, "quote")
	version := grains.Method0(quotes, "version", (*Quote).Version)
	n, err := system.New(system.Config{Table: table})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	before, err := version.Call(ctx, quotes.Get("AAPL")).Get(ctx) // activates it
	fmt.Println(<-freshQuotes, <-freshQuotes, <-freshQuotes)
	after, _ := version.Call(ctx, quotes.Get("AAPL")).Get(ctx)
	fmt.Println(before < after, err)
	// Output:
	// 1 2 3
	// true <nil>
}
