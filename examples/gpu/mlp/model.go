package mlp

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/examples/gpu/cuda"
)

// Model is trained step by step. It is for one goroutine at a time.
type Model struct {
	step     func() (float64, error)
	snapshot func() (Snapshot, error)
	close    func() error
	where    string
}

// OnCPU begins with a snapshot, on the CPU.
func OnCPU(s Spec, from Snapshot) (*Model, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := s.checkSnapshot(from); err != nil {
		return nil, err
	}
	net, err := build(cpu{}, s, from)
	if err != nil {
		return nil, err
	}
	return &Model{net.next, net.snapshot, func() error { return nil }, "CPU"}, nil
}

// OnDevice begins with a snapshot on the device with that UUID, or on the first one where it is empty; with blas cuBLAS
// multiplies the matrices, where it is found. Close gives the device back. The error matches cuda.ErrNoDriver or
// cuda.ErrNoDevice where there is none.
func OnDevice(s Spec, from Snapshot, uuid string, blas bool) (*Model, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := s.checkSnapshot(from); err != nil {
		return nil, err
	}
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	ctx, err := driver.Use(uuid)
	if err != nil {
		return nil, err
	}
	var (
		g   *device
		net *network[cuda.Memory]
	)
	end := func() error {
		err := ctx.Do(func() error {
			if g == nil {
				return nil
			}
			return g.close()
		})
		return errors.Join(err, ctx.Close())
	}
	if err := ctx.Do(func() (err error) {
		if g, err = newDevice(ctx, blas); err == nil {
			net, err = build[cuda.Memory](g, s, from)
		}
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("begin on %s: %w", ctx.Device.UUID, err), end())
	}
	where := fmt.Sprintf("%s (%s), matrices by ", ctx.Device.Name, ctx.Device.UUID)
	if g.blas != nil {
		where += "cuBLAS"
	} else {
		where += "our kernel"
	}
	return &Model{
		step: func() (loss float64, err error) {
			err = ctx.Do(func() error { loss, err = net.next(); return err })
			return loss, err
		},
		snapshot: func() (s Snapshot, err error) {
			err = ctx.Do(func() error { s, err = net.snapshot(); return err })
			return s, err
		},
		close: end, where: where,
	}, nil
}

// Step makes one, and returns the loss before it: the mean cross entropy of its batch. After an error the model is of no more
// use: begin again with a snapshot.
func (m *Model) Step() (loss float64, err error) { return m.step() }

// Snapshot copies what the steps so far have made.
func (m *Model) Snapshot() (Snapshot, error) { return m.snapshot() }

// Close gives the device back. It is called once.
func (m *Model) Close() error { return m.close() }

// Where says what does the arithmetic, for people.
func (m *Model) Where() string { return m.where }
