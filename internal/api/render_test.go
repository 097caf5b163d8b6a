package api_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/token"
	"strings"
	"testing"
)

// render returns the declarations of a package: constants, variables, functions, then each type with what belongs to it.
func render(t *testing.T, l library) []byte {
	t.Helper()
	var out bytes.Buffer
	put := func(indent string, node ast.Node) {
		var text bytes.Buffer
		if err := format.Node(&text, l.set, bare(node)); err != nil {
			t.Fatalf("%s: %v", l.set.Position(node.Pos()), err)
		}
		for line := range bytes.Lines(text.Bytes()) {
			if line = bytes.TrimRight(line, "\n"); len(line) > 0 { // blank lines divide the comments that were there
				fmt.Fprintf(&out, "%s%s\n", indent, line)
			}
		}
	}
	values := func(indent string, list []*doc.Value) {
		for _, v := range list {
			put(indent, v.Decl)
		}
	}
	functions := func(indent string, list []*doc.Func) {
		for _, f := range list {
			put(indent, f.Decl)
		}
	}
	fmt.Fprintf(&out, "package %s // import %q\n\n", l.doc.Name, l.doc.ImportPath)
	values("", l.doc.Consts)
	values("", l.doc.Vars)
	functions("", l.doc.Funcs)
	for _, typ := range l.doc.Types {
		out.WriteByte('\n')
		put("", typ.Decl)
		values("\t", typ.Consts)
		values("\t", typ.Vars)
		functions("\t", typ.Funcs)
		functions("\t", typ.Methods)
	}
	return out.Bytes()
}

// bare removes comments, bodies, and what variables are set to: none of it is part of the API.
func bare(node ast.Node) ast.Node {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			n.Doc, n.Body = nil, nil
		case *ast.Field:
			n.Doc, n.Comment = nil, nil
		case *ast.TypeSpec:
			n.Doc, n.Comment = nil, nil
		case *ast.ValueSpec:
			n.Doc, n.Comment = nil, nil
		case *ast.GenDecl:
			n.Doc = nil
			if n.Tok == token.VAR {
				for _, spec := range n.Specs {
					variable(spec.(*ast.ValueSpec))
				}
			}
		}
		return true
	})
	return node
}

// variable keeps of a variable's value what says its type. A sentinel is an error, however it is made.
func variable(spec *ast.ValueSpec) {
	if strings.HasPrefix(spec.Names[0].Name, "Err") {
		spec.Type, spec.Values = ast.NewIdent("error"), nil
	}
	for _, v := range spec.Values {
		switch v := v.(type) {
		case *ast.CallExpr:
			v.Args = nil
		case *ast.CompositeLit:
			v.Elts = nil
		}
	}
}
