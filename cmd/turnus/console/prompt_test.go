package console

import (
	"bufio"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestAsk(t *testing.T) {
	number := func(s string) error {
		if strings.Trim(s, "0123456789") != "" {
			return errors.New("expected a number")
		}
		return nil
	}
	questions := []Question{
		{Name: "release", Expected: "text", Description: "Version"},
		{Name: "port", Expected: "a number", Default: 80, Accept: number},
	}
	for in, want := range map[string]map[string]any{
		"1.0\n\n":          {"release": "1.0"},
		"\n1.0\nx\n8080\n": {"release": "1.0", "port": "8080"},
		"1.0\n8080":        {"release": "1.0", "port": "8080"},
		"\n\n\n":           nil, // three times no answer
		"1.0\nx\nx\nx\n":   nil,
		"":                 nil,
	} {
		var out strings.Builder
		got, err := ask(bufio.NewReader(strings.NewReader(in)), &out, questions)
		if !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v; asked %q", in, got, err, out.String())
		}
		if !strings.HasPrefix(out.String(), "release (Version: text): ") {
			t.Errorf("%q: asked %q", in, out.String())
		}
	}
}
