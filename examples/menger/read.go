package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// reading is how a model is read by many actors at once.
type reading struct{ Readers, Bytes, Rounds int }

// reads has how long a read takes, each way.
type reads struct {
	ByName  timing `json:"by_name"`
	Added   timing `json:"by_name_added"` // the same, with all numbers added up
	Answers timing `json:"answers"`
}

// timing is in milliseconds. Mean and P99 are those of all rounds but the first.
type timing struct {
	Mean  float64 `json:"mean_ms"`
	P99   float64 `json:"p99_ms"`
	First float64 `json:"first_mean_ms"`
}

// modelName is the model's, in the namespace.
const modelName = "menger/model"

// source is the learner: it has the model.
type source struct{ model []float32 }

// newModel is an order for another version: the first number is the version.
type newModel struct{ Version, Bytes int }

// Publish makes a version, and gives it its name. When it returns the name leads to it.
func (s *source) Publish(ctx context.Context, n newModel) error {
	s.model = make([]float32, n.Bytes/4)
	for i := range s.model {
		s.model[i] = float32(n.Version)
	}
	_, err := raysys.Put(ctx, s.model, raysys.Named(modelName)).Get(ctx)
	return err
}

// Answer is the model as the result of a call.
func (s *source) Answer(context.Context) ([]float32, error) { return s.model, nil }

// reader is an actor.
type reader struct{}

// look is an order to read a version.
type look struct {
	How     string // by name, added, answer
	Version int
}

var errOld = errors.New("the version that was read is not the one that was published")

// Read returns how long it takes until the first number can be read.
func (*reader) Read(ctx context.Context, l look) (time.Duration, error) {
	began, got := time.Now(), float32(0)
	see := func(w []float32) error {
		got = w[0]
		if l.How == "added" {
			sum := float64(0)
			for _, v := range w {
				sum += float64(v)
			}
			got = float32(sum / float64(len(w)))
		}
		return nil
	}
	var err error
	if l.How == "answer" {
		var w []float32
		if w, err = answer.Call(ctx, sources.Get("model")).Get(ctx); err == nil {
			err = see(w)
		}
	} else {
		err = raysys.View(ctx, raysys.Lookup[[]float32](ctx, modelName), see)
	}
	took := time.Since(began)
	if err == nil && got != float32(l.Version) {
		err = fmt.Errorf("%w: it has %v, want %d", errOld, got, l.Version)
	}
	return took, err
}

const patience = 2 * time.Minute // answers of 16 MB to 128 readers wait for each other

var (
	sources = grains.Define[source]("menger-source", grains.Keep())
	publish = grains.Action(sources, "publish", (*source).Publish).With(raysys.Deadline(patience))
	answer  = grains.Method0(sources, "answer", (*source).Answer).ReadOnly().With(raysys.Deadline(patience))
	readers = grains.Define[reader]("menger-reader", grains.Placement(raysys.Spread))
	read    = grains.Method(readers, "read", (*reader).Read).With(raysys.Deadline(patience))
)

// run has all readers read each version, one way after the other.
func (r reading) run(ctx context.Context, progress io.Writer) (all reads, err error) {
	var list []grains.Grain[reader]
	for i := range r.Readers {
		list = append(list, readers.Get(fmt.Sprint(i)))
	}
	version := 0
	for _, way := range []struct {
		how string
		to  *timing
	}{{"by name", &all.ByName}, {"added", &all.Added}, {"answer", &all.Answers}} {
		var later []time.Duration
		for round := range r.Rounds {
			version++
			if _, err := publish.Call(ctx, sources.Get("model"), newModel{version, r.Bytes}).Get(ctx); err != nil {
				return all, err
			}
			took, err := raysys.GetAll(ctx, read.Each(ctx, list, look{way.how, version})).Values()
			if err != nil {
				return all, err
			}
			fmt.Fprintf(progress, "%s, round %d: mean %.2f ms\n", way.how, round+1, meanOf(took))
			if round == 0 {
				way.to.First = meanOf(took)
			} else {
				later = append(later, took...)
			}
		}
		slices.Sort(later)
		way.to.Mean, way.to.P99 = meanOf(later), ms(later[len(later)*99/100])
	}
	return all, raysys.Forget(ctx, modelName)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func meanOf(list []time.Duration) float64 {
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	return ms(sum) / float64(len(list))
}
