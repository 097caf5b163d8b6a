package door

import (
	"cmp"
	"encoding"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path"
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
	if err := x.allow(http.MethodGet); err != nil {
		return err
	}
	paths, caller, refused := object{}, "", refusal(missing, "not-found", "nothing may be called")
	for _, m := range x.order {
		c, err := identify(x, m.Work)
		if err != nil {
			refused = err
			continue
		}
		caller = c
		m.describe(paths)
	}
	if caller == "" {
		return refused
	}
	if err := x.room.enter(caller, 0); err != nil {
		return err
	}
	defer x.room.leave(caller, 0)
	text, err := json.Marshal(object{
		"openapi": "3.1.0", "info": object{"title": "raysys", "version": system.Version()}, "paths": paths,
		"components": object{"schemas": object{"Problem": schemaOf(reflect.TypeFor[problem]())}},
	})
	if err != nil {
		return err
	}
	x.send(http.StatusOK, "application/json", text)
	return nil
}

// describe adds the paths of a mark.
func (m *mark) describe(paths object) {
	at := path.Join("/call", m.form, url.PathEscape(m.kind), url.PathEscape(m.function))
	add := func(verb, path, id, text string, answers object, parameters ...object) {
		answers = maps.Clone(answers)
		answers["default"] = object{"description": "a problem", "content": object{
			"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}},
		}}
		list := append([]object{}, parameters...) // never null
		o := object{"operationId": m.Function + id, "summary": text, "parameters": list, "responses": answers}
		if strings.HasPrefix(verb, "p") && !m.arg.Nothing() {
			o["requestBody"] = object{"required": true, "content": contentOf("application/json", m.arg.Type)}
		}
		of, _ := paths[at+path].(object)
		paths[at+path] = object{verb: o}
		maps.Copy(paths[at+path].(object), of)
	}
	parameter := func(in, name, text string) object {
		of := object{"type": "string"}
		return object{"name": name, "in": in, "required": in == "path", "description": text, "schema": of}
	}
	result := object{"200": object{"description": "the result", "content": contentOf("application/json", m.res.Type)}}
	if m.item != nil {
		text := "the items, one in each event; then an event end or error"
		result = object{"200": object{"description": text, "content": contentOf("text/event-stream", m.item)}}
	} else if m.res.Nothing() {
		result = object{"204": object{"description": "it is done"}}
	}
	limit := parameter("header", "Raysys-Deadline", "how long it may take, such as 5s")
	switch key := parameter("path", "key", "of the grain. One that "+oddKeys); {
	case m.form == "feed":
		add("get", "/{key}", "", m.text, result, key, parameter("query", "last", "begins with so many older items"))
	case m.packed.Keyed:
		once := parameter("header", "Idempotency-Key", "a call that is made again with it counts once")
		add("post", "/{key}", "", m.text, result, key, limit, once)
	case m.form == "grain":
		add("post", "/{key}", "", m.text, result, key, limit)
	case m.item != nil:
		add("post", "", "", m.text, result)
	default:
		add("post", "", "", m.text, result, limit)
		run := parameter("path", "run", "the name of the run, which the caller chooses")
		begun := object{"202": object{"description": "it runs, or has ended"}}
		add("put", "/{run}", ".start", "Starts a run: "+m.text, begun, run)
		result["202"] = object{"description": "it runs"}
		wait := parameter("query", "wait", "how long to wait for it, such as 30s")
		add("get", "/{run}", ".result", "The result of a run.", result, run, wait)
		done := object{"204": object{"description": "it is done"}}
		add("delete", "/{run}", ".end", "Ends a run, or forgets one that has ended.", done, run)
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
	is := func(i reflect.Type) bool { return reflect.PointerTo(t).Implements(i) } // never for those of pointers
	switch {
	case is(reflect.TypeFor[json.Marshaler]()), is(reflect.TypeFor[json.Unmarshaler]()):
		own[t] = &jsonschema.Schema{Title: t.String()}
		return
	case is(reflect.TypeFor[encoding.TextMarshaler]()), is(reflect.TypeFor[encoding.TextUnmarshaler]()):
		own[t] = &jsonschema.Schema{Type: "string", Title: t.String()}
		return
	}
	switch k := t.Kind(); {
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		own[t] = own[reflect.TypeFor[[]byte]()]
	case k == reflect.Pointer, k == reflect.Slice, k == reflect.Array, k == reflect.Map:
		findMarshalers(t.Elem(), own, seen)
	case k == reflect.Struct:
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
			p := s.Properties[cmp.Or(name, f.Name)]
			if p != nil && strings.Contains(options, "string") && f.Type.Kind() <= reflect.String {
				*p = jsonschema.Schema{Type: "string", Description: p.Description}
			}
			if !f.Anonymous {
				mend(f.Type, p, own)
			}
		}
	}
}
