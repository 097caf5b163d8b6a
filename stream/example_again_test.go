package stream_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
)

// A Payment is an event that a client may send twice, because it did not hear the answer to the first.
type Payment struct{ Cents int }

var paid = stream.Define[Payment]("example.paid")

// The client chooses the id, and sends it with the request: both Publish return the same number.
func Example_publishAgain() {
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
