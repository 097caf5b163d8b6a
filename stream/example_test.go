package stream_test

import (
	"context"
	"fmt"
	"time"

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

// A Thumbnailer asks a service that may hang.
type Thumbnailer struct{}

func (*Thumbnailer) OnPhoto(ctx context.Context, e stream.Event[string]) error {
	if e.Value == "hangs.jpg" {
		<-ctx.Done() // as a request with ctx does
		return ctx.Err()
	}
	close(shown)
	return nil
}

var (
	photos = stream.Define[string]("example.photos")
	_      = stream.Into(photos, grains.Define[Thumbnailer]("example.thumbnailer"), (*Thumbnailer).OnPhoto,
		stream.Within(20*time.Millisecond), stream.OnError(stream.Park))

	shown = make(chan struct{})
)

// A handler that takes too long has failed: here its event is parked, and the next one comes.
func ExampleWithin() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		if err := photos.PublishAll(ctx, "ann", []string{"hangs.jpg", "sea.jpg"}); err != nil {
			return err
		}
		<-shown
		for e, err := range photos.Parked().Read(ctx, "ann", stream.ToEnd()) {
			fmt.Println(e.Value, err)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: hangs.jpg <nil>
}

// Each visit of ann is a call of the grain visitor/ann. With RAYSYS_CONSUL and RAYSYS_NATS the same program is one of many nodes.
func Example() {
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

// A Payment is an event that a client may send twice, because it did not hear the answer to the first.
type Payment struct{ Cents int }

var paid = stream.Define[Payment]("example.paid")

// The client chooses the id, and sends it with the request: both Publish return the same number.
func ExampleID() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for range 2 {
			seq, err := paid.Publish(ctx, "ann", Payment{500}, stream.ID("order 17"))
			fmt.Println(seq, err)
		}
		n := 0
		for range paid.Read(ctx, "ann", stream.ToEnd()) {
			n++
		}
		fmt.Println(n, "payment")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 1 payment
}
