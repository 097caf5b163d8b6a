package guide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

var errNoMail = errors.New("an empty mail")

// Spam scores mails.
type Spam struct{}

func (s *Spam) Score(ctx context.Context, mails []string) ([]grains.Answer[float64], error) {
	scores := make([]grains.Answer[float64], len(mails)) // one for each mail, in their order
	for i, m := range mails {
		if m == "" {
			scores[i].Err.Err = errNoMail // its caller's alone
			continue
		}
		scores[i].Value = float64(strings.Count(m, "!")) / float64(len(m))
	}
	return scores, nil
}

var (
	filters = grains.Define[Spam]("guide.batches.spam", grains.StatelessWorker(0))
	scoreOf = grains.Batch(grains.Method(filters, "score", (*Spam).Score).Idempotent(), 64, 2*time.Millisecond)
)

func Example_batches() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		score, err := scoreOf.Call(ctx, filters.Get("v7"), "Win!!!").Get(ctx)
		_, none := scoreOf.Call(ctx, filters.Get("v7"), "").Get(ctx)
		fmt.Println(score, err, none)
		return err
	})
	// Output: 0.5 <nil> guide.batches.spam/v7.score: an empty mail
}
