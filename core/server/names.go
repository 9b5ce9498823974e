package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
)

// strictNames makes the validation of bodies take names as they are written. Otherwise NAME is also
// name: the validation sees one of both, and the decoder takes the other. It is a switch of the
// library for the whole process.
var strictNames = sync.OnceFunc(func() { huma.ValidateStrictCasing = true })

// strictJSON is JSON without objects that have a name twice. Such a field could be validated as
// null, and decoded as its first value. Bytes that are not UTF-8 are refused: the decoder replaces
// them without an error.
func strictJSON() huma.Format {
	f := huma.DefaultJSONFormat
	decode := f.Unmarshal
	f.Unmarshal = func(data []byte, v any) error {
		if !utf8.Valid(data) {
			return fmt.Errorf("the body is not UTF-8: %w", core.ErrInvalid)
		}
		err := decode(data, v)
		if _, validated := v.(*any); validated && err == nil {
			err = uniqueNames(data)
		}
		return err
	}
	return f
}

// uniqueNames returns an error if an object of valid JSON has a name twice.
func uniqueNames(data []byte) error { return uniqueIn(json.NewDecoder(bytes.NewReader(data))) }

// uniqueIn is uniqueNames of the next value.
func uniqueIn(d *json.Decoder) error {
	begin, err := d.Token()
	if err != nil {
		return err
	}
	switch begin {
	case json.Delim('{'):
		seen := map[json.Token]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("the name %.100q is there twice in one object: %w", name, core.ErrInvalid)
			}
			seen[name] = true
			if err := uniqueIn(d); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for d.More() {
			if err := uniqueIn(d); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token() // its end
	return err
}
