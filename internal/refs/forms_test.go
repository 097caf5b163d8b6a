package refs

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
)

var update = flag.Bool("update", false, "write the files in testdata/v1 anew")

// computed is the future of a task of this node.
type computed struct{ core.Result[[]byte] }

func (c *computed) ValueType() *core.ValueType            { return core.TypeOf[[]byte]() }
func (c *computed) Name() string                          { return "task" }
func (c *computed) Help(*core.Turn) bool                  { return false }
func (c *computed) Expires() int64                        { return 0 }
func (c *computed) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (c *computed) Break([]string) bool                   { return false }

// TestForms: the forms of a reference on the wire do not change.
func TestForms(t *testing.T) {
	id := raysys.TaskID{Hi: 0x0102030405060708, Lo: 0x1112131415161718}
	job := &core.Job{}
	top := core.NewRoot(job, t.Context(), nil, id)
	job.Top = top
	var peer, owner, other core.NodeKey // that of a mesh.Peer of no connection is zero
	owner, other = core.NodeKey{Node: "owner", Incarnation: 7}, core.NodeKey{Node: "other", Incarnation: 8}
	large := raysys.Ready(make([]byte, 2*raysys.ObjectSize))
	small := raysys.Ready(5)
	for name, future := range map[string]func(*References) *core.Future{
		"mine":     func(*References) *core.Future { return core.FutureOf(large.Link) },
		"inline":   func(*References) *core.Future { return core.FutureOf(small.Link) },
		"yours":    func(r *References) *core.Future { return r.Take(id, peer, 9) },
		"borrowed": func(r *References) *core.Future { return r.Take(id, owner, 9) },
		"pair-of-submitter": func(r *References) *core.Future {
			c := &computed{}
			c.Future.Init(c, top, 0, true)
			c.Future.Turn().SetRecipe("recipe")
			c.Future.Forward(core.SourceOf(r.Take(id, owner, 9)))
			return &c.Future
		},
		"pair-of-owner": func(r *References) *core.Future { return r.pair(core.FutureOf(large.Link), r.Take(id, other, 10)) },
		"pair-of-third": func(r *References) *core.Future { return r.pair(r.Take(id, owner, 9), r.Take(id, other, 10)) },
		"yours-of-pair": func(r *References) *core.Future { return r.pair(r.Take(id, owner, 9), r.Take(id, peer, 10)) },
		"pair-for-owner": func(r *References) *core.Future {
			return r.pair(r.Take(id, peer, 9), r.Take(id, other, 10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &References{job: job, mesh: &mesh.Mesh{}}
			r.imports.refs, r.table.refs = r, r
			p := &Session{Peer: &mesh.Peer{}, refs: r}
			r.exports.anew(p.Key(), p)
			frame, err := p.AppendRef(nil, future(r))
			if err != nil {
				t.Fatal(err)
			}
			got := hex.EncodeToString(frame)
			file := filepath.Join("testdata", "v1", name+".hex")
			if *update {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != strings.TrimSpace(string(want)) {
				t.Errorf("a reference in the form %s is\n%s, and was\n%s", name, got, want)
			}
		})
	}
}
