package rl

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
)

// A file of rl is a line of JSON that says what it has, the numbers or bytes of it, and the CRC-32C of all that in 4 bytes. Weights have 4 bytes each.
// The lowest byte of a number is the first.
//
//	{"rl":"weights","model":"dqn 50-64-64-3 relu","steps":2400,"bytes":29708}
type fileHead struct {
	Kind     string    `json:"rl"`
	Model    string    `json:"model"`
	Steps    int       `json:"steps"`
	Seed     uint64    `json:"seed,omitempty"`
	EnvSteps int       `json:"env_steps,omitempty"`
	Episodes int       `json:"episodes,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
	Random   []float64 `json:"random,omitempty"`
	Bytes    int       `json:"bytes"`
}

const (
	weightsFile    = "weights"
	checkpointFile = "checkpoint"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeFile writes the file beside its name, and then gives it the name: who reads it finds the old file or the new one, whole.
func writeFile(name string, h fileHead, body []byte) error {
	h.Bytes = len(body)
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	data = append(append(data, '\n'), body...)
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readFile reads a file of that kind.
func readFile(name, kind string) (h fileHead, body []byte, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return h, nil, err
	}
	end := max(0, len(data)-4)
	line, body, _ := bytes.Cut(data[:end], []byte("\n"))
	switch {
	case len(data) < 4 || binary.LittleEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) || json.Unmarshal(line, &h) != nil || h.Bytes != len(body):
		return h, nil, fmt.Errorf("%w: %s was not written by rl, or is damaged", ErrFile, name)
	case h.Kind != kind:
		return h, nil, fmt.Errorf("%w: %s has %s, want %s", ErrFile, name, h.Kind, kind)
	}
	return h, body, nil
}

// Save writes the weights to a file, with the shape of their net and a checksum. A file of that name is replaced at once, or stays as it was.
func (w Weights) Save(file string) error {
	body := make([]byte, 0, 4*len(w.Params))
	for _, x := range w.Params {
		body = binary.LittleEndian.AppendUint32(body, math.Float32bits(x))
	}
	if err := writeFile(file, fileHead{Kind: weightsFile, Model: w.Model, Steps: w.Steps}, body); err != nil {
		return fmt.Errorf("save weights of %q: %w", w.Model, err)
	}
	return nil
}

// LoadWeights reads what Weights.Save has written. It fails with ErrFile where the file is damaged or something else. A Policy refuses the weights of
// another net, with ErrModel: its Load compares Weights.Model.
func LoadWeights(file string) (Weights, error) {
	h, body, err := readFile(file, weightsFile)
	if err == nil && len(body)%4 != 0 {
		err = fmt.Errorf("%w: %s has %d bytes, which are no weights", ErrFile, file, len(body))
	}
	if err != nil {
		return Weights{}, fmt.Errorf("load weights: %w", err)
	}
	w := Weights{Model: h.Model, Steps: h.Steps, Params: make([]float32, len(body)/4)}
	for i := range w.Params {
		w.Params[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return w, nil
}
