package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// What a stranger can hold in mind: files of a package, tests apart, and methods of a type.
const (
	maxFiles   = 25
	maxMethods = 30
)

// grown are the packages and the types that are above the limits, with what they have. The numbers fall, and none is added: a package that
// grows gives a part to a new one, which knows nothing of it (as internal/graindir and internal/runqueue did), and a type a part of its
// fields with their methods to a type of its own.
var grown = map[string]int{
	"cmd/raysys-lab/internal/bench.cluster": 31,
	"cmd/raysys-lab/internal/simulate.sim":  45,
	"grains/collective.participant":         32,
	"internal/core.Future":                  101,
	"internal/core.Turn":                    42,
	"internal/grainengine":                  27,
	"internal/grainengine.Engine":           36,
	"internal/grainengine.activation":       33,
	"internal/grainengine.call":             43,
	"internal/grainengine.peer":             31,
	"internal/grainengine.route":            40,
	"internal/ledger.Line":                  68,
	"internal/lineage.Lineage":              47,
	"internal/link.Link":                    53,
	"internal/link.Peer":                    50,
	"internal/member.Member":                50,
	"internal/mesh.Mesh":                    40,
	"internal/objects.Objects":              77,
	"internal/objectstore.Object":           52,
	"internal/objectstore.Store":            52,
	"internal/refs.References":              32,
	"internal/registry.leader":              33,
	"internal/shardlog.Shard":               37,
	"internal/taskengine.Engine":            81,
	"internal/taskengine.exchange":          76,
	"internal/taskengine.record":            75,
	"placement.View":                        45,
	"rl":                                    26,
	"store/storetest.suite":                 34,
	"system.Node":                           40,
	"testkit":                               30,
	"testkit.Cluster":                       48,
}

// maxSpread is in how many files of its package the methods of a type may stand.
const maxSpread = 3

// spread are the types whose methods stand in more files, with the number of these. The numbers fall, and none is added: a type has one file,
// and what two or three of its fields do has a type of its own.
var spread = map[string]int{
	"cmd/raysys-lab/internal/bench.cluster": 7,
	"cmd/raysys-lab/internal/bench.process": 4,
	"cmd/raysys-lab/internal/simulate.sim":  7,
	"cmd/raysys.observer":                   7,
	"cmd/raysys/internal/doctor.Doctor":     6,
	"examples/gpu/cuda.Context":             4,
	"grains/collective.participant":         4,
	"grains/replay.Client":                  4,
	"grains/replay.buffer":                  4,
	"grains/replay.shard":                   4,
	"internal/codec.Plan":                   6,
	"internal/grainengine.method":           5,
	"internal/node.Cluster":                 6,
	"internal/shardlog.Shard":               5,
	"rl.Experiment":                         8,
	"store/consul.Store":                    6,
	"store/storetest.suite":                 4,
	"stream.definition":                     4,
	"stream.node":                           5,
	"stream/internal/jetbus.Bus":            4,
	"system.Config":                         4,
	"system.Node":                           8,
	"system.environment":                    5,
	"testkit.Cluster":                       6,
}

// onlyCalls reports whether a method does nothing but call a function of another package: it is the name of that, not one thing more.
func onlyCalls(fn *ast.FuncDecl, imported map[string]bool) bool {
	if fn.Body == nil || len(fn.Body.List) != 1 {
		return false
	}
	var e ast.Expr
	switch s := fn.Body.List[0].(type) {
	case *ast.ExprStmt:
		e = s.X
	case *ast.ReturnStmt:
		if len(s.Results) == 1 {
			e = s.Results[0]
		}
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := generic(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && imported[pkg.Name]
}

// generic returns the type or function that an expression gives type parameters to; any other as it is.
func generic(e ast.Expr) ast.Expr {
	switch i := e.(type) {
	case *ast.IndexExpr:
		return i.X
	case *ast.IndexListExpr:
		return i.X
	}
	return e
}

// receiver returns the name of the type whose method fn is, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := generic(t).(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// sizes returns how many files each package has, and how many methods each type: "folder" and "folder.Type".
func sizes(fsys fs.FS) (map[string]int, error) {
	n := map[string]int{}
	err := goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := path.Dir(name)
		n[dir]++
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		imported := map[string]bool{}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			as := path.Base(p)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			imported[as] = true
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || onlyCalls(fn, imported) {
				continue
			}
			if t := receiver(fn); t != "" {
				n[dir+"."+t]++
			}
		}
		return nil
	})
	return n, err
}

// overgrown returns a line for each package and type whose number is another than that in the table, or above the limit and not there.
func overgrown(fsys fs.FS, table map[string]int) (bad []string, seen int, err error) {
	n, err := sizes(fsys)
	for what, has := range n {
		limit, unit, cure := maxFiles, "files", "give a part of it to a package of its own, which knows nothing of it"
		if _, isType := strings.CutPrefix(path.Ext(what), "."); isType && what != "." {
			limit, unit, cure = maxMethods, "methods", "give some of its fields, with their methods, to a type of its own, or make functions of them"
		}
		if has > max(limit, table[what]) {
			bad = append(bad, fmt.Sprintf("%s has %d %s, and may have %d: %s (ratchet_test.go)", what, has, unit, max(limit, table[what]), cure))
		}
		bad = append(bad, fellTo(what, has, limit, table[what])...)
	}
	bad = append(bad, gone(n, table)...)
	slices.Sort(bad)
	return bad, len(n), err
}

// fellTo returns a line where a table lists a number that is above the real one, or within the limit.
func fellTo(what string, has, limit, listed int) []string {
	switch {
	case listed > 0 && has <= limit:
		return []string{fmt.Sprintf("%s has %d, which is within the limit: take it out of the table in ratchet_test.go", what, has)}
	case listed > has:
		return []string{fmt.Sprintf("%s has %d, and the table in ratchet_test.go says %d: write %d there, so that it stays so", what, has, listed, has)}
	}
	return nil
}

// gone returns a line for each entry of a table that is not in n.
func gone(n, table map[string]int) (bad []string) {
	for what := range table {
		if n[what] == 0 {
			bad = append(bad, what+" does not exist: take it out of the table in ratchet_test.go")
		}
	}
	return bad
}

// TestNothingGrows: packages and types that are large get no larger, and no other gets large.
func TestNothingGrows(t *testing.T) {
	bad, seen, err := overgrown(tree, grown)
	check(t, bad, seen, err)
}

// TestOvergrown: files are counted without tests, methods without those that only call a function of another package.
func TestOvergrown(t *testing.T) {
	src := "package a\n\nimport \"b\"\n\nfunc (T[X]) one() { b.F[int]() }\n\nfunc (*T[X]) two() int { return b.G(1) }\n\nfunc F() {}\n\nfunc (t T[X]) three() { t.one() }\n"
	fsys := fstest.MapFS{"in/a/a_test.go": {Data: []byte(src)}, "in/a/a.go": {Data: []byte(src)}}
	for i := range maxFiles {
		fsys[fmt.Sprintf("in/a/a%d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package a\n\nfunc (*T[X]) m%d() {}\n\nfunc (*U) m%d() {}\n", i, i)}
	}
	for i := range maxMethods - maxFiles {
		fsys[fmt.Sprintf("in/b/b%d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package b\n\nfunc (*T) m%d() {}\n", i)}
	}
	for _, c := range []struct {
		table map[string]int
		want  string
	}{
		{nil, "[in/a has 26 files, and may have 25"},
		{map[string]int{"in/a": 26}, "[]"},
		{map[string]int{"in/a": 27}, "[in/a has 26, and the table"},
		{map[string]int{"in/a": 26, "in/a.T": 26}, "[in/a.T has 26, which is within the limit"},
		{map[string]int{"in/a": 26, "in/a.Gone": 40}, "[in/a.Gone does not exist"},
	} {
		if bad, seen, err := overgrown(fsys, c.table); err != nil || seen != 5 || len(bad) > 1 || !strings.HasPrefix(fmt.Sprint(bad), c.want) {
			t.Errorf("%v: got %q of %d, %v; want %s", c.table, bad, seen, err, c.want)
		}
	}
	more := fsys["in/a/a1.go"]
	more.Data = append(more.Data, strings.Repeat("\nfunc (*T[X]) m() {}\n", maxMethods-maxFiles)...)
	if bad, _, err := overgrown(fsys, map[string]int{"in/a": 26}); err != nil || len(bad) != 1 || !strings.HasPrefix(bad[0], "in/a.T has 31 methods, and may have 30") {
		t.Errorf("got %q, %v", bad, err)
	}
}

// spreads returns in how many files of its package each type has methods. Files for other systems count as one.
func spreads(fsys fs.FS) (map[string]int, error) {
	in := map[string]map[string]bool{}
	err := goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || receiver(fn) == "" {
				continue
			}
			what := path.Dir(name) + "." + receiver(fn)
			if in[what] == nil {
				in[what] = map[string]bool{}
			}
			file, _, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".go"), "_")
			in[what][file] = true
		}
		return nil
	})
	n := map[string]int{}
	for what, files := range in {
		n[what] = len(files)
	}
	return n, err
}

// scattered returns a line for each type whose number of files is another than that in the table, or above maxSpread and not there.
func scattered(fsys fs.FS, table map[string]int) (bad []string, seen int, err error) {
	n, err := spreads(fsys)
	for what, has := range n {
		if has > max(maxSpread, table[what]) {
			bad = append(bad, fmt.Sprintf("%s has methods in %d files, and may have in %d: put them into the file of the type, or give some of its fields, with their methods, to a type of its own (ratchet_test.go)",
				what, has, max(maxSpread, table[what])))
		}
		bad = append(bad, fellTo(what, has, maxSpread, table[what])...)
	}
	bad = append(bad, gone(n, table)...)
	slices.Sort(bad)
	return bad, len(n), err
}

// TestTypesHaveOneHome: what a type does stands in at most three files.
func TestTypesHaveOneHome(t *testing.T) {
	bad, seen, err := scattered(tree, spread)
	check(t, bad, seen, err)
}

func TestScattered(t *testing.T) {
	fsys := fstest.MapFS{"a/b_test.go": {Data: []byte("package a\n\nfunc (T) z() {}\n")}, "a/a0_unix.go": {Data: []byte("package a\n\nfunc (T) y() {}\n")}}
	for i := range 4 {
		fsys[fmt.Sprintf("a/a%d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package a\n\nfunc (*T[X]) m%d() {}\n\nfunc F%d() {}\n", i, i)}
	}
	for _, c := range []struct {
		table map[string]int
		want  string
	}{
		{nil, "[a.T has methods in 4 files, and may have in 3"},
		{map[string]int{"a.T": 4}, "[]"},
		{map[string]int{"a.T": 5}, "[a.T has 4, and the table"},
		{map[string]int{"a.T": 4, "a.Gone": 4}, "[a.Gone does not exist"},
	} {
		if bad, _, err := scattered(fsys, c.table); err != nil || len(bad) > 1 || !strings.HasPrefix(fmt.Sprint(bad), c.want) {
			t.Errorf("%v: got %q, %v; want %s", c.table, bad, err, c.want)
		}
	}
}

// bareVerbs are names that say what is done, and not to what: a search for them finds too much. bareNames is how many functions and methods
// outside of tests have one. The number falls.
var bareVerbs = []string{"ask", "wait", "again", "pause", "took", "told", "sought", "ought", "there", "look", "own"}

const bareNames = 29

// TestNamesSayWhat: a function is named by a verb and a noun.
func TestNamesSayWhat(t *testing.T) {
	var found []string
	err := goFiles(tree, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && slices.Contains(bareVerbs, fn.Name.Name) {
				found = append(found, name+": "+fn.Name.Name)
			}
		}
		return nil
	})
	if err != nil || len(found) != bareNames {
		t.Errorf("%d functions are named by a verb alone, and bareNames says %d (%v): name a new one by what it does to what, as askLoad, and write a lower number there:\n%s",
			len(found), bareNames, err, strings.Join(found, "\n"))
	}
}

// longLine is the number of columns beyond which a line is long, and longLines how many there are outside of tests, by the first folder. They fall:
// write anew in shorter ones.
const longLine = 120

var longLines = map[string]int{
	".":                                119,
	"cmd/internal/cli":                 3,
	"cmd/internal/clitest":             2,
	"cmd/raysys":                       131,
	"cmd/raysys-lab":                   25,
	"cmd/raysys-lab/internal/bench":    89,
	"cmd/raysys-lab/internal/chaos":    61,
	"cmd/raysys-lab/internal/simulate": 26,
	"cmd/raysys/internal/client":       49,
	"cmd/raysys/internal/doctor":       27,
	"cmd/raysys/internal/supervise":    12,
	"docs/guide/rl":                    1,
	"examples/acme":                    5,
	"examples/cartpole/demo":           7,
	"examples/es":                      6,
	"examples/gpu":                     4,
	"examples/gpu/cuda":                8,
	"examples/gpu/cudatest":            6,
	"examples/gpu/gputest":             2,
	"examples/gpu/mlp":                 14,
	"examples/gpu/nvrtc":               2,
	"examples/gpu/train":               15,
	"examples/gym":                     17,
	"examples/hetero":                  15,
	"examples/loop":                    11,
	"examples/menger":                  13,
	"examples/orders":                  10,
	"examples/rollouts":                17,
	"examples/serve":                   35,
	"examples/sgd":                     9,
	"examples/sort":                    23,
	"examples/torch":                   5,
	"examples/web":                     2,
	"grains":                           77,
	"grains/collective":                42,
	"grains/feed":                      9,
	"grains/internal/gather":           14,
	"grains/internal/promise":          2,
	"grains/params":                    17,
	"grains/process":                   90,
	"grains/queue":                     23,
	"grains/replay":                    96,
	"groups":                           32,
	"inspect":                          51,
	"internal/actortest":               1,
	"internal/arch":                    1,
	"internal/certs":                   2,
	"internal/childserver":             11,
	"internal/codec":                   34,
	"internal/consulbuild":             2,
	"internal/consulserver":            6,
	"internal/consultest":              7,
	"internal/core":                    94,
	"internal/crc32c":                  4,
	"internal/detour":                  3,
	"internal/due":                     13,
	"internal/faults":                  1,
	"internal/flaky":                   1,
	"internal/forwarding":              13,
	"internal/goroutines":              2,
	"internal/graindir":                11,
	"internal/grainengine":             231,
	"internal/groupengine":             59,
	"internal/inherited":               3,
	"internal/items":                   3,
	"internal/ledger":                  95,
	"internal/lineage":                 86,
	"internal/link":                    67,
	"internal/linktest":                7,
	"internal/listed":                  1,
	"internal/loadreport":              8,
	"internal/long":                    2,
	"internal/member":                  79,
	"internal/mesh":                    37,
	"internal/metrics":                 20,
	"internal/natsbuild":               3,
	"internal/natskey":                 3,
	"internal/natsserver":              11,
	"internal/node":                    63,
	"internal/nodedevices":             9,
	"internal/nodelog":                 3,
	"internal/nodetest":                1,
	"internal/objects":                 121,
	"internal/objectstore":             36,
	"internal/operate":                 130,
	"internal/ownfiles":                8,
	"internal/page":                    35,
	"internal/placing":                 81,
	"internal/printable":               2,
	"internal/queue":                   1,
	"internal/refs":                    67,
	"internal/registry":                77,
	"internal/remote":                  38,
	"internal/replies":                 13,
	"internal/runner":                  1,
	"internal/runqueue":                18,
	"internal/shardlog":                43,
	"internal/standins":                2,
	"internal/staterecord":             3,
	"internal/subprocess":              7,
	"internal/tally":                   18,
	"internal/taskengine":              175,
	"internal/taskwire":                5,
	"internal/timeline":                13,
	"internal/tlsfiles":                7,
	"internal/transfer":                16,
	"internal/waitcycles":              11,
	"internal/wheel":                   1,
	"internal/wire":                    26,
	"internal/worklog":                 30,
	"placement":                        68,
	"placement/devices":                37,
	"placement/nvml":                   11,
	"progress":                         11,
	"rl":                               188,
	"rl/dqn":                           18,
	"rl/envs":                          15,
	"rl/es":                            19,
	"rl/impala":                        28,
	"rl/internal/events":               6,
	"rl/internal/plot":                 9,
	"rl/net":                           32,
	"rl/ppo":                           40,
	"rl/sweep":                         27,
	"schedule":                         82,
	"store":                            5,
	"store/consul":                     35,
	"store/embedded":                   10,
	"store/storetest":                  6,
	"stream":                           89,
	"stream/internal/bus":              19,
	"stream/internal/bustest":          19,
	"stream/internal/jetbus":           42,
	"system":                           115,
	"system/protoactor":                45,
	"tasks":                            10,
	"tasks/generator":                  21,
	"testkit":                          78,
	"tools/benchbuild":                 8,
	"tools/benchmpi":                   8,
	"tools/benchnats":                  12,
	"tools/benchold":                   4,
	"tools/benchproto":                 15,
	"tools/benchreverb":                9,
	"tools/benchrl":                    15,
	"tools/browser":                    2,
	"tools/internal/figures":           1,
	"tools/testenvs":                   48,
}

func TestLinesGetShorter(t *testing.T) {
	n := map[string]int{}
	err := goFiles(tree, false, func(name string, src []byte) error {
		if !strings.HasSuffix(name, "_test.go") {
			for line := range strings.Lines(string(src)) {
				if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")) > longLine {
					n[path.Dir(name)]++
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, has := range n {
		if has > longLines[dir] {
			t.Errorf("%s has %d lines of more than %d columns, and may have %d (ratchet_test.go)", dir, has, longLine, longLines[dir])
		}
	}
}
