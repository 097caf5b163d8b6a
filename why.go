package raysys

import (
	"context"
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// Explanation says where a value is, how it was made, and why it is lost. String shows it, its inputs indented below it.
type Explanation struct {
	ID        string        `json:"id"`                  // of the submission
	Name      string        `json:"name"`                // of what makes it: a function, a grain's method, or "object" for a value of Put
	State     string        `json:"state"`               // pending, ready, failed, cancelled, lost or released
	Error     string        `json:"error,omitempty"`     // how it failed, or why it is lost, with what was tried
	Size      int64         `json:"size,omitempty"`      // of an object, about, in bytes; 0 for a small value, which travels with its references
	Owner     NodeID        `json:"owner,omitempty"`     // the node that has the bytes, empty where that is this one or not known
	Copies    []NodeID      `json:"copies,omitempty"`    // nodes that have them too
	Submitter NodeID        `json:"submitter,omitempty"` // the node that submitted the task, and has its recipe
	Adopter   NodeID        `json:"adopter,omitempty"`   // the node that has the recipe, where it has taken the task over after the submitter's death
	Attempt   int           `json:"attempt,omitempty"`   // the last
	Recipe    bool          `json:"recipe"`              // it is made again when it is lost
	NoRecipe  string        `json:"no_recipe,omitempty"` // why it is not
	Inputs    []Explanation `json:"inputs,omitempty"`    // the references in its argument
	More      int           `json:"more,omitempty"`      // inputs that are left out: the tree is at most 4 deep and 16 wide
}

// Why says what is known of the value of r: where it is, how it was made, and why it is lost or cannot be made again. It
// waits neither for the value nor for the task, and fetches nothing; it asks the node that submitted the task, and the
// directory for copies.
func Why[T any](ctx context.Context, r Ref[T]) (Explanation, error) {
	e, err := core.Why(ctx, core.FutureOf(r.Link))
	return explanation(e), err
}

// explanation is e as the program sees it.
func explanation(e core.Explanation) Explanation {
	out := Explanation{
		ID: e.ID, Name: e.Name, State: e.State, Error: e.Error, Size: e.Size, Owner: e.Owner, Copies: e.Copies, Submitter: e.Submitter,
		Adopter: e.Adopter, Attempt: e.Attempt, Recipe: e.Recipe, NoRecipe: e.NoRecipe, More: e.More,
	}
	for _, in := range e.Inputs {
		out.Inputs = append(out.Inputs, explanation(in))
	}
	return out
}

// String shows the explanation in lines.
func (e Explanation) String() string {
	var b strings.Builder
	e.show(&b, "")
	return b.String()
}

func (e Explanation) show(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s %s: %s", indent, e.Name, e.ID, e.State)
	if e.Size > 0 {
		fmt.Fprintf(b, ", %d bytes", e.Size)
	}
	if e.Owner != "" {
		fmt.Fprintf(b, ", owned by %s", e.Owner)
	}
	for i, n := range e.Copies {
		if i == 0 {
			b.WriteString(", copies on")
		}
		fmt.Fprintf(b, " %s", n)
	}
	b.WriteByte('\n')
	if e.Submitter != "" {
		fmt.Fprintf(b, "%s  submitted by %s, attempt %d\n", indent, e.Submitter, max(e.Attempt, 1))
	}
	if e.Adopter != "" {
		fmt.Fprintf(b, "%s  taken over by %s\n", indent, e.Adopter)
	}
	switch {
	case e.Recipe:
		fmt.Fprintf(b, "%s  made again when it is lost\n", indent)
	case e.NoRecipe != "":
		fmt.Fprintf(b, "%s  not made again: %s\n", indent, e.NoRecipe)
	}
	if e.Error != "" {
		fmt.Fprintf(b, "%s  error: %s\n", indent, e.Error)
	}
	for _, in := range e.Inputs {
		in.show(b, indent+"  ")
	}
	if e.More > 0 {
		fmt.Fprintf(b, "%s  and %d inputs more\n", indent, e.More)
	}
}
