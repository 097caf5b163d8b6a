// Package jsonfit reads JSON that people and other programs wrote into the types of a program: it says where a text
// does not fit.
package jsonfit
