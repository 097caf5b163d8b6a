package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLocalDivides: the nodes of raysys local together offer no more than the host has, but for what is set for each.
func TestLocalDivides(t *testing.T) {
	const memory = 300 << 20
	for _, c := range []struct {
		name  string
		nodes int
		set   map[string]string
		want  []string
	}{
		{"three", 3, nil, []string{
			"CPU=2 OBJECT_MEMORY=20% MEMORY=41943040 MEMORY_LIMIT=104857600", "CPU=2 OBJECT_MEMORY=20% MEMORY=41943040 MEMORY_LIMIT=104857600 GPUS=none",
			"CPU=2 OBJECT_MEMORY=20% MEMORY=41943040 MEMORY_LIMIT=104857600 GPUS=none",
		}},
		{"one", 1, nil, []string{"CPU=2 OBJECT_MEMORY=30% MEMORY=220200960 MEMORY_LIMIT=314572800"}},
		{"values are set", 2, map[string]string{"RAYSYS_OBJECT_MEMORY": "5KB", "RAYSYS_MEMORY_LIMIT": "off"}, []string{"CPU=2 MEMORY=157281400", "CPU=2 MEMORY=157281400 GPUS=none"}},
		{"values take all", 2, map[string]string{"RAYSYS_OBJECT_MEMORY": "60%", "RAYSYS_MEMORY_LIMIT": "50%"}, []string{"CPU=2 MEMORY=1", "CPU=2 MEMORY=1 GPUS=none"}},
		{"memory is set", 2, map[string]string{"RAYSYS_MEMORY": "7", "RAYSYS_MEMORY_LIMIT": "50%"}, []string{"CPU=2 OBJECT_MEMORY=30%", "CPU=2 OBJECT_MEMORY=30% GPUS=none"}},
		{"GPUs are set", 2, map[string]string{"RAYSYS_GPUS": "fake:h100x8", "RAYSYS_MEMORY_LIMIT": "50%"}, []string{"CPU=2 OBJECT_MEMORY=30% MEMORY=62914560", "CPU=2 OBJECT_MEMORY=30% MEMORY=62914560"}},
		{"a number of GPUs", 5, map[string]string{"RAYSYS_GPU": "1", "RAYSYS_MEMORY": "7"}, slices.Repeat([]string{"CPU=2 OBJECT_MEMORY=12% MEMORY_LIMIT=67108864"}, 5)},
	} {
		f := localFlags{nodes: c.nodes, cpu: "2"}
		var got []string
		for i := range c.nodes {
			env := f.part(i, memory, func(name string) string { return c.set[name] })
			got = append(got, strings.ReplaceAll(strings.Join(env, " "), "RAYSYS_", ""))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestLocalWithoutNATS: a server that is nowhere turns streams off, and one that was asked for must be there.
func TestLocalWithoutNATS(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	t.Setenv("RAYSYS_NATS_PROGRAM", "")
	path, off, err := (&localFlags{}).natsProgram()
	if err != nil || path != "" || !strings.Contains(off, "go run github.com/raysys/raysys/testkit/nats -o bin/nats-server") {
		t.Errorf("%q, %q, %v", path, off, err)
	}
	if path, off, err := (&localFlags{nats: "nats-server"}).natsProgram(); err == nil || !strings.Contains(err.Error(), "--nats-program nats-server cannot be used") {
		t.Errorf("%q, %q, %v", path, off, err)
	}
}
