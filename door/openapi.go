package door

import (
	"encoding"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/raysys/raysys/system"
)

// object is an object of the document.
type object map[string]any

// sendDocument answers with the OpenAPI document of what the caller may call.
func sendDocument(x *request) error {
	if x.r.Method != http.MethodGet {
		x.w.Header().Set("Allow", http.MethodGet)
		return refusal(http.StatusMethodNotAllowed, "method-not-allowed", "this takes GET")
	}
	paths, caller, refused := object{}, "", error(nil)
	for _, m := range x.order {
		c, err := identify(x, m.Work)
		if err != nil {
			refused = err
			continue
		}
		caller = c
		m.describe(paths)
	}
	if refused != nil && caller == "" {
		return refused
	}
	if !x.room.enter(caller, 0) {
		return errTooMany()
	}
	defer x.room.leave(caller, 0)
	text, err := encode(object{
		"openapi": "3.1.0", "info": object{"title": "raysys", "version": system.Version()}, "paths": paths,
		"components": object{"schemas": object{"Problem": problemSchema}},
	})
	if err != nil {
		return err
	}
	x.send(http.StatusOK, "application/json", text)
	return nil
}

var problemSchema = object{
	"type": "object", "required": []string{"type", "title", "status", "ran"}, "properties": object{
		"type": object{"type": "string"}, "title": object{"type": "string"}, "status": object{"type": "integer"},
		"detail": object{"type": "string"}, "id": object{"type": "string", "description": "for raysys get"},
		"ran": object{"enum": []string{ranNo, ranMaybe, ranYes}, "description": "whether the work may have run"},
	},
}

// describe adds the paths of a mark.
func (m *mark) describe(paths object) {
	at := "/call/" + m.form + "/"
	if m.kind != "" {
		at += url.PathEscape(m.kind) + "/"
	}
	at += url.PathEscape(m.function)
	parameter := func(name, in, text string) object {
		required, of := in == "path", object{"type": "string"}
		return object{"name": name, "in": in, "required": required, "description": text, "schema": of}
	}
	operation := func(id, text string, parameters []object, body bool, code string, answer object) object {
		o := object{"operationId": id, "summary": text, "parameters": parameters, "responses": object{
			code: answer,
			"default": object{"description": "a problem", "content": object{
				"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}},
			}},
		}}
		if body && !m.arg.Nothing() {
			o["requestBody"] = object{"required": true, "content": contentOf("application/json", m.arg.Type)}
		}
		return o
	}
	code, result := "200", object{"description": "the result"}
	switch {
	case m.item != nil:
		result["description"] = "the items, one in each event; then an event end or error"
		result["content"] = contentOf("text/event-stream", m.item)
	case m.res.Nothing():
		code, result = "204", object{"description": "it is done"}
	default:
		result["content"] = contentOf("application/json", m.res.Type)
	}
	key := parameter("key", "path", "of the grain. "+oddKeys)
	limit := parameter("Raysys-Deadline", "header", "how long it may take, such as 5s")
	switch {
	case m.form == "feed":
		list := []object{key, parameter("last", "query", "begins with so many older items")}
		paths[at+"/{key}"] = object{"get": operation(m.Function, m.text, list, false, code, result)}
		return
	case m.form == "grain":
		list := []object{key, limit}
		if m.packed.Keyed {
			list = append(list, parameter("Idempotency-Key", "header", "a call that is made again with it counts once"))
		}
		paths[at+"/{key}"] = object{"post": operation(m.Function, m.text, list, true, code, result)}
		return
	case m.item != nil:
		paths[at] = object{"post": operation(m.Function, m.text, []object{}, true, code, result)}
		return
	}
	paths[at] = object{"post": operation(m.Function, m.text, []object{limit}, true, code, result)}
	run := parameter("run", "path", "the name of the run, which the caller chooses")
	list, one := []object{run, parameter("wait", "query", "how long to wait for it, such as 30s")}, []object{run}
	read := operation(m.Function+".result", "The result of a run.", list, false, code, result)
	begun, done := object{"description": "it runs, or has ended"}, object{"description": "it is done"}
	read["responses"].(object)["202"] = object{"description": "it runs"}
	paths[at+"/{run}"] = object{
		"put":    operation(m.Function+".start", "Starts a run: "+m.text, one, true, "202", begun),
		"get":    read,
		"delete": operation(m.Function+".end", "Ends a run, or forgets one that has ended.", one, false, "204", done),
	}
}

func contentOf(kind string, t reflect.Type) object {
	return object{kind: object{"schema": schemaOf(t)}}
}

// schemaOf is the JSON schema of a type: {} with its name for one that has none.
func schemaOf(t reflect.Type) any {
	own := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[time.Duration]():   {Type: "integer", Description: "nanoseconds"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {},
	}
	findMarshalers(t, own, map[reflect.Type]bool{})
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return &jsonschema.Schema{Title: t.String()}
	}
	mend(t, s, own)
	return s
}

// findMarshalers adds the types in t that write themselves: their text says nothing of their fields.
func findMarshalers(t reflect.Type, own map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] || own[t] != nil {
		return
	}
	seen[t] = true
	p := reflect.PointerTo(t)
	is := func(i reflect.Type) bool {
		return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && p.Implements(i)
	}
	switch {
	case is(reflect.TypeFor[json.Marshaler]()), is(reflect.TypeFor[json.Unmarshaler]()):
		own[t] = &jsonschema.Schema{Title: t.String()}
		return
	case is(reflect.TypeFor[encoding.TextMarshaler]()), is(reflect.TypeFor[encoding.TextUnmarshaler]()):
		own[t] = &jsonschema.Schema{Type: "string", Title: t.String()}
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			own[t] = own[reflect.TypeFor[[]byte]()]
			return
		}
		findMarshalers(t.Elem(), own, seen)
	case reflect.Struct:
		for f := range t.NumField() {
			findMarshalers(t.Field(f).Type, own, seen)
		}
	}
}

// mend mends what jsonschema-go makes of pointers to types without a schema, which it takes for null alone, and of
// fields with ",string".
func mend(t reflect.Type, s *jsonschema.Schema, own map[reflect.Type]*jsonschema.Schema) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if o := own[t]; s == nil || o != nil {
		if s != nil && o.Type == "" {
			s.Types = nil
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		mend(t.Elem(), s.Items, own)
	case reflect.Map:
		mend(t.Elem(), s.AdditionalProperties, own)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			p := s.Properties[name]
			if p != nil && strings.Contains(options, "string") && f.Type.Kind() <= reflect.String {
				*p = jsonschema.Schema{Type: "string", Description: p.Description}
			}
			if !f.Anonymous {
				mend(f.Type, p, own)
			}
		}
	}
}
