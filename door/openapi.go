package door

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/raysys/raysys/system"
)

// object is an object of the document.
type object map[string]any

// sendDocument answers with the OpenAPI document of what the caller may call.
func sendDocument(x *request, list []*mark) error {
	if err := x.takes(http.MethodGet, "application/json"); err != nil {
		return err
	}
	paths := object{}
	for _, m := range list {
		m.describe(paths)
	}
	text, err := json.Marshal(object{
		"openapi": "3.1.0", "info": object{"title": "raysys", "version": system.Version()}, "paths": paths,
		"components": object{"schemas": object{"Problem": schemaOf(reflect.TypeFor[problem](), true)}},
	})
	if err == nil {
		x.send(http.StatusOK, "application/json", text)
	}
	return err
}

// describe adds the paths of a mark.
func (m *mark) describe(paths object) {
	content := func(kind string, schema *jsonschema.Schema) object {
		return object{kind: object{"schema": schema}}
	}
	parameter := func(in, name, text string) object {
		of := object{"type": "string"}
		return object{"name": name, "in": in, "required": in == "path", "description": text, "schema": of}
	}
	add := func(verb, below, id, text string, answers object, parameters ...object) {
		answers["default"] = object{"description": "a problem", "content": object{
			"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}},
		}}
		list := append([]object{}, parameters...) // never null
		o := object{"operationId": m.Function + id, "summary": text, "parameters": list, "responses": answers}
		if strings.HasPrefix(verb, "p") && !m.arg.Nothing() {
			o["requestBody"] = object{"required": true, "content": content("application/json", m.argument)}
		}
		if paths[m.path+below] == nil {
			paths[m.path+below] = object{}
		}
		paths[m.path+below].(object)[verb] = o
	}
	done, runs := object{"description": "it is done"}, object{"description": "it runs, or has ended"}
	code, result := "200", object{"description": "the result", "content": content("application/json", m.result)}
	if m.item != nil {
		result["description"] = "the items, one in each event; then an event end or error"
		result["content"] = content(eventStream, m.result)
	} else if m.res.Nothing() {
		code, result = "204", done
	}
	limit := parameter("header", "Raysys-Deadline", "how long it may take, such as 5s")
	switch key := parameter("path", "key", "of the grain. One that "+oddKeys); {
	case m.form == "feed":
		last := parameter("query", "last", "begins with so many older items")
		add("get", "/{key}", "", m.text, object{code: result}, key, last)
	case m.packed.Keyed:
		once := parameter("header", "Idempotency-Key", "a call that is made again with it counts once")
		add("post", "/{key}", "", m.text, object{code: result}, key, limit, once)
	case m.form == "grain":
		add("post", "/{key}", "", m.text, object{code: result}, key, limit)
	case m.item != nil:
		add("post", "", "", m.text, object{code: result})
	default:
		run := parameter("path", "run", "the name of the run, which the caller chooses")
		wait := parameter("query", "wait", "how long to wait for it, such as 30s")
		add("post", "", "", m.text, object{code: result}, limit)
		add("put", "/{run}", ".start", "Starts a run: "+m.text, object{"202": runs}, run)
		add("get", "/{run}", ".result", "The result of a run.", object{code: result, "202": runs}, run, wait)
		add("delete", "/{run}", ".end", "Ends a run, or forgets one that has ended.", object{"204": done}, run)
	}
}
