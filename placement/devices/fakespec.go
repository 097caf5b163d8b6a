package devices

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fakeModel is a model that can be made up, with what NVML says of it.
type fakeModel struct {
	name   string
	memory int64
	links  int // NVLinks to a switch that all GPUs of the host share; 0: it has none
}

const gib = 1 << 30

var fakeModels = map[string]fakeModel{
	"t4":   {"Tesla T4", 15 * gib, 0},
	"l4":   {"NVIDIA L4", 23034 << 20, 0},
	"v100": {"Tesla V100-SXM2-16GB", 16 * gib, 0},
	"a100": {"NVIDIA A100-SXM4-40GB", 40 * gib, 12},
	"h100": {"NVIDIA H100 80GB HBM3", 81559 << 20, 18},
	"h200": {"NVIDIA H200", 143771 << 20, 18},
	"b200": {"NVIDIA B200", 183359 << 20, 18},
}

// fakeMachine is a host that can be made up, for its links.
type fakeMachine struct {
	model string
	links [][]int
}

// fakeMachines: dgx1 is a DGX-1 with V100, as `nvidia-smi topo -m` shows it: two squares with diagonals, joined at their
// corners. Each GPU has six links, one or two to each of four others.
var fakeMachines = map[string]fakeMachine{
	"dgx1": {"v100", [][]int{
		{0, 1, 1, 2, 2, 0, 0, 0},
		{1, 0, 2, 1, 0, 2, 0, 0},
		{1, 2, 0, 2, 0, 0, 1, 0},
		{2, 1, 2, 0, 0, 0, 0, 1},
		{2, 0, 0, 0, 0, 1, 1, 2},
		{0, 2, 0, 0, 1, 0, 2, 1},
		{0, 0, 1, 0, 1, 2, 0, 2},
		{0, 0, 0, 1, 2, 1, 2, 0},
	}},
}

// maxFakes is more than any host has.
const maxFakes = 64

// fakeSpec is what a name after "fake:" says.
type fakeSpec struct {
	model   fakeModel
	count   int
	machine [][]int // links; nil: those of the model
	file    string
}

// parseFake reads MODELxN, MODEL or MACHINE, and the file after @.
func parseFake(text string) (s fakeSpec, err error) {
	name, file, at := strings.Cut(text, "@")
	bad := func(format string, args ...any) (fakeSpec, error) {
		return fakeSpec{}, fmt.Errorf("devices fake:%s: %s: %w", text, fmt.Sprintf(format, args...), ErrBadSpec)
	}
	if at && file == "" {
		return bad("there is no file of faults after @")
	}
	if m, ok := fakeMachines[name]; ok {
		return fakeSpec{model: fakeModels[m.model], count: len(m.links), machine: m.links, file: file}, nil
	}
	model, number, counted := strings.Cut(name, "x")
	m, ok := fakeModels[model]
	if !ok {
		return bad("there is %s, and models %s, such as h100x8", strings.Join(slices.Sorted(maps.Keys(fakeMachines)), ", "), strings.Join(slices.Sorted(maps.Keys(fakeModels)), ", "))
	}
	n := 1
	if counted {
		if n, err = strconv.Atoi(number); err != nil || n < 1 || n > maxFakes {
			return bad("%q is no number from 1 to %d", number, maxFakes)
		}
	}
	return fakeSpec{model: m, count: n, file: file}, nil
}

// links are those of a GPU to each other.
func (s fakeSpec) links(gpu int) []int {
	if s.machine != nil {
		return s.machine[gpu]
	}
	row := slices.Repeat([]int{s.model.links}, s.count)
	row[gpu] = 0
	return row
}
