package mlp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/examples/gpu/cuda"
	"github.com/raysys/raysys/examples/gpu/cudatest"
)

// small has sizes that no block of threads divides.
var small = Spec{Sizes: []int{10, 18, 9, 3}, Batch: 15, Batches: 4, Rate: 0.01, Seed: 1}

type begin func(s Spec, from Snapshot) (*Model, error)

// machines are those that this host can have: CPU, and GPU over the libraries for tests.
func machines(t *testing.T) (all map[string]begin, fake *cudatest.Fake) {
	all = map[string]begin{"CPU": OnCPU}
	if fake = cudatest.Open(t); fake != nil {
		all["kernels"] = func(s Spec, from Snapshot) (*Model, error) { return OnDevice(s, from, cudatest.UUID, false) }
		all["cuBLAS"] = func(s Spec, from Snapshot) (*Model, error) { return OnDevice(s, from, "", true) }
	}
	return all, fake
}

// train makes steps from a snapshot and returns their losses and what is left.
func train(t *testing.T, s Spec, from Snapshot, begin begin, steps int) (losses []float64, to Snapshot) {
	t.Helper()
	m, err := begin(s, from)
	if err != nil {
		t.Fatal(err)
	}
	for range steps {
		loss, err := m.Step()
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, loss)
	}
	to, err = m.Snapshot()
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return losses, to
}

// TestLikeTheReference: the losses of 100 steps are those of gonum in double precision, on every machine; the PTX that a GPU
// would be given is what runs.
func TestLikeTheReference(t *testing.T) {
	want := reference(t, small, 100)
	if want[99] > 0.5*want[0] {
		t.Fatalf("the loss of the reference goes from %g to %g: nothing is learned", want[0], want[99])
	}
	all, fake := machines(t)
	for name, begin := range all {
		t.Run(name, func(t *testing.T) {
			losses, _ := train(t, small, small.Start(), begin, 100)
			worst := 0.0
			for i := range losses {
				worst = max(worst, math.Abs(losses[i]-want[i]))
			}
			t.Logf("the loss goes from %.4f to %.4f, and is at most %.2g from the reference's", losses[0], losses[99], worst)
			if !(worst < 1e-3) {
				t.Errorf("a loss is %g from the reference's: at most 1e-3 comes of single precision", worst)
			}
		})
	}
	if fake != nil && (fake.Launches() == 0 || fake.GEMMs() == 0 || fake.Used() != 0 || fake.Retained() != 0) {
		t.Errorf("%d kernels and %d products ran, and %d bytes and %d contexts are left", fake.Launches(), fake.GEMMs(), fake.Used(), fake.Retained())
	}
}

// TestGoesOn: a model that begins with a snapshot goes on as the one would have that it was taken of, bit by bit.
func TestGoesOn(t *testing.T) {
	all, _ := machines(t)
	for name, begin := range all {
		whole, end := train(t, small, small.Start(), begin, 12)
		first, middle := train(t, small, small.Start(), begin, 7)
		rest, again := train(t, small, middle, begin, 5)
		if diff := cmp.Diff(whole, append(first, rest...)); diff != "" || !cmp.Equal(end, again) || again.Step != 12 {
			t.Errorf("%s: losses of 12 steps, and of 7 and 5 (-want +got):\n%s", name, diff)
		}
	}
}

// TestProducts: the kernel and cuBLAS multiply as plain loops do, however the matrices lie.
func TestProducts(t *testing.T) {
	if cudatest.Open(t) == nil {
		return
	}
	driver, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := driver.Use("")
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	numbers := func(n, seed int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((i*7+seed)%11) - 5 // sums of these are exact
		}
		return x
	}
	for _, blas := range []bool{false, true} {
		for _, size := range [][3]int{{1, 1, 1}, {16, 16, 16}, {17, 33, 5}, {3, 2, 40}, {31, 1, 18}} {
			for flags := range 4 {
				m, n, k, ta, tb := size[0], size[1], size[2], flags&1 > 0, flags&2 > 0
				a, b, want, got := numbers(m*k, 1), numbers(k*n, 2), make([]float32, m*n), make([]float32, m*n)
				cpu{}.matmul(want, a, b, m, n, k, ta, tb)
				err := ctx.Do(func() error {
					g, err := newDevice(ctx, blas)
					if err != nil || blas != (g.blas != nil) {
						return errors.Join(err, errors.New("no device as it was asked for"))
					}
					c, x, y := g.vector(m*n), g.vector(m*k), g.vector(n*k)
					g.upload(x, a)
					g.upload(y, b)
					g.matmul(c, x, y, m, n, k, ta, tb)
					return errors.Join(g.download(got, c), g.close())
				})
				if err != nil || !cmp.Equal(want, got) {
					t.Errorf("product of %v, transposed %v and %v, cuBLAS %v: %v", size, ta, tb, blas, err)
				}
			}
		}
	}
}

// TestDeviceFails: what the device cannot do is an error that says what, and leaves nothing behind.
func TestDeviceFails(t *testing.T) {
	fake := cudatest.Open(t)
	if fake == nil {
		return
	}
	start := small.Start()
	want := func(err error, text string, is error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) || is != nil && !errors.Is(err, is) {
			t.Errorf("got %v, want %q", err, text)
		}
		if fake.Used() != 0 || fake.Retained() != 0 {
			t.Errorf("%d bytes and %d contexts are left", fake.Used(), fake.Retained())
		}
	}
	_, err := OnDevice(small, start, "GPU-00000000-0000-0000-0000-000000000000", false)
	want(err, "CUDA_VISIBLE_DEVICES must name it", cuda.ErrNoDevice)

	fake.Memory(10 << 10)
	_, err = OnDevice(small, start, "", false)
	want(err, "out of memory", nil)
	fake.Memory(1 << 40)

	m, err := OnDevice(small, start, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Step(); err != nil {
		t.Fatal(err)
	}
	fake.Fail(3, 700)
	_, err = m.Step()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	code := (*cuda.Error)(nil)
	want(err, "an illegal memory access was encountered", nil)
	if !errors.As(err, &code) || code.Code != 700 {
		t.Errorf("got %#v", err)
	}
}

// TestBadSpecs: what cannot be trained is refused before anything is allocated.
func TestBadSpecs(t *testing.T) {
	for want, change := range map[string]func(s *Spec){
		"Sizes has 1 layers":            func(s *Spec) { s.Sizes = []int{3} },
		"Sizes[1] is 0":                 func(s *Spec) { s.Sizes = []int{3, 0, 2} },
		"at most 268435456 are trained": func(s *Spec) { s.Sizes = []int{1 << 20, 1 << 20, 1 << 20} },
		"Batch is 0":                    func(s *Spec) { s.Batch = 0 },
		"Batches -1":                    func(s *Spec) { s.Batches = -1 },
		"Batch is 1099511627776":        func(s *Spec) { s.Batch = 1 << 40 },
		"Rate is NaN":                   func(s *Spec) { s.Rate = math.NaN() },
	} {
		s := small
		change(&s)
		if _, err := OnCPU(s, small.Start()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := OnCPU(small, Snapshot{}); err == nil || !strings.Contains(err.Error(), "snapshot of step 0 has 0, 0 and 0 numbers") {
		t.Errorf("got %v", err)
	}
}
