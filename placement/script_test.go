package placement_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata give into them")

// TestScripts runs testdata/*.txt. A script is blocks with an empty line between them: a block is lines of directives,
// a line "----", and what they answer. "local ID" and "node ID NAME=VALUE..." make the view, which lasts until the next
// of them; "place" asks for a decision and enters it with "commit". Lines with # are comments.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runScript(string(src))
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(src), got); diff != "" {
				t.Errorf("%s (-script +code):\n%s", file, diff)
			}
		})
	}
}

func runScript(src string) (string, error) {
	var out []string
	s := scene{}
	for _, block := range strings.Split(strings.TrimSpace(src), "\n\n") {
		directives, _, asks := strings.Cut(block, "\n----")
		var answer []string
		for _, line := range strings.Split(directives, "\n") {
			text, err := s.directive(line)
			if err != nil {
				return "", fmt.Errorf("%q: %w", line, err)
			}
			answer = append(answer, text...)
		}
		if asks != (answer != nil) {
			return "", fmt.Errorf("block %q: a place, and only it, needs an answer after ----", directives)
		}
		if asks {
			directives += "\n----\n" + strings.Join(answer, "\n")
		}
		out = append(out, directives)
	}
	return strings.Join(out, "\n\n") + "\n", nil
}

type scene struct {
	local raysys.NodeID
	nodes []placement.Node
	open  bool // the view is being written
	view  *placement.View
}

func (s *scene) directive(line string) ([]string, error) {
	words := strings.Fields(line)
	if len(words) == 0 || strings.HasPrefix(line, "#") {
		return nil, nil
	}
	switch words[0] {
	case "local", "node":
		if !s.open {
			s.local, s.nodes, s.open, s.view = "", nil, true, nil
		}
		if words[0] == "local" {
			s.local = raysys.NodeID(words[1])
			return nil, nil
		}
		n, err := parseNode(words[1:])
		s.nodes = append(s.nodes, n)
		return nil, err
	case "place":
		if s.open || s.view == nil {
			s.view, s.open = placement.NewView(s.local, s.nodes), false
		}
		r, commit, err := parseRequest(words[1:])
		if err != nil {
			return nil, err
		}
		return s.place(r, commit), nil
	}
	return nil, errors.New("no such directive")
}

func (s *scene) place(r placement.Request, commit bool) []string {
	d, err := placement.Place(s.view, r)
	reasons := d.Reasons
	first := fmt.Sprintf("%s/%d", d.Node, d.Incarnation)
	if d.Wait > 0 {
		first += fmt.Sprintf(" after %v", d.Wait)
	}
	if err != nil {
		first = "error: " + err.Error()
		var none *placement.NoNodeError
		if errors.As(err, &none) {
			reasons = none.Reasons
		}
	}
	if commit {
		s.view.Placed(r, d)
	}
	out := []string{first}
	for _, line := range reasons {
		out = append(out, "  "+line)
	}
	return out
}

func parseNode(words []string) (placement.Node, error) {
	n := placement.Node{ID: raysys.NodeID(words[0]), Incarnation: 1, Worker: true, Labels: map[string]string{}}
	n.Total.CPU = 4
	taken := raysys.Resources{Custom: map[string]float64{}}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		var err error
		switch name {
		case "incarnation":
			n.Incarnation, err = strconv.ParseUint(value, 10, 64)
		case "cpu":
			n.Total.CPU, err = strconv.ParseFloat(value, 64)
		case "gpu":
			n.Total.GPU, err = strconv.ParseFloat(value, 64)
		case "memory":
			n.Total.Memory, err = strconv.ParseInt(value, 10, 64)
		case "licence":
			var f float64
			f, err = strconv.ParseFloat(value, 64)
			n.Total.Custom = map[string]float64{"licence": f}
		case "device": // of a model, with GiB of memory
			model, gib, _ := strings.Cut(value, ":")
			d := placement.Device{Device: raysys.Device{UUID: w, Model: model}, FreeShare: 1}
			d.Memory, err = strconv.ParseInt(gib, 10, 64)
			d.Memory <<= 30
			d.FreeMemory = d.Memory
			n.Devices, n.Total.GPU = append(n.Devices, d), n.Total.GPU+1
		case "used-cpu":
			taken.CPU, err = strconv.ParseFloat(value, 64)
		case "used-gpu":
			taken.GPU, err = strconv.ParseFloat(value, 64)
		case "queued":
			n.Queued, err = strconv.Atoi(value)
		case "running":
			n.Running, err = strconv.Atoi(value)
		case "grains":
			n.Grains, err = strconv.Atoi(value)
		case "mean":
			n.MeanTask, err = time.ParseDuration(value)
		case "runs":
			table := "," + value + ","
			n.Runs = func(function string) bool { return strings.Contains(table, ","+function+",") }
		case "label":
			key, v, _ := strings.Cut(value, ":")
			n.Labels[key] = v
		case "driver":
			n.Worker = false
		case "suspect":
			n.Suspect = true
		case "joining":
			n.Joining = true
		case "draining":
			n.Draining = true
		default:
			err = errors.New("no such word")
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", w, err)
		}
	}
	n.Free = n.Total
	n.Free.CPU -= taken.CPU
	n.Free.GPU -= taken.GPU
	return n, nil
}

func parseRequest(words []string) (r placement.Request, commit bool, err error) {
	r.Explain = true
	r.Custom = custom
	var options []raysys.Option
	sized := false
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		number := func() (f float64) { f, err = strconv.ParseFloat(value, 64); sized = true; return f }
		switch name {
		case "task":
			r.Kind = placement.Task
		case "grain":
			r.Kind = placement.Grain
		case "fn":
			r.Function = value
		case "key":
			r.Key = value
		case "strategy":
			r.Strategy = raysys.Strategy(value)
		case "seed":
			r.Seed, err = strconv.ParseUint(value, 10, 64)
		case "cpu":
			options = append(options, raysys.CPU(number()))
		case "gpu":
			options = append(options, raysys.GPU(number()))
		case "gpu-model":
			options = append(options, raysys.GPUModel(value))
		case "gpu-gib":
			options = append(options, raysys.GPUMemory(int64(number())<<30))
		case "memory":
			options = append(options, raysys.Memory(int64(number())))
		case "licence":
			options = append(options, raysys.Resource("licence", number()))
		case "seat":
			options = append(options, raysys.Resource("seat", number()))
		case "label":
			key, v, _ := strings.Cut(value, ":")
			options = append(options, raysys.Label(key, v))
		case "on", "not-on", "prefer-on", "prefer-not-on":
			c := placement.Condition{Not: strings.Contains(name, "not"), Soft: strings.Contains(name, "prefer")}
			for _, id := range strings.Split(value, "|") {
				c.Nodes = append(c.Nodes, raysys.NodeID(id))
			}
			r.Conditions = append(r.Conditions, c)
		case "with", "without", "prefer-with", "prefer-without":
			key, v, valued := strings.Cut(value, ":")
			c := placement.Condition{Label: key, Not: strings.Contains(name, "out"), Soft: strings.Contains(name, "prefer")}
			if valued {
				c.Values = strings.Split(v, "|")
			}
			r.Conditions = append(r.Conditions, c)
		case "where": // a grain is
			id, at, _ := strings.Cut(value, ":")
			c := placement.Condition{About: "grain " + id + " is"}
			if at != "" {
				c.Nodes = []raysys.NodeID{raysys.NodeID(at)}
			}
			r.Conditions = append(r.Conditions, c)
		case "from":
			r.From = raysys.NodeID(value)
		case "avoid":
			for _, id := range strings.Split(value, ",") {
				r.Avoid = append(r.Avoid, raysys.NodeID(id))
			}
		case "now":
			r.Now = true
		case "commit":
			commit = true
		case "quiet":
			r.Explain = false
		default:
			err = errors.New("no such word")
		}
		if err != nil {
			return r, commit, fmt.Errorf("%s: %w", w, err)
		}
	}
	o := core.NewOptions(append([]raysys.Option{raysys.CPU(0)}, options...))
	r.Needs, r.Labels = raysys.Resources(o.Resources), o.Labels
	if r.Kind == placement.Task && !sized {
		r.Needs.CPU = 1
	}
	return r, commit, o.Err
}

var custom = map[raysys.Strategy]placement.Strategy{
	"last":    func(_ placement.Request, nodes []*placement.Node) int { return len(nodes) - 1 },
	"nowhere": func(placement.Request, []*placement.Node) int { return -1 },
	"beyond":  func(_ placement.Request, nodes []*placement.Node) int { return len(nodes) },
	"wild":    func(placement.Request, []*placement.Node) int { panic("lost my way") },
	"meddler": func(_ placement.Request, nodes []*placement.Node) int { nodes[0].Grains = 1000; return 0 },
}
