package door

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaOf is the JSON schema of a type: {} with its name for one that has none. nulls: lists, bytes
// and maps may be null, as those of a program are where it has none.
func schemaOf(t reflect.Type, nulls bool) *jsonschema.Schema {
	own := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[time.Duration]():   {Type: "integer", Description: "nanoseconds"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {Description: "any JSON"},
	}
	if nulls {
		bytes := own[reflect.TypeFor[[]byte]()]
		bytes.Type, bytes.Types = "", []string{"null", "string"}
	}
	findMarshalers(t, own)
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return &jsonschema.Schema{Title: t.String()}
	}
	mend(t, s, nulls)
	return s
}

// findMarshalers adds the types in t that write themselves, since their text says nothing of their fields, and nil for
// each other one.
func findMarshalers(t reflect.Type, own map[reflect.Type]*jsonschema.Schema) {
	if _, known := own[t]; known {
		return
	}
	own[t] = nil
	is := func(i reflect.Type) bool { return reflect.PointerTo(t).Implements(i) } // never for those of pointers
	switch k := t.Kind(); {
	case is(reflect.TypeFor[json.Marshaler]()), is(reflect.TypeFor[json.Unmarshaler]()):
		own[t] = &jsonschema.Schema{Title: t.String()}
	case is(reflect.TypeFor[encoding.TextMarshaler]()), is(reflect.TypeFor[encoding.TextUnmarshaler]()):
		own[t] = &jsonschema.Schema{Type: "string", Title: t.String()}
	case k == reflect.Interface: // {} would be "true", which many clients refuse
		own[t] = own[reflect.TypeFor[json.RawMessage]()]
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		own[t] = own[reflect.TypeFor[[]byte]()]
	case k == reflect.Pointer, k == reflect.Slice, k == reflect.Array, k == reflect.Map:
		findMarshalers(t.Elem(), own)
	case k == reflect.Struct:
		for f := range t.NumField() {
			findMarshalers(t.Field(f).Type, own)
		}
	}
}

// mend mends what jsonschema-go makes of a pointer to a type without a schema, which it takes for null alone, and of
// fields with ",string". Without nulls lists are never null: some models take no type that is a list of two.
func mend(t reflect.Type, s *jsonschema.Schema, nulls bool) {
	if s == nil {
		return
	}
	if len(s.Types) == 1 {
		s.Types = nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		mend(t.Elem(), s, nulls)
	case reflect.Slice, reflect.Array:
		if s.Items != nil && !nulls {
			s.Type, s.Types = "array", nil
		}
		mend(t.Elem(), s.Items, nulls)
	case reflect.Map:
		if s.AdditionalProperties != nil && nulls {
			s.Type, s.Types = "", []string{"null", "object"}
		}
		mend(t.Elem(), s.AdditionalProperties, nulls)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			name = cmp.Or(name, f.Name)
			if _, absent := reflect.Zero(t).FieldByIndexErr(f.Index); absent != nil { // of an embedded pointer
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
			p, at := s.Properties[name], f.Type
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			plain := at.Kind() <= reflect.Float64 || at.Kind() == reflect.String
			if p != nil && plain && strings.Contains(options, "string") {
				own := &jsonschema.Schema{Type: "string", Description: p.Description}
				if at != f.Type && nulls {
					own.Type, own.Types = "", []string{"null", "string"}
				}
				*p = *own
			} else if !f.Anonymous {
				mend(f.Type, p, nulls)
			}
		}
	}
}
