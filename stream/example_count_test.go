package stream_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
)

// A Visit is an event.
type Visit struct{ Page string }

// A Visitor counts its visits, each once.
type Visitor struct {
	Visits grains.State[int]
	stream.Cursor
}

func (v *Visitor) OnVisit(ctx context.Context, e stream.Event[Visit]) error {
	v.Visits.Value++
	if v.Visits.Value == 2 {
		close(twice)
	}
	return nil
}

var (
	visits   = stream.Define[Visit]("example.visits")
	visitors = grains.Define[Visitor]("example.visitor", grains.Durable())
	_        = stream.Into(visits, visitors, (*Visitor).OnVisit)

	twice = make(chan struct{})
)

// Each visit of ann is a call of the grain visitor/ann. With RAYSYS_CONSUL and RAYSYS_NATS the same program is one of many nodes.
func Example_countEachEventOnce() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for _, page := range []string{"/", "/about"} {
			if _, err := visits.Publish(ctx, "ann", Visit{page}); err != nil {
				return err
			}
		}
		for e, err := range visits.Read(ctx, "ann", stream.ToEnd()) {
			fmt.Println(e.Seq, e.Value.Page, err)
		}
		<-twice
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 / <nil>
	// 2 /about <nil>
}
