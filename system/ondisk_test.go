package system_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// alone starts a node without a cluster over a data directory, and returns its context and its end.
func alone(t *testing.T, data string) (context.Context, func()) {
	t.Helper()
	n, err := system.New(system.Config{Table: raysys.NewTable(), Data: data, Namespace: "test", Objects: system.ObjectConfig{Disk: 1 << 30}})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n.Context(t.Context()), func() {
		t.Helper()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// onDiskIn lists the files of objects below a data directory.
func onDiskIn(t *testing.T, data string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(data, "objects", "*", "*.obj"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestOnDiskAlone: what a process without a cluster put on disk is there in the next one over the same directory.
func TestOnDiskAlone(t *testing.T) {
	data := t.TempDir()
	put := func(ctx context.Context, name string, seed byte, more ...raysys.PutOption) {
		t.Helper()
		r := raysys.Put(ctx, fill(1<<20, seed), append(more, raysys.Named(name))...)
		if _, err := r.Get(ctx); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	has := func(ctx context.Context, name string, seed byte) {
		t.Helper()
		if b, err := raysys.Lookup[[]byte](ctx, name).Get(ctx); err != nil || !bytes.Equal(b, fill(1<<20, seed)) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	free := func(ctx context.Context, name string) {
		t.Helper()
		if _, err := raysys.Lookup[[]byte](ctx, name).Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, end := alone(t, data)
	for i, name := range []string{"kept", "forgotten", "replaced", "in memory again"} {
		put(ctx, name, byte(i), raysys.OnDisk())
	}
	put(ctx, "memory", 9)
	put(ctx, "replaced", 7, raysys.OnDisk())
	put(ctx, "in memory again", 8)
	if err := raysys.Forget(ctx, "forgotten"); err != nil {
		t.Fatal(err)
	}
	has(ctx, "kept", 0)
	end()
	if files := onDiskIn(t, data); len(files) != 2 {
		t.Errorf("files after the first process: %v", files)
	}

	for range 2 { // adopted files are found again too
		ctx, end = alone(t, data)
		has(ctx, "kept", 0)
		has(ctx, "kept", 0)
		has(ctx, "replaced", 7)
		for _, name := range []string{"forgotten", "memory", "in memory again"} {
			free(ctx, name)
		}
		end()
	}

	// A damaged file is an error that names it; Forget takes the name away all the same.
	damaged := map[string]string{}
	for _, f := range onDiskIn(t, data) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := "kept"
		if bytes.HasSuffix(b, fill(1<<20, 7)) {
			name = "replaced"
			b[len(b)-1000] ^= 1
		} else {
			b = b[:1000]
		}
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
		damaged[name] = filepath.Base(f)[:20]
	}
	ctx, end = alone(t, data)
	for name, file := range damaged {
		if _, err := raysys.Lookup[[]byte](ctx, name).Get(ctx); !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s, whose file is damaged: %v, which does not name %s", name, err, file)
		}
	}
	if err := errors.Join(raysys.Forget(ctx, "replaced"), raysys.Forget(ctx, "kept")); err != nil {
		t.Error(err)
	}
	free(ctx, "kept")
	free(ctx, "replaced")
	if files := onDiskIn(t, data); len(files) != 0 {
		t.Errorf("files after Forget: %v", files)
	}
	put(ctx, "kept", 5, raysys.OnDisk())
	has(ctx, "kept", 5)
	end()
}

// TestOnDiskWithoutData: a process whose names end with it keeps nothing on disk.
func TestOnDiskWithoutData(t *testing.T) {
	ctx, end := alone(t, "")
	defer end()
	if _, err := raysys.Put(ctx, fill(1<<20, 1), raysys.Named("x"), raysys.OnDisk()).Get(ctx); !errors.Is(err, raysys.ErrNoStore) || !strings.Contains(err.Error(), "RAYSYS_DATA") {
		t.Errorf("%v", err)
	}
	if _, err := raysys.Lookup[[]byte](ctx, "x").Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("the name was taken by a Put that failed: %v", err)
	}
}
