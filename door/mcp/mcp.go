package mcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/door/internal/front"
	"github.com/raysys/raysys/system"
)

// Handler serves a door to agents, by the protocol's Streamable HTTP, without sessions. A door may have several.
func Handler(d *door.Door) http.Handler {
	h := &handler{door: front.Of(d), tools: map[string]*tool{}}
	s := sdk.NewServer(&sdk.Implementation{Name: "raysys", Version: system.Version()}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	for i, f := range h.door.Functions() {
		if f.Text == "" {
			continue
		}
		for _, t := range toolsOf(f) {
			t.function, t.shown.Name = i, h.nameFor(t)
			h.tools[t.shown.Name] = t
			s.AddTool(t.shown, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return h.call(requestOf(ctx), t, r.Params.Arguments), nil
			})
		}
	}
	s.AddReceivingMiddleware(h.hide)
	h.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, // Admit has looked at both
	})
	return h
}

// handler serves the tools of a door.
type handler struct {
	http.Handler
	door  front.Door
	tools map[string]*tool
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, leave := h.door.Admit(w, r)
	if r == nil {
		return
	}
	defer leave()
	h.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r)))
}

// requestKey is the key of the HTTP request in the context of a call: that ends with no client.
type requestKey struct{}

func requestOf(ctx context.Context) *http.Request { return ctx.Value(requestKey{}).(*http.Request) }

// hide leaves out of a list the tools that the client may not call.
func (h *handler) hide(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if list, is := result.(*sdk.ListToolsResult); is && err == nil {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *sdk.Tool) bool {
				own := h.tools[t.Name]
				return !h.door.May(requestOf(ctx), own.function, own.method == http.MethodGet)
			})
		}
		return result, err
	}
}

// maxName is the most characters that all clients take in the name of a tool.
const maxName = 64

// nameFor is a name for the tool, which no other one has.
func (h *handler) nameFor(t *tool) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, t.shown.Title)
	if len(name) > maxName || h.tools[name] != nil {
		// A task "a.start", a method "a.start" and the start of a task "a" are three.
		sum := sha256.Sum256([]byte(t.Path + t.shown.Title))
		name = fmt.Sprintf("%.*s_%x", maxName-9, name, sum[:4])
	}
	return name
}

// tool is one way to call a function.
type tool struct {
	front.Function
	shown    *sdk.Tool
	function int    // its number
	method   string // of the requests to the door
	takes    object // the schemas of what it takes, by name
}

type object = map[string]any

// toolsOf are the tools for a function.
func toolsOf(f front.Function) []*tool {
	add := func(suffix, text, method string, takes, gives object, hints sdk.ToolAnnotations) *tool {
		destructive := !hints.ReadOnlyHint
		hints.DestructiveHint = &destructive
		t := &sdk.Tool{Title: f.Name + suffix, Description: text, Annotations: &hints, InputSchema: schemaOf(takes)}
		if gives != nil {
			t.OutputSchema = schemaOf(gives)
		}
		return &tool{shown: t, Function: f, method: method, takes: takes}
	}
	text := func(about string) object { return object{"type": "string", "description": about} }
	flag, number := object{"type": "boolean"}, object{"type": "integer"}
	hints := sdk.ToolAnnotations{ReadOnlyHint: f.ReadOnly, IdempotentHint: f.ReadOnly || f.Idempotent}
	takes, gives := object{}, object{"result": f.Result}
	if f.Argument != nil {
		takes["arg"] = f.Argument
	}
	if f.Result == nil {
		gives = nil
	}
	if f.Grain {
		takes["key"] = text("of the grain " + f.Name[:strings.LastIndex(f.Name, ".")])
	}
	switch {
	case f.Stream:
		method := http.MethodPost
		takes["wait"] = text("how long to wait for more items, such as 5s, up to 60s")
		if f.Grain {
			method = http.MethodGet
			takes["last"] = text("begins with so many older items, 100 unless given")
			takes["last"].(object)["type"] = "integer"
		}
		gives = object{"items": object{"type": "array", "items": f.Result}, "ended": flag, "missed?": number}
		return []*tool{add("", f.Text, method, takes, gives, hints)}
	case f.Keyed:
		takes["idempotency_key"] = text("a call that is made again with it counts once")
	}
	list := []*tool{add("", f.Text, http.MethodPost, takes, gives, hints)}
	if f.Grain {
		return list
	}
	run := object{"run": text("the name of the run, which you choose")}
	begun := maps.Clone(run)
	maps.Copy(begun, takes)
	looks := object{"wait": text("how long to wait for it, such as 30s, up to 60s")}
	maps.Copy(looks, run)
	ends := object{"running": flag}
	if f.Result != nil {
		ends["result?"] = f.Result
	}
	start := sdk.ToolAnnotations{IdempotentHint: true}
	look := sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	return append(list,
		add(".start", "Starts a run, which goes on by itself: "+f.Text, http.MethodPut, begun, nil, start),
		add(".result", "The result of a run of "+f.Name+", or that it is running.", http.MethodGet, looks, ends, look))
}

// optional are what a tool may be given.
var optional = []string{"idempotency_key", "last", "wait"}

// schemaOf is the schema of an object. A name that ends with "?" is optional.
func schemaOf(properties object) object {
	all, required := object{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		plain := strings.TrimSuffix(name, "?")
		all[plain] = properties[name]
		if plain == name && !slices.Contains(optional, name) {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": all, "required": required, "additionalProperties": false}
}
