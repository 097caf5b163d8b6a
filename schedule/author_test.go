package schedule

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/due"
)

// TestPostsComeAgain: whatever programs and Durable grains do to a schedule, a message of a grain that has arrived leaves the record as it is when
// it comes again, until the schedule is deleted or ends, or more grains edit it than the record knows; and the first time it does what it says.
func TestPostsComeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type message struct {
			by   author
			edit posted
		}
		var arrived []message // since the schedule was made
		item := due.Item{Name: due.Name{Name: "x"}, Now: second}
		numbers := map[string]uint64{}
		draw := func() posted {
			verb := rapid.SampledFrom([]string{"", "", verbPause, verbResume, verbRun, verbDelete}).Draw(t, "verb")
			p := posted{Verb: verb}
			if verb == "" {
				s, err := settingOf(Every(time.Duration(rapid.IntRange(1, 2).Draw(t, "hours"))*time.Hour), nil)
				if err != nil {
					t.Fatal(err)
				}
				s.Work = work{Function: "job"}
				p.Spec, p.Paused = &s.spec, rapid.Bool().Draw(t, "paused")
			}
			body, err := json.Marshal(p) // as it travels
			if err == nil {
				p = posted{}
				err = json.Unmarshal(body, &p)
			}
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		apply := func(p posted, by *author) {
			c, err := p.change(item, by)
			if err != nil || c.Read {
				return
			}
			if c.Next == nil {
				item = due.Item{Name: item.Name, Now: item.Now}
				arrived = nil
				return
			}
			item.Version, item.Record = due.Version{Epoch: 1, Seq: item.Version.Seq + 1}, *c.Next
		}
		known := func(m message) bool { // its author is among the last eight
			var seen []string
			for _, a := range slices.Backward(arrived) {
				if a.by.Grain == m.by.Grain {
					return len(seen) < maxAuthors
				}
				if !slices.Contains(seen, a.by.Grain) {
					seen = append(seen, a.by.Grain)
				}
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"a program": func(t *rapid.T) { apply(draw(), nil) },
			"a grain": func(t *rapid.T) {
				by := author{Grain: fmt.Sprint("g", rapid.IntRange(1, maxAuthors+2).Draw(t, "grain"))}
				numbers[by.Grain]++
				by.Heard = numbers[by.Grain]
				p := draw()
				plain, _ := p.change(item, nil)
				apply(p, &by)
				if item.Exists() {
					arrived = append(arrived, message{by, p})
				}
				if plain.Next != nil { // what it does is what a program does
					a, errA := decode(plain.Next.Data)
					b, errB := decode(item.Record.Data)
					if errA != nil || errB != nil || !a.Spec.same(&b.Spec) || a.Paused != b.Paused || len(a.Running) != len(b.Running) || a.Next != b.Next {
						t.Fatalf("%+v (%v), want %+v (%v)", b, errB, a, errA)
					}
				}
			},
			"again": func(t *rapid.T) {
				if len(arrived) == 0 {
					t.Skip("nothing has arrived")
				}
				m := rapid.SampledFrom(arrived).Draw(t, "message")
				if !known(m) {
					t.Skip("its grain is forgotten")
				}
				if c, err := m.edit.change(item, &m.by); err != nil || !c.Read {
					t.Fatalf("message %d of %s comes again, and makes %+v, %v", m.by.Heard, m.by.Grain, c, err)
				}
			},
			"time": func(t *rapid.T) { item.Now += int64(rapid.IntRange(1, 100).Draw(t, "minutes")) * int64(time.Minute) },
			"": func(t *rapid.T) {
				if !item.Exists() {
					return
				}
				if r, err := decode(item.Record.Data); err != nil || len(r.Authors) > maxAuthors {
					t.Fatalf("%d authors, %v", len(r.Authors), err)
				}
			},
		})
	})
}
