package inspect

import (
	"encoding/json"
	"time"

	"github.com/raysys/raysys"
)

// LogQuery says which lines of logs are asked for.
type LogQuery struct {
	Node     raysys.NodeID // of this node alone; "" for all
	Driver   string        // that work of this driver has written with raysys.Logger; "" for all
	Function string        // that this function, method or kind of grain has written so; "" for all
	Limit    int           // the last lines of each node, at most so many
}

// Logs is what nodes have kept of what their programs wrote.
type Logs struct {
	Cluster   string    `json:"cluster"`
	Lines     []LogLine `json:"lines"`             // the oldest first
	Matched   int       `json:"matched"`           // how many lines there are of those asked for; Lines has at most 1 MiB of each node
	Silent    []string  `json:"silent,omitempty"`  // nodes whose lines are missing, and why
	Drivers   []string  `json:"drivers,omitempty"` // where nothing matched: drivers and functions of which there are lines
	Functions []string  `json:"functions,omitempty"`
}

// LogLine is a line that a node's program wrote: of a log, or plain output.
type LogLine struct {
	Node     raysys.NodeID   `json:"node"`
	Time     time.Time       `json:"time"`
	Level    string          `json:"level,omitempty"` // debug, info, warn, error ...; "" of plain output
	Text     string          `json:"text"`
	Output   string          `json:"output,omitempty"`   // of plain output stdout or stderr, or raysys for what raysys node says of the program; "" of a log
	Driver   string          `json:"driver,omitempty"`   // of a line of raysys.Logger: whose work wrote it
	Function string          `json:"function,omitempty"` // the task's function, or kind/key.method of a grain
	ID       string          `json:"id,omitempty"`       // of the task or call
	Fields   json.RawMessage `json:"fields,omitempty"`   // what else the line says: an object
	Stack    string          `json:"stack,omitempty"`
}
