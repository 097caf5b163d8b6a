package cudatest

import (
	"cmp"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/raysys/raysys/examples/gpu/cuda"
)

//go:embed testdata/*.c testdata/*.h
var sources embed.FS

// Build makes the libraries in a folder of the test, for a child process that has it in LD_LIBRARY_PATH, with what the compiler
// is to define: OLD, or nothing. It returns "" where there is no C compiler, and says what is not tested then.
func Build(t testing.TB, defines ...string) (folder string) {
	t.Helper()
	cc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	if err != nil {
		t.Logf("what runs on a GPU is not tested: there is no C compiler to build a library for tests: %v", err)
		return ""
	}
	folder = t.TempDir()
	if err := build(cc, folder, defines); err != nil {
		t.Fatal(err)
	}
	return folder
}

func build(cc, folder string, defines []string) error {
	list, err := sources.ReadDir("testdata")
	if err != nil {
		return err
	}
	for _, f := range list {
		b, err := sources.ReadFile("testdata/" + f.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, f.Name()), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for name, parts := range map[string][]string{"libcuda.so.1": {"libcuda.c", "ptx.c"}, "libcublas.so.12": {"libcublas.c"}} {
		args := []string{"-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC", "-o", name, "-Wl,-soname," + name}
		for _, d := range defines {
			args = append(args, "-D"+d)
		}
		cmd := exec.Command(cc, append(append(args, parts...), "-lm", "-lpthread")...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// Fake is the libraries in this process: whoever opens libcuda.so.1 and libcublas.so.12 has them.
type Fake struct {
	Launches func() int64 // of kernels, so far
	Used     func() int64 // bytes that are allocated
	Retained func() int32 // contexts
	GEMMs    func() int64 // matrices that cuBLAS multiplied
	Memory   func(bytes int64)
	// Fail has the n-th launch from now on fail, with a result that every later call of that device returns until nobody uses
	// it any more.
	Fail func(n int64, code int32)
}

var loaded struct {
	once sync.Once
	fake *Fake
	err  error
}

// UUID is that of the first of the two devices of Open's library; the second ends with 2.
const UUID = "GPU-01234567-89ab-cdef-0123-000000000001"

// Open loads them into this process, for its life. Nil: there is no C compiler, and the test says what is not tested.
func Open(t testing.TB) *Fake {
	t.Helper()
	loaded.once.Do(func() {
		if folder := Build(t); folder != "" {
			loaded.fake, loaded.err = open(folder)
		}
	})
	if loaded.err != nil {
		t.Fatal(loaded.err)
	}
	return loaded.fake
}

func open(folder string) (*Fake, error) {
	f := new(Fake)
	for name, functions := range map[string]map[string]any{
		"libcuda.so.1": {
			"fake_launches": &f.Launches, "fake_used": &f.Used, "fake_retained": &f.Retained, "fake_memory": &f.Memory, "fake_fail": &f.Fail,
		},
		"libcublas.so.12": {"fake_gemms": &f.GEMMs},
	} {
		lib, err := cuda.Load(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for symbol, into := range functions {
			at, err := lib.Symbol(symbol)
			if err != nil {
				return nil, err
			}
			purego.RegisterFunc(into, at)
		}
		if name == "libcuda.so.1" {
			var devices func(list string) int32
			at, err := lib.Symbol("fake_devices")
			if err != nil {
				return nil, err
			}
			purego.RegisterFunc(&devices, at)
			devices(UUID + "," + strings.TrimSuffix(UUID, "1") + "2")
		}
	}
	return f, nil
}
