// Package events writes what TensorBoard reads: files of numbers over steps.
//
// A file is a sequence of TFRecords, each of an Event of TensorFlow's event.proto:
//
//	length uint64 | masked CRC-32C of that | Event | masked CRC-32C of the Event       the lowest byte first
package events
