// Package detour has what work passes on its way to the program's function: the filters of the node and of the grain's kind, and in a
// test what stands in for the function.
package detour
