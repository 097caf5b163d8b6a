package guide_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

type Row struct {
	File string
	N    int
}

var csvRows = generator.Define("guide.rows", func(ctx context.Context, file string, yield func(Row) bool) error {
	for n := range 10_000 { // read the file
		if !yield(Row{File: file, N: n}) {
			return nil // nobody reads any more
		}
	}
	return nil
})

func firstRows(ctx context.Context, file string, n int) (list []Row, err error) {
	s := csvRows.With(raysys.CPU(1)).Go(ctx, file) // begins now
	for row, err := range s.All(ctx) {
		if err != nil {
			return nil, err
		}
		if list = append(list, row); len(list) == n {
			break // ends the task
		}
	}
	return list, nil
}

func TestGenerator(t *testing.T) {
	list, err := firstRows(testkit.New(t).Context(), "big.csv", 1500)
	if err != nil || len(list) != 1500 || list[1499] != (Row{"big.csv", 1499}) {
		t.Error(len(list), err)
	}
}
