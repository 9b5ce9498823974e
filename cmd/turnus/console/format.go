package console

import (
	"bytes"
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// cellWidth is how many characters of a long text a cell of a table shows.
const cellWidth = 80

// Format chooses the form of documents and tables, and returns the format that commands
// distinguish: yaml is json in another form; wide and name are text.
func (s *Screen) Format(output string) string {
	switch output {
	case "yaml":
		s.form = output
		return "json"
	case "wide", "name":
		s.form = output
		return "text"
	}
	return output
}

// List is the JSON document of every list.
type List[T any] struct {
	Items []T `json:"items"`
}

// ListOf returns the document of a list; nil is an empty one.
func ListOf[T any](items []T) List[T] {
	return List[T]{append([]T{}, items...)}
}

// Cell returns the first line of a text for a cell of a table: cut, except in a wide table.
func (s *Screen) Cell(text string) string {
	text = Printable(FirstLine(text))
	if s.form == "wide" {
		return text
	}
	return CutText(text, cellWidth)
}

// printYAML writes v as a YAML document with the keys, and their order, of its JSON.
func printYAML(s *Screen, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil { // JSON is YAML
		return err
	}
	blockStyle(&doc)
	var b bytes.Buffer
	b.WriteString("---\n") // run prints several
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = raw{s}.Write(b.Bytes())
	return err
}

// blockStyle drops the style of JSON. A string keeps its tag, so that one that looks like a number
// is quoted.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		blockStyle(child)
	}
}
