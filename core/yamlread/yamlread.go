// Package yamlread reads YAML as nodes that keep their positions, and finds the known name that is
// nearest to a misspelt one. It must not know whose keys and names these are.
package yamlread

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// Decode reads the first document's value, and the start of a second document if there is one; each
// is nil where there is none. Errors are the parser's: they begin with "yaml: ", most of them name
// a line, and some quote the text.
func Decode(data []byte) (first, second *yaml.Node, err error) {
	defer func() { // the parser is known to panic on some malformed input
		if r := recover(); r != nil {
			first, second, err = nil, nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var a, b yaml.Node
	if err := dec.Decode(&a); errors.Is(err, io.EOF) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	if err := dec.Decode(&b); err == nil {
		second = &b
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if a.Kind == yaml.DocumentNode && len(a.Content) == 1 {
		return a.Content[0], second, nil
	}
	return nil, second, nil
}

// Root is Decode of a file that has one document: a second one, which nobody would read, is an
// error.
func Root(data []byte) (*yaml.Node, error) {
	first, second, err := Decode(data)
	if err == nil && second != nil {
		err = fmt.Errorf("yaml: line %d: a second YAML document begins here: move it to a file of its own", second.Line)
	}
	if err != nil {
		return nil, err
	}
	return first, nil
}
