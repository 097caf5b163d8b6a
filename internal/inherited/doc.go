// Package inherited finds the pipes that a program has from the supervisor that started it, raysys node: one to tell it things,
// one to hear of its devices. A variable names each: its descriptor, a colon and its inode.
//
// The inode is there because variables are inherited further than descriptors: a process further down, which has the variable
// alone, has something else at that descriptor, or nothing.
package inherited
