package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core/api"
)

// Names of what a launch form sends. A param is sent as param.NAME.
const (
	fieldLimit    = "limit"
	fieldTags     = "tags"
	fieldSkipTags = "skip_tags"
	fieldInFlight = "max_in_flight"
	fieldCheck    = "check"
	fieldFourEyes = "four_eyes"
	fieldSkip     = "skip"
	fieldReason   = "reason"
	fieldParam    = "param."
)

// field is one input of a launch form.
type field struct {
	Name        string // of the input
	Label       string
	Description string
	Expected    string
	Default     string
	Kind        string // text, number, list or choice
	Required    bool
	Value       string // that was sent
	Choices     []string
}

// launchForm is the form of a playbook with what was sent.
type launchForm struct {
	Params                          []field
	Limit, Tags, SkipTags, InFlight string
	Check, FourEyes                 bool
}

// formOf makes the form of a playbook.
func formOf(p api.Playbook, sent url.Values) launchForm {
	form := launchForm{
		Limit: sent.Get(fieldLimit), Tags: sent.Get(fieldTags), SkipTags: sent.Get(fieldSkipTags), InFlight: sent.Get(fieldInFlight),
		Check: sent.Get(fieldCheck) != "", FourEyes: sent.Get(fieldFourEyes) != "",
	}
	for _, param := range p.Params {
		form.Params = append(form.Params, fieldOf(param, sent.Get(fieldParam+param.Name)))
	}
	return form
}

func fieldOf(p api.Param, value string) field {
	f := field{Name: fieldParam + p.Name, Label: p.Name, Description: p.Description, Expected: p.Expected, Kind: "text", Required: p.Required, Value: value}
	if p.Default != nil {
		f.Default, f.Required = textOf(p.Default), false
	}
	switch {
	case len(p.Choices) > 0:
		f.Kind = "choice"
		for _, c := range p.Choices {
			f.Choices = append(f.Choices, textOf(c))
		}
	case p.Type == "boolean":
		f.Kind, f.Choices = "choice", []string{"true", "false"}
	case p.Type == "integer", p.Type == "number":
		f.Kind = "number"
	case p.Type == "list":
		f.Kind = "list"
	}
	return f
}

// textOf is a value as text that gives it at a launch. A list has a line for each item.
func textOf(v any) string {
	switch v := v.(type) {
	case float64: // all numbers of JSON
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		lines := make([]string, len(v))
		for i, item := range v {
			lines[i] = textOf(item)
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprint(v)
}

// launchOf is the run that a form asks for. Values are sent as text, which the API reads by the
// param's type. An empty input gives no value. The error names the input that is wrong.
func launchOf(p api.Playbook, sent url.Values) (api.NewRun, error) {
	n := api.NewRun{Playbook: p.Name, FourEyes: sent.Get(fieldFourEyes) != "", SkipNoWindow: sent.Get(fieldSkip) != ""}
	n.Limit, n.Tags, n.SkipTags = words(sent.Get(fieldLimit)), words(sent.Get(fieldTags)), words(sent.Get(fieldSkipTags))
	n.Check = sent.Get(fieldCheck) != ""
	n.Diff = n.Check // a dry run shows what would change
	if text := strings.TrimSpace(sent.Get(fieldInFlight)); text != "" {
		most, err := strconv.Atoi(text)
		if err != nil || most < 0 {
			return n, fmt.Errorf("limit of concurrent hosts %q: expected a number from 0 on; 0 is no limit", text)
		}
		n.MaxInFlight = most
	}
	for _, name := range paramsOf(sent) {
		if n.Params == nil {
			n.Params = map[string]any{}
		}
		text := sent.Get(fieldParam + name)
		n.Params[name] = text
		isList := func(param api.Param) bool { return param.Name == name && param.Type == "list" }
		var list []any
		_ = json.Unmarshal([]byte(text), &list)
		if list == nil && slices.ContainsFunc(p.Params, isList) { // else it is a list as -e has it
			n.Params[name] = lines(text)
		}
	}
	return n, nil
}

// paramsOf returns the sorted names of the params that have a value. A form that is older than the
// playbook may have others than the playbook: the API refuses them.
func paramsOf(sent url.Values) (names []string) {
	for _, field := range slices.Sorted(maps.Keys(sent)) {
		if name, is := strings.CutPrefix(field, fieldParam); is && sent.Get(field) != "" {
			names = append(names, name)
		}
	}
	return names
}

// words are texts between commas and blanks.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// lines are the lines of a text that are not empty.
func lines(text string) []string {
	all := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	return slices.DeleteFunc(all, func(line string) bool { return strings.TrimSpace(line) == "" })
}

// longestAddress bounds the query of a run's page: a server refuses long headers.
const longestAddress = 4096

// realLaunch has the values of a dry run's form for a launch that changes hosts.
func realLaunch(sent []input) string {
	q := url.Values{}
	for _, in := range sent {
		if in.Name != fieldCheck {
			q.Set(in.Name, in.Value)
		}
	}
	return q.Encode()
}

// previewQuery returns the query of a preview that has the values of realLaunch. It drops other
// values: they come with the address of a page, which anybody may write.
func previewQuery(values string) string {
	q := url.Values{"plan": {"1"}}
	sent, _ := url.ParseQuery(values) // what can be read of it
	for name := range sent {
		if slices.Contains([]string{fieldLimit, fieldTags, fieldSkipTags, fieldInFlight, fieldFourEyes}, name) || strings.HasPrefix(name, fieldParam) {
			q.Set(name, sent.Get(name))
		}
	}
	return "?" + q.Encode()
}

// input is one value that a form hands on.
type input struct{ Name, Value string }

// inputs are the values of a launch form, in a stable order.
func inputs(sent url.Values) (all []input) {
	names := []string{fieldLimit, fieldTags, fieldSkipTags, fieldInFlight, fieldCheck, fieldFourEyes}
	for _, name := range paramsOf(sent) {
		names = append(names, fieldParam+name)
	}
	for _, name := range names {
		if value := sent.Get(name); value != "" {
			all = append(all, input{name, value})
		}
	}
	return all
}
