// Package templates owns how files that are Go templates are read: a check before a run accepts the
// same files as the run.
//
// It must not know where a file is from, nor what its values are.
package templates

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// Most is the most bytes that a template has.
const Most = 1 << 20

// Parse reads a text/template. Its functions are default, join, lower, upper, trim, and quote for a
// word of a shell. A name that is missing when it is executed is an error. An error begins with
// NAME:LINE.
func Parse(name, text string, quote func(string) string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"default": func(fallback, value any) any {
			if truth, _ := template.IsTrue(value); truth {
				return value
			}
			return fallback
		},
		"join": func(separator string, list []any) string {
			words := make([]string, len(list))
			for i, item := range list {
				words[i] = fmt.Sprint(item)
			}
			return strings.Join(words, separator)
		},
		"lower": strings.ToLower, "upper": strings.ToUpper, "trim": strings.TrimSpace, "quote": quote,
	}).Parse(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return t, nil
}
