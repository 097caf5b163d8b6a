// Package ordered keeps a set of strings in their order, in blocks of a few hundred, so that an insertion moves little
// and a list of a million needs no tree of pointers.
package ordered
