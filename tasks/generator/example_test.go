package generator_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks/generator"
)

// primes yields the primes below a limit, as it finds them.
var primes = generator.Define("example.primes", func(ctx context.Context, limit int, yield func(int) bool) error {
	for n := 2; n < limit; n++ {
		prime := true
		for d := 2; d*d <= n; d++ {
			prime = prime && n%d != 0
		}
		if prime && !yield(n) {
			return nil // nobody reads any more
		}
	}
	return nil
})

// The loop has the first primes while the task looks for others, and ends the task as it ends.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for n, err := range primes.Go(ctx, 1_000_000_000).All(ctx) {
			if err != nil {
				return err
			}
			if n > 20 {
				break
			}
			fmt.Println(n)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2
	// 3
	// 5
	// 7
	// 11
	// 13
	// 17
	// 19
}
