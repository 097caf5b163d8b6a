package stream_test

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
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
func Example_parkWhatFails() {
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
