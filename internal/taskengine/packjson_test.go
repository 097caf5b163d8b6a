package taskengine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
)

// colour reads more than its fields.
type colour struct{ Name string }

func (c *colour) UnmarshalJSON(text []byte) error {
	if strings.Contains(string(text), "rgb") {
		c.Name = "mixed"
		return nil
	}
	return errors.New("no colour")
}

type Embedded struct{ Deep int }

type painted struct {
	Paint  colour
	Layers [2]int
	Text   string
	When   []time.Time
	Raw    map[string][]byte
	Inner  struct{ Layers []int }
	Quoted int `json:",string"`
	Hidden int `json:"-"`
	Embedded
}

// TestPackJSONLosesNothing: what a type has no place for is refused, at its own path, and nothing is dropped.
func TestPackJSONLosesNothing(t *testing.T) {
	table := raysys.NewTable()
	paint := func(_ context.Context, p painted) (int, error) { return p.Hidden, nil }
	e := taskengine.EntryOf(taskengine.Define(table, "paint", paint))
	for text, want := range map[string]string{
		`{"Paint": {"rgb": 1}, "Layers": [1, 2]}`:     "",
		`{"Quoted": "7", "Deep": 7}`:                  "",
		`{"Hidden": 7}`:                               "at Hidden: taskengine_test.painted has no field of that name",
		`{"Embedded": {}}`:                            "at Embedded: taskengine_test.painted has no field of that name",
		`{"Layers": [1]}`:                             "",
		`{"Layers": [1, 2, 3]}`:                       "at Layers[2]: [2]int has no place for it",
		`{"Paint": {"rgb": 1}, "Inner": {"rgb": 1}}`:  "at Inner.rgb: struct { Layers []int } has no field of that name",
		`{"Paint": {"rgb": 1}, "Inner": {"Layers":9}`: "at the top: unexpected end of JSON input",
		`{"Paint": {"hsv": 1}}`:                       "at Paint: no colour",
		`{"When": ["2026"]}`:                          `at When[0]: parsing time "2026" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "-"`,
		`{"Raw": {"a": "!"}}`:                         "at Raw.a: illegal base64 data at input byte 0",
		`{"Inner": [1]}`:                              "at Inner: [ is no struct { Layers []int }",
		`{"Inner": {"Layers": "no"}}`:                 "at Inner.Layers: no is no []int",
		`{"Text": 1e400}`:                             "at Text: number is no string",
		`{"Inner": null, "text": null}`:               "",
		`{"Layers": [1, 2]} 7`:                        "at the top: invalid character '7' after top-level value",
		"{\"Text\": \"a\xff\"}":                       "at the top: it is no UTF-8",
	} {
		_, err := taskengine.PackJSON(e, []byte(text))
		switch {
		case want == "" && err == nil:
		case want == "" || !errors.Is(err, raysys.ErrBadOption) || !strings.HasSuffix(err.Error(), "as JSON: "+want):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
