package door_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/testkit"
)

// TestDocument: the document has what the caller may call, with the types as JSON has them.
func TestDocument(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), streams...)
	a, text := s.do("GET", "/call/openapi.json", "")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct{ Schema json.RawMessage }
			} `json:"requestBody"`
			Responses map[string]struct {
				Content map[string]struct{ Schema json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || a.StatusCode != 200 || doc.OpenAPI != "3.1.0" {
		t.Fatal(err, a.StatusCode, text)
	}
	add := doc.Paths["/call/grain/door.account/add/{key}"]["post"]
	var names []string
	for _, p := range add.Parameters {
		names = append(names, p.In+" "+p.Name)
	}
	if got := strings.Join(names, ", "); add.OperationID != "door.account.add" || add.Summary != "Adds cents." || got != "path key, header Raysys-Deadline, header Idempotency-Key" {
		t.Errorf("%+v", add)
	}
	for where, got := range map[string]json.RawMessage{
		`{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}},"required":["n","note"],"additionalProperties":false}`: add.RequestBody.Content["application/json"].Schema,
		`{"type":"integer"}`:                           add.Responses["200"].Content["application/json"].Schema,
		`{"title":"*door_test.chain"}`:                 doc.Paths["/call/task/door.depth"]["post"].RequestBody.Content["application/json"].Schema,
		`{"type":"string","contentEncoding":"base64"}`: doc.Paths["/call/grain/door.echo.v2/nothing/{key}"]["post"].RequestBody.Content["application/json"].Schema,
		`{"type":"string"}`:                            doc.Paths["/call/feed/door.room/lines/{key}"]["get"].Responses["200"].Content["text/event-stream"].Schema,
	} {
		if string(got) != where {
			t.Errorf("%s, want %s", got, where)
		}
	}
	for path, methods := range map[string]string{
		"/call/task/door%2Fsquare": "post", "/call/task/door%2Fsquare/{run}": "put get delete", "/call/task/door.count": "post", "/call/feed/door.room/lines/{key}": "get",
	} {
		for m := range strings.FieldsSeq(methods) {
			if doc.Paths[path][m].OperationID == "" {
				t.Errorf("no %s %s", m, path)
			}
		}
	}
	if _, has := doc.Paths["/call/task/door.count/{run}"]; has {
		t.Error("a generator has runs")
	}
	s.want(405, "GET", "POST", "/call/openapi.json", "")
}

// TestNothingMarked: a door without functions shows nobody its document, with the version of the program.
func TestNothingMarked(t *testing.T) {
	d, err := door.New(testkit.New(t).Node())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t, httptest.NewServer(d), ""}
	t.Cleanup(s.Close)
	s.want(404, "not-found", "GET", "/call/openapi.json", "")
}
