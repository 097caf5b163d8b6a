// Command nvrtc compiles CUDA C to PTX with NVIDIA's runtime compiler, which needs no GPU and no driver. The loader has to find
// libnvrtc.so.12 by LD_LIBRARY_PATH. `go generate` runs it: see the head of examples/gpu/mlp/kernels.cu.
//
//	go run -C examples/gpu ./nvrtc mlp/kernels.cu mlp/kernels.ptx
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebitengine/purego"

	"github.com/raysys/raysys/examples/gpu/cuda"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "error: give a source file and the file to write: nvrtc kernels.cu kernels.ptx")
		os.Exit(2)
	}
	if err := compile(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// architecture is the oldest that this compiler writes for: newer GPUs read it too.
const architecture = "--gpu-architecture=compute_50"

func compile(from, to string) error {
	source, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	lib, err := cuda.Load("libnvrtc.so.12")
	if err != nil {
		return fmt.Errorf("load NVIDIA's compiler: %w", err)
	}
	var (
		create   func(program *uintptr, source, name string, headers int32, texts, names *byte) int32
		build    func(program uintptr, options int32, list *string0) int32
		logSize  func(program uintptr, n *uintptr) int32
		log      func(program uintptr, b *byte) int32
		textSize func(program uintptr, n *uintptr) int32
		text     func(program uintptr, b *byte) int32
	)
	for name, f := range map[string]any{
		"nvrtcCreateProgram": &create, "nvrtcCompileProgram": &build, "nvrtcGetProgramLogSize": &logSize, "nvrtcGetProgramLog": &log,
		"nvrtcGetPTXSize": &textSize, "nvrtcGetPTX": &text,
	} {
		at, err := lib.Symbol(name)
		if err != nil {
			return err
		}
		purego.RegisterFunc(f, at)
	}
	var program uintptr
	if r := create(&program, string(source), filepath.Base(from), 0, nil, nil); r != 0 {
		return fmt.Errorf("result %d of the compiler's start", r)
	}
	options := []byte(architecture + "\x00")
	if r := build(program, 1, &string0{&options[0]}); r != 0 {
		said, err := read(program, logSize, log)
		return errors.Join(fmt.Errorf("result %d of the compiler:\n%s", r, said), err)
	}
	ptx, err := read(program, textSize, text)
	if err != nil {
		return err
	}
	return os.WriteFile(to, ptx, 0o644)
}

// string0 is an element of a C array of strings.
type string0 struct{ first *byte }

// read returns what one function has the size of, and the other the bytes.
func read(program uintptr, size func(uintptr, *uintptr) int32, get func(uintptr, *byte) int32) ([]byte, error) {
	var n uintptr
	if r := size(program, &n); r != 0 || n == 0 {
		return nil, fmt.Errorf("result %d of the compiler, which has %d bytes", r, n)
	}
	b := make([]byte, n)
	if r := get(program, &b[0]); r != 0 {
		return nil, fmt.Errorf("result %d of the compiler", r)
	}
	return bytes.TrimRight(b, "\x00"), nil
}
