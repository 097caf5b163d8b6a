package guide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

func serveScores(ctx context.Context, addr string) error { // what the function that system.Main gets returns
	mux := http.NewServeMux()
	mux.HandleFunc("POST /score", func(w http.ResponseWriter, r *http.Request) {
		score, err := scoreOf.Call(r.Context(), filters.Get("v7"), r.FormValue("mail")).Get(r.Context())
		if err != nil {
			http.Error(w, "no score", http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, score)
	})
	return system.Serve(ctx, addr, mux)
}

func Example_batches() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		score, err := scoreOf.Call(ctx, filters.Get("v7"), "Win!!!").Get(ctx)
		_, none := scoreOf.Call(ctx, filters.Get("v7"), "").Get(ctx)
		fmt.Println(score, err, none)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return errors.Join(err, serveScores(ended, "127.0.0.1:0"))
	})
	// Output: 0.5 <nil> guide.batches.spam/v7.score: an empty mail
}
