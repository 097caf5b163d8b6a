package arch_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/raysys/raysys"

// tree is the module's root, seen from this package's folder, where go test runs.
var tree = os.DirFS("../..")

func words(s string) []string { return strings.Fields(s) }

// match reports whether a path is the pattern, or below it where the pattern ends in "/...".
func match(pattern, p string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return p == base || below && strings.HasPrefix(p, base+"/")
}

func matchAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, p) })
}

// relative returns the path of an import inside the module, and whether it lies there.
func relative(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return imported != "C" && !strings.Contains(first, ".")
}

// offence returns why pkg, a path inside the module, must not import imported; "" when it may.
func offence(pkg, imported string) string {
	i := slices.IndexFunc(layers, func(l layer) bool { return match(l.pkg, pkg) })
	if i < 0 {
		return "package " + pkg + " is not in the layout (layout_test.go)"
	}
	l := layers[i]
	inside, own := relative(imported)
	switch {
	case slices.Contains(l.may, "any"):
	case own && matchAny(l.may, inside):
	case !own && standard(imported) && slices.Contains(l.may, "std"):
	case !own && !standard(imported) && (slices.Contains(l.may, "third") || matchAny(l.may, imported)):
	default:
		return l.pkg + " may import only " + strings.Join(l.may, " ") + ": " + l.why
	}
	for _, f := range fences {
		if match(f.dependency, imported) && !matchAny(f.only, pkg) {
			return f.dependency + " belongs only in " + strings.Join(f.only, " ") + ": " + f.why
		}
	}
	return ""
}

// foreign reports whether the folder is the root of a module whose path does not say that it lies here. One whose path
// does, such as examples/gpu, keeps the rules of this module.
func foreign(fsys fs.FS, folder string) bool {
	b, err := fs.ReadFile(fsys, path.Join(folder, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return first != "module "+module+"/"+folder
}

// goFiles visits the Go files below the root of fsys. With nested it enters foreign modules and testdata too.
func goFiles(fsys fs.FS, nested bool, visit func(name string, src []byte) error) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name == "." {
				return nil
			}
			if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || name == "bin" {
				return fs.SkipDir
			}
			if !nested && (base == "testdata" || base == "vendor" || foreign(fsys, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || !d.Type().IsRegular() {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		return visit(name, src)
	})
}

// imports returns a line for every forbidden direct import of a non-test file.
func imports(fsys fs.FS) (bad []string, files int, err error) {
	err = goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			if why := offence(path.Dir(name), imported); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", set.Position(spec.Pos()), imported, why))
			}
		}
		return nil
	})
	return bad, files, err
}

func TestImports(t *testing.T) {
	bad, files, err := imports(tree)
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Fatalf("found %d files: the walk misses the module", files)
	}
	for _, line := range bad {
		t.Error(line)
	}
}

// TestOffence proves that the table forbids what it is there to forbid: every layer and every fence at least once.
func TestOffence(t *testing.T) {
	cases := []struct {
		pkg, imported string
		ok            bool
	}{
		{".", "context", true},
		{".", "unsafe", true},
		{".", "C", false},
		{".", "golang.org/x/sync/errgroup", false},
		{".", "<internal/wheel", false},
		{".", "<internal/core", true},
		{"internal/core", "context", true},
		{"internal/core", "<.", false},
		{"internal/core", "github.com/asynkron/protoactor-go/actor", false},
		{"tasks", "<internal/core", true},
		{"tasks", "<grains", false},
		{"tasks/generator", "<grains", true},
		{"tasks/generator", "<internal/taskengine", false},
		{"grains/process", "<internal/subprocess", true},
		{"grains/process", "<internal/grainengine", false},
		{"grains/replay", "<internal/codec", true},
		{"grains/feed", "<internal/items", true},
		{"grains/feed", "<internal/grainengine", false},
		{"grains/queue", "<internal/items", true},
		{"grains/queue", "<internal/codec", false},
		{"grains/limit", "<internal/tally", true},
		{"grains/limit", "<internal/grainengine", false},
		{"internal/backoff", "<internal/core", false},
		{"internal/backoff", "context", true},
		{"internal/items", "<internal/codec", true},
		{"internal/items", "<grains", false},
		{"grains/replay", "<internal/grainengine", false},
		{"rl/net", "gonum.org/v1/gonum/blas/blas32", true},
		{"rl/net", "github.com/google/uuid", false},
		{"rl/net", "<.", false},
		{"examples/web", "<internal/core", false},
		{"internal/codec", "<.", true},
		{"internal/codec", "github.com/fxamacker/cbor/v2", true},
		{"internal/codec", "<internal/wheel", false},
		{"internal/codec", "<tasks", false},
		{"internal/wheel", "<.", true},
		{"internal/wheel", "<system", false},
		{"internal/queue", "<grains", false},
		{"internal/goroutines", "<grains", false},
		{"internal/crc32c", "<.", false},
		{"internal/forwarding", "<internal/core", false},
		{"docs/guide", "<internal/core", false},
		{"tools/benchbuild", "<internal/core", false},
		{"tools/benchold", "<internal/core", false},
		{"tools/internal/figures", "<.", false},
		{"tools/internal/countload", "<grains", false},
		{"tools/benchdurable", "<internal/core", false},
		{"tools/benchdurable", "github.com/dbos-inc/dbos-transact-golang/dbos", true},
		{"system", "github.com/dbos-inc/dbos-transact-golang/dbos", false},
		{"tools/benchdurable", "github.com/restatedev/sdk-go", true},
		{"system", "github.com/restatedev/sdk-go", false},
		{"tools/benchmpi", "<internal/core", false},
		{"tools/benchmpi", "<grains/collective", true},
		{"tools/benchnats", "<internal/core", false},
		{"tools/benchnats", "github.com/nats-io/nats.go/jetstream", true},
		{"tools/benchreverb", "<internal/core", false},
		{"tools/benchreverb", "<grains/replay", true},
		{"tools/benchrl", "<internal/core", false},
		{"tools/benchrl", "<rl/ppo", true},
		{"tools/testenvs", "<rl", false},
		{"tools/testenvs", "<grains/process", true},
		{"tools/benchproto", "<internal/core", false},
		{"tools/benchproto", "<system/protoactor", true},
		{"tools/benchproto", "github.com/asynkron/protoactor-go/remote", true},
		{"tools/benchproto", "github.com/hashicorp/consul/api", false},
		{"internal/ledger", "<internal/taskengine", false},
		{"internal/ordered", "<store", false},
		{"internal/shardlog", "<internal/registry", false},
		{"internal/wire", "<grains", false},
		{"internal/graindir", "<internal/grainengine", false},
		{"internal/runqueue", "<internal/taskengine", false},
		{"internal/tally", "<internal/core", true},
		{"internal/tally", "<internal/taskengine", false},
		{"internal/timeline", "<internal/core", true},
		{"internal/timeline", "<internal/tally", false},
		{"internal/detour", "<internal/taskengine", false},
		{"internal/taskwire", "<internal/taskengine", false},
		{"internal/loadreport", "<internal/taskengine", false},
		{"internal/entries", "<internal/staterecord", true},
		{"internal/entries", "<internal/grainengine", false},
		{"internal/replies", "<internal/graindir", true},
		{"internal/replies", "<internal/grainengine", false},
		{"internal/outbox", "<internal/graindir", true},
		{"internal/outbox", "<internal/grainengine", false},
		{"internal/staterecord", "<internal/grainengine", false},
		{"internal/registry", "<internal/graindir", true},
		{"internal/registry", "<internal/grainengine", false},
		{"internal/objects", "<internal/graindir", true},
		{"internal/objects", "<internal/grainengine", false},
		{"grains", "<.", true},
		{"grains", "<internal/grainengine", true},
		{"grains", "<internal/wheel", false},
		{"grains", "<internal/nodetest", false},
		{"grains", "<tasks", false},
		{"grains", "<store/consul", false},
		{"grains", "<placement", false},
		{"grains", "<system", false},
		{"grains", "github.com/asynkron/protoactor-go/actor", false},
		{"internal/grainengine", "<internal/codec", true},
		{"internal/grainengine", "<internal/goroutines", true},
		{"internal/grainengine", "<internal/graindir", true},
		{"internal/taskengine", "<internal/graindir", false},
		{"internal/grainengine", "github.com/asynkron/protoactor-go/actor", true},
		{"internal/grainengine", "<grains", false},
		{"internal/grainengine", "<internal/taskengine", false},
		{"internal/grainengine", "<system", false},
		{"grains/inner", "<grains", true},
		{"grainsandmore", "<.", false},
		{"tasks", "<grains", false},
		{"tasks", "<internal/taskengine", true},
		{"tasks", "<internal/codec", false},
		{"tasks", "github.com/asynkron/protoactor-go/actor", false},
		{"internal/taskengine", "<internal/codec", true},
		{"internal/taskengine", "github.com/asynkron/protoactor-go/actor", true},
		{"internal/taskengine", "go.uber.org/zap", false},
		{"internal/taskengine", "<tasks", false},
		{"internal/taskengine", "<grains", false},
		{"internal/taskengine", "<internal/grainengine", false},
		{"internal/taskengine", "<system", false},
		{"grains", "<internal/taskengine", false},
		{"store", "<tasks", false},
		{"groups", "<placement", true},
		{"groups", "<tasks", false},
		{"internal/groupengine", "<store", true},
		{"internal/groupengine", "<internal/registry", false},
		{"store", "github.com/asynkron/protoactor-go/actor", false},
		{"store", "github.com/hashicorp/consul/api", false},
		{"store/consul", "github.com/hashicorp/consul/api", true},
		{"store/consul", "<store", true},
		{"placement", "<store", false},
		{"placement", "github.com/NVIDIA/go-nvml/pkg/nvml", false},
		{"placement/nvml", "github.com/NVIDIA/go-nvml/pkg/nvml", true},
		{"placement/nvml", "C", true},
		{"system", "<grains", true},
		{"placement/nvml", "<placement/devices", true},
		{"system", "<placement/devices", true},
		{"system", "<placement/nvml", false},
		{"system", "github.com/NVIDIA/go-nvml/pkg/nvml", false},
		{"system", "github.com/ebitengine/purego", false},
		{"internal/taskengine", "github.com/ebitengine/purego", false},
		{"testkit", "<placement/nvml", false},
		{"cmd/raysys", "<placement/nvml", true},
		{"examples/gpu", "<placement/nvml", true},
		{"examples/gpu/cuda", "github.com/ebitengine/purego", true},
		{"examples/hetero", "github.com/ebitengine/purego", false},
		{"system", "<testkit", false},
		{"system/protoactor", "<system", true},
		{"system/protoactor", "<internal/mesh", false},
		{"system", "<cmd/raysys", false},
		{"system", "go.uber.org/zap", true},
		{"system", "github.com/nats-io/nats.go", false},
		{"stream/internal/jetbus", "github.com/nats-io/nats.go/jetstream", true},
		{"stream", "<internal/mesh", false},
		{"system", "github.com/spf13/cobra", false},
		{"internal/page", "<system", false},
		{"testkit", "github.com/chromedp/chromedp", false},
		{"tools/browser", "github.com/chromedp/chromedp", true},
		{"tools/browser", "<internal/page", false},
		{"door", "<internal/taskengine", true},
		{"door", "<internal/mesh", false},
		{"door", "github.com/google/jsonschema-go/jsonschema", true},
		{"system", "github.com/google/jsonschema-go/jsonschema", false},
		{"system/traces", "go.opentelemetry.io/otel/trace", true},
		{"system/traces", "<internal/mesh", false},
		{"system", "go.opentelemetry.io/otel", false},
		{"door/mcp", "<door", true},
		{"door/mcp", "<internal/core", false},
		{"door/mcp", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"door", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"system", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"door/internal/front", "<door", false},
		{"tools/door", "<internal/core", false},
		{"tools/door", "github.com/getkin/kin-openapi/openapi3", true},
		{"cmd/raysys", "github.com/getkin/kin-openapi/openapi3", false},
		{"internal/jsonfit", "<internal/core", false},
		{"internal/thishost", "<internal/page", false},
		{"tools/deploy", "k8s.io/api/apps/v1", false},
		{"internal/page", "<internal/operate", true},
		{"internal/metrics", "<internal/operate", false},
		{"internal/metrics", "github.com/prometheus/client_golang/prometheus", true},
		{"internal/operate", "github.com/prometheus/client_golang/prometheus", false},
		{"internal/inherited", "<.", false},
		{"placement/devices", "<internal/inherited", true},
		{"internal/pipe", "<.", false},
		{"internal/printable", "<.", false},
		{"internal/ownfiles", "<.", false},
		{"internal/childserver", "<internal/subprocess", true},
		{"internal/childserver", "<system", false},
		{"internal/link", "<internal/wire", true},
		{"internal/wire", "<internal/link", false},
		{"internal/link", "<internal/linktest", false},
		{"internal/linktest", "<internal/link", true},
		{"internal/linktest", "<system", false},
		{"internal/mesh", "<internal/wire", true},
		{"internal/mesh", "<store", false},
		{"internal/mesh", "<internal/transfer", false},
		{"internal/mesh", "go.uber.org/zap", true},
		{"internal/objects", "<internal/registry", true},
		{"internal/objects", "<internal/taskengine", false},
		{"internal/objects", "<system", false},
		{"internal/objects", "go.uber.org/zap", true},
		{"internal/refs", "<internal/mesh", true},
		{"internal/refs", "<internal/objectstore", false},
		{"internal/refs", "<placement", false},
		{"internal/refs", "go.uber.org/zap", false},
		{"internal/lineage", "<internal/registry", true},
		{"internal/lineage", "<internal/objects", false},
		{"internal/registry", "<store", true},
		{"internal/registry", "<internal/mesh", true},
		{"internal/registry", "github.com/asynkron/protoactor-go/actor", true},
		{"internal/registry", "<internal/objectstore", false},
		{"internal/registry", "go.uber.org/zap", false},
		{"internal/nodelog", "go.uber.org/zap/zapcore", true},
		{"internal/nodelog", "<system", false},
		{"internal/nodedevices", "<placement/devices", true},
		{"internal/nodedevices", "<internal/taskengine", false},
		{"internal/worklog", "<internal/nodelog", true},
		{"internal/worklog", "<internal/mesh", false},
		{"internal/operate", "<inspect", true},
		{"internal/operate", "<system", false},
		{"internal/placing", "<internal/taskengine", true},
		{"internal/placing", "<internal/operate", false},
		{"internal/node", "<internal/placing", true},
		{"internal/node", "<internal/operate", false},
		{"internal/node", "<internal/balance", true},
		{"internal/balance", "<internal/grainengine", false},
		{"internal/remote", "<internal/mesh", true},
		{"internal/remote", "<internal/node", false},
		{"internal/tlsfiles", "<internal/link", true},
		{"internal/tlsfiles", "<internal/member", false},
		{"internal/waitcycles", "<internal/refs", true},
		{"internal/waitcycles", "<internal/taskengine", false},
		{"inspect", "<placement", true},
		{"inspect", "<system", false},
		{"progress", "<internal/nodelog", true},
		{"progress", "<system", false},
		{"internal/runner", "<internal/core", true},
		{"internal/runner", "<internal/link", false},
		{"rl", "<internal/core", false},
		{"rl/dqn", "<internal/codec", false},
		{"rl/dqn", "<grains/replay", true},
		{"rl/dqn", "<rl/net", true},
		{"rl/envs", "<rl", true},
		{"rl/internal/descent", "<rl", false},
		{"rl/internal/plot", "<rl", false},
		{"rl/internal/events", "<rl", false},
		{"rl/net", "gonum.org/v1/gonum/blas/blas32", true},
		{"rl/net", "gonum.org/v2/gonum/blas/blas32", false},
		{"rl/ppo", "<testkit", false},
		{"testkit", "<rl/envs", false},
		{"testkit", "<internal/linktest", true},
		{"system", "<internal/linktest", false},
		{"internal/link", "golang.org/x/sys/unix", true},
		{"internal/member", "<store", true},
		{"internal/member", "<internal/link", false},
		{"internal/objectstore", "<internal/crc32c", true},
		{"internal/objectstore", "<internal/hostmemory", true},
		{"internal/hostmemory", "<internal/objectstore", false},
		{"internal/pressure", "<internal/loadreport", true},
		{"internal/pressure", "<internal/grainengine", false},
		{"internal/operate", "<internal/pressure", true},
		{"internal/objectstore", "<internal/link", false},
		{"internal/transfer", "<internal/objectstore", true},
		{"internal/transfer", "<internal/link", false},
		{"internal/taskengine", "github.com/nats-io/nats-server/v2/server", false},
		{"internal/nodetest", "<system", true},
		{"internal/nodetest", "<testkit", false},
		{"internal/nodetest", "github.com/asynkron/protoactor-go/actor", false},
		{"testkit", "<system", true},
		{"testkit", "<internal/codec", true},
		{"testkit", "<examples/cartpole", false},
		{"testkit", "go.uber.org/zap/zapcore", false},
		{"examples/quickstart", "<system", true},
		{"examples/quickstart", "<internal/codec", false},
		{"examples/acme", "<rl/dqn", true},
		{"examples/acme", "<internal/long", false},
		{"examples/cartpole", "<rl/ppo", true},
		{"examples/cartpole", "gonum.org/v1/gonum/mat", true},
		{"examples/cartpole", "<cmd/raysys", false},
		{"examples/web", "github.com/asynkron/protoactor-go/actor", false},
		{"cmd/raysys", "<examples/cartpole/demo", true},
		{"cmd/raysys", "<testkit", false},
		{"cmd/raysys-lab", "<testkit", true},
		{"cmd/raysys", "github.com/spf13/cobra", true},
		{"cmd/raysys", "github.com/spf13/pflag", true},
		{"system", "github.com/spf13/pflag", false},
		{"cmd/raysys", "go.uber.org/zap", true},
		{"cmd/raysys", "github.com/asynkron/protoactor-go/actor", false},
		{"internal/due", "<internal/wire", true},
		{"internal/due", "<internal/registry", false},
		{"schedule", "<internal/due", true},
		{"schedule", "<internal/registry", false},
		{"schedule", "github.com/netresearch/go-cron", true},
		{"system", "github.com/netresearch/go-cron", false},
		{"grains/internal/gather", "<internal/wire", true},
		{"grains/internal/gather", "<internal/mesh", false},
		{"util", "<.", false},
	}
	refused := map[string]bool{}
	for _, c := range cases {
		imported := c.imported
		if inside, own := strings.CutPrefix(imported, "<"); own { // "<x" is x of this module
			imported = strings.TrimSuffix(module+"/"+inside, "/.")
		}
		why := offence(c.pkg, imported)
		if (why == "") != c.ok {
			t.Errorf("%s imports %s: allowed = %v, want %v (%s)", c.pkg, imported, why == "", c.ok, why)
		}
		for _, l := range layers {
			refused[l.pkg] = refused[l.pkg] || strings.HasPrefix(why, l.pkg+" may import only ")
		}
		for _, f := range fences {
			refused[f.dependency] = refused[f.dependency] || strings.HasPrefix(why, f.dependency+" belongs only ")
		}
	}
	for what, seen := range refused {
		if !seen && what != "cmd/..." { // it may import anything
			t.Errorf("no case shows what the line of %s refuses", what)
		}
	}
}

func TestImportsFindsOffences(t *testing.T) {
	file := func(src string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(src)} }
	bad, files, err := imports(fstest.MapFS{
		"a.go":                    file("package raysys\n\nimport (\n\t\"context\"\n\tz \"go.uber.org/zap\"\n)\n"),
		"a_test.go":               file("package raysys\n\nimport _ \"go.uber.org/goleak\"\n"),
		"tasks/t.go":              file("//go:build never\n\npackage tasks\n\nimport _ \"" + module + "/grains\"\n"),
		"tasks/testdata/x/x.go":   file("package x\n\nimport _ \"" + module + "/grains\"\n"),
		"tools/lint/go.mod":       file("module lint\n"),
		"tools/lint/lint.go":      file("package lint\n\nimport _ \"go.uber.org/zap\"\n"),
		".cache/mod/m.go":         file("package m\n\nimport _ \"go.uber.org/zap\"\n"),
		"cmd/raysys/main.go":      file("package main\n\nimport _ \"" + module + "/tasks\"\n"),
		"examples/quick/main.go":  file("package main\n\nimport _ \"" + module + "\"\n"),
		"examples/gpu/go.mod":     file("module " + module + "/examples/gpu\n\ngo 1.26.0\n"),
		"examples/gpu/bad.go":     file("package main\n\nimport _ \"" + module + "/internal/codec\"\n"),
		"examples/quick/bad.go":   file("package main\n\nimport _ `" + module + "/internal/codec`\n"),
		"internal/wheel/wheel.go": file("package wheel\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.go:5:2 ", "examples/gpu/bad.go:3:8 ", "examples/quick/bad.go:3:8 ", "tasks/t.go:5:8 "}
	if files != 7 || len(bad) != len(want) {
		t.Fatalf("%d files, offences:\n%s", files, strings.Join(bad, "\n"))
	}
	for i, line := range bad {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("offence %d is %q, want it at %s", i, line, want[i])
		}
	}
	if _, _, err := imports(fstest.MapFS{"x.go": file("package\n")}); err == nil {
		t.Error("a file that does not parse is no error")
	}
}
