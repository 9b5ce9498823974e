package console

import (
	"bufio"
	"errors"
	"io"
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
		{Name: "release", Expected: "text", Description: "Version", Required: true},
		{Name: "port", Expected: "a number", Default: 80, Accept: number},
		{Name: "note", Expected: "text", Accept: number},
	}
	for in, want := range map[string]map[string]any{
		"1.0\n\n\n":           {"release": "1.0"},
		"\n1.0\nx\n8080\n7\n": {"release": "1.0", "port": "8080", "note": "7"},
		"1.0\n8080\n7":        {"release": "1.0", "port": "8080", "note": "7"},
		"\n\n\n":              nil, // three times no answer
		"1.0\n\n":             nil, // an end of the input is no empty answer
		"1.0\nx\nx\nx\n":      nil,
		"":                    nil,
	} {
		var out strings.Builder
		got, err := ask(bufio.NewReader(strings.NewReader(in)), &out, questions)
		if !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v; asked %q", in, got, err, out.String())
		}
		if !strings.HasPrefix(out.String(), "release (Version: text): ") {
			t.Errorf("%q: asked %q", in, out.String())
		}
		if want != nil && !strings.Contains(out.String(), "note (text, may be empty): ") {
			t.Errorf("%q: asked %q", in, out.String())
		}
	}
}

// If there is nothing to ask, as in CI with all values given, no terminal is needed. Control: one
// question.
func TestPromptWithoutQuestions(t *testing.T) {
	c := New(strings.NewReader(""), io.Discard, io.Discard)
	if answers, err := c.Prompt(t.Context(), nil); err != nil || len(answers) != 0 {
		t.Errorf("%v, %v", answers, err)
	}
	if _, err := c.Prompt(t.Context(), []Question{{Name: "release"}}); err == nil {
		t.Error("a question without a terminal was asked")
	}
}
