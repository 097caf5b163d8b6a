package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/examples/gpu/cuda"
	"github.com/raysys/raysys/examples/gpu/cudatest"
)

// childVariable makes this program one that opens the library and writes what that says.
const childVariable = "CUDA_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	d, err := cuda.Open()
	if err != nil {
		fmt.Printf("%v %v %v", errors.Is(err, cuda.ErrNoDriver), errors.Is(err, cuda.ErrNoDevice), err)
		return
	}
	list, err := d.Devices()
	fmt.Println(list, err)
}

// opened is what a process with the library of that folder, and this environment, says.
func opened(t *testing.T, folder string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childVariable+"=1", "LD_LIBRARY_PATH="+folder, "GORACE=atexit_sleep_ms=0"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the process that opens the library: %v\n%s", err, out)
	}
	return string(out)
}

// TestOpen: a driver that is missing, too old or without a GPU is an error of its own, and ends no process.
func TestOpen(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "libcuda.so.1"), []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := opened(t, broken); !strings.HasPrefix(got, "true false no NVIDIA driver: ") || !strings.Contains(got, "install the driver") {
		t.Errorf("a library that cannot be loaded: %s", got)
	}
	full := cudatest.Build(t)
	if full == "" {
		return
	}
	for _, c := range []struct {
		folder, env, want string
	}{
		{cudatest.Build(t, "OLD"), "", "true false no NVIDIA driver that can be used: libcuda.so.1 has no cuMemAlloc_v2"},
		{full, "FAKE_CUDA_INIT=100", "false true cuInit: result 100, no CUDA-capable device is detected"},
		{full, "FAKE_CUDA_INIT=803", "false false cuInit: result 803"},
		{full, "FAKE_CUDA_UUIDS=", "false true cuInit: result 100"},
		{full, "FAKE_CUDA_UUIDS=" + cudatest.UUID, "[{" + cudatest.UUID + " Test GPU 0 "},
	} {
		if got := opened(t, c.folder, c.env); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.env, got, c.want)
		}
	}
}

// begin is the use of the first device of the library for tests; nil where there is no compiler.
func begin(t *testing.T) *cuda.Context {
	t.Helper()
	if cudatest.Open(t) == nil {
		return nil
	}
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := d.Version(); v != "12.4" || err != nil {
		t.Errorf("version %s, %v", v, err)
	}
	c, err := d.Use(cudatest.UUID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// double is a kernel by hand: out[i] = 2 in[i] + add, of the first n.
const double = `.version 8.0
.target sm_50
.address_size 64
.visible .entry double(
	.param .u64 double_param_0,
	.param .u64 double_param_1,
	.param .u32 double_param_2,
	.param .f32 double_param_3
)
{
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [double_param_0];
	ld.param.u64 %rd2, [double_param_1];
	ld.param.u32 %r1, [double_param_2];
	ld.param.f32 %f1, [double_param_3];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.s32 %p1, %r5, %r1;
	@%p1 bra $end;
	mul.wide.s32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.f32 %f2, [%rd4];
	fma.rn.f32 %f3, %f2, 0f40000000, %f1;
	add.s64 %rd5, %rd1, %rd3;
	st.global.f32 [%rd5], %f3;
$end:
	ret;
}
`

// TestLaunch: a kernel has its arguments, and what it wrote comes back.
func TestLaunch(t *testing.T) {
	c := begin(t)
	if c == nil {
		return
	}
	const n = 100
	in, out := make([]float32, n), make([]float32, n)
	for i := range in {
		in[i] = float32(i)
	}
	if err := c.Do(func() error {
		m, err := c.Load([]byte(double))
		if err != nil {
			return err
		}
		k, err := m.Kernel("double")
		if err != nil {
			return err
		}
		from, err := c.Alloc(n)
		if err != nil {
			return err
		}
		to, err := c.Alloc(n + 1)
		if err != nil {
			return err
		}
		if to.Len() != n+1 || to.Part(3, 5).Len() != 5 {
			t.Errorf("lengths %d and %d", to.Len(), to.Part(3, 5).Len())
		}
		one := cuda.Size{X: 32, Y: 1, Z: 1}
		for text, args := range map[string][]any{"argument 1 is a string": {to, "x"}, "argument 0 is 8589934592": {1 << 33}, "17 arguments": make([]any, 17)} {
			if err := k.Launch(one, one, args...); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %q", err, text)
			}
		}
		if err := k.Launch(cuda.Size{}, one, to, from, n, float32(1)); err == nil || !strings.Contains(err.Error(), "kernel double: cuLaunchKernel: result 1") {
			t.Errorf("a grid of nothing: %v", err)
		}
		return errors.Join(
			c.Upload(from, in), k.Launch(cuda.Size{X: 4, Y: 1, Z: 1}, one, to.Part(1, n), from, n, float32(0.5)), c.Download(out, to.Part(1, n)),
			c.Free(from), c.Free(to), m.Unload(),
		)
	}); err != nil {
		t.Fatal(err)
	}
	for i, x := range out {
		if x != 2*float32(i)+0.5 {
			t.Fatalf("element %d is %g", i, x)
		}
	}
}

// TestRefused: what the driver refuses is an error with the call and the driver's words.
func TestRefused(t *testing.T) {
	c := begin(t)
	if c == nil {
		return
	}
	want := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	_, err := c.Alloc(1)
	want(err, "cuMemAlloc: result 201, invalid device context") // outside of Do
	if err := c.Do(func() error {
		_, err := c.Alloc(0)
		want(err, "allocate 0 float32s: give 1 or more")
		_, err = c.Alloc(1 << 39)
		want(err, "out of memory")
		_, err = c.Load([]byte(strings.Replace(double, "mad.lo", "mad.nonsense", 1)))
		want(err, "cuModuleLoadData: result 218")
		m, err := c.Load([]byte(double))
		if err != nil {
			return err
		}
		_, err = m.Kernel("triple")
		want(err, "kernel triple: cuModuleGetFunction: result 500")
		v, err := c.Alloc(2)
		if err != nil {
			return err
		}
		want(c.Upload(v, make([]float32, 3)), "upload 3 float32s to room for 2")
		want(c.Download(make([]float32, 3), v), "download 3 float32s of 2")
		want(c.Download(nil, v), "download 0 float32s of 2")
		return errors.Join(c.Free(v), c.Free(cuda.Memory{}), m.Unload())
	}); err != nil {
		t.Error(err)
	}
}
