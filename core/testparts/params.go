package testparts

// Params is the params of a playbook, for ParamRows.
const Params = `params:
  release: {type: string, pattern: '\d+\.\d+', required: true, description: Version}
  mode: {type: string, choices: [canary, full], default: canary}
  port: {type: integer, min: 1, max: 65535, default: 80}
  load: {type: number, default: 0.5}
  drain: {type: boolean, default: false}
  zones: {type: list, default: [a, b]}
  db: {type: secret, default: shop.db}
  note: {type: string}
`

// ParamRow is a value for one of Params in a launch. The other params have no value, except that
// release is 1.0.
type ParamRow struct {
	Name string
	Text string // as people type it; "": nobody does
	JSON any    // as a client or a file sends it; nil: it does not
	Want any    // value of the param in the launch
	Says string // part of the error of a launch that is refused; "": it is not
}

// ParamRows is the one table of values for every way to give a param: the command line, questions,
// the API, schedules and the forms of pages. A row without Text and JSON gives no value.
func ParamRows() []ParamRow {
	const number = "write the value in quotes"
	return []ParamRow{
		{Name: "release", Text: "1.10", JSON: "1.10", Want: "1.10"},
		{Name: "release", JSON: 1.1, Says: number}, // it was 1.10
		{Name: "release", Text: "1.10-rc1", JSON: "1.10-rc1", Says: "expected text that matches"},
		{Name: "release", JSON: "", Says: "expected text that matches"}, // empty text is a value
		{Name: "release", Says: "expected text that matches"},
		{Name: "relase", Text: "1.0", JSON: "1.0", Says: "relase"},
		{Name: "mode", Text: "full", JSON: "full", Want: "full"},
		{Name: "mode", Text: "Full", JSON: "Full", Says: "expected one of: canary, full"},
		{Name: "mode", JSON: true, Says: "expected one of: canary, full"},
		{Name: "mode", Want: "canary"},
		{Name: "port", Text: "8080", JSON: 8080, Want: 8080},
		{Name: "port", JSON: "8080", Want: 8080},
		{Name: "port", JSON: 80.5, Says: "expected a whole number from 1 to 65535"},
		{Name: "port", Text: "65536", JSON: 65536, Says: "expected a whole number from 1 to 65535"},
		{Name: "port", Text: "many", JSON: "many", Says: "expected a whole number"},
		{Name: "port", JSON: "", Says: "expected a whole number"},
		{Name: "port", Want: 80},
		{Name: "load", Text: "0.25", JSON: 0.25, Want: 0.25},
		{Name: "load", Text: "2", JSON: 2, Want: 2.0},
		{Name: "load", Text: "NaN", JSON: "NaN", Says: "expected a number"},
		{Name: "drain", Text: "true", JSON: true, Want: true},
		{Name: "drain", Text: "yes", JSON: 1, Says: "expected true or false"},
		{Name: "zones", Text: `["c", "d"]`, JSON: []any{"c", "d"}, Want: []any{"c", "d"}},
		{Name: "zones", Text: "c", JSON: []any{1}, Says: "expected a list of texts"},
		{Name: "db", Text: "shop.other", JSON: "shop.other", Want: "shop.other"},
		{Name: "db", Text: "hunter2 is my password", JSON: 5, Says: "expected the name of a secret"},
		{Name: "note", Text: "hello", JSON: "hello", Want: "hello"},
		{Name: "note", JSON: 5, Says: number},
		{Name: "note", JSON: "a\x00b", Says: "expected text without a NUL byte"},
		{Name: "zones", JSON: `["c", "a\u0000b"]`, Says: "expected text without a NUL byte"},
		{Name: "note"},
	}
}
