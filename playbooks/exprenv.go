package playbooks

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"

	"github.com/turnus/turnus/core"
)

// Bounds of one evaluation. Steps are rounds of all loops together; size is what it builds: bytes
// of text, 16 for each element. Values that a round drops again are not counted, so there is a
// bound of time, far beyond what is needed.
const (
	maxNodes = 500
	maxRound = 200_000
	maxBuilt = 1 << 20
	maxTime  = 5 * time.Second
)

// TargetsTime limits how long targets: takes for all hosts together: an expression may loop, and a
// reader of a commit or a launcher of a run must get an end.
const TargetsTime = 2 * time.Minute

var (
	errTooLong  = fmt.Errorf("the expression loops more than %d times", maxRound)
	errTooSlow  = fmt.Errorf("the expression loops for more than %v", maxTime)
	errTooLarge = fmt.Errorf("the expression builds more than %d MiB", maxBuilt>>20)
)

// allowance is how much one evaluation may still use. It is in the environment under a name that
// expressions cannot contain.
type allowance struct {
	rounds, built, compared int
	began                   time.Time        // the first round, or the first match
	hosts                   map[string][]any // what hosts('…') gives
}

const (
	allowanceName = "__allowance"
	roundName     = "__round"
	keepName      = "__keep"
)

func (b *allowance) round() error {
	if b.rounds++; b.rounds > maxRound {
		return errTooLong
	}
	if b.rounds%16 != 1 { // reading the clock costs as much as a round
		return nil
	}
	return b.clock()
}

func (b *allowance) clock() error {
	switch {
	case b.began.IsZero():
		b.began = time.Now()
	case time.Since(b.began) > maxTime:
		return errTooSlow
	}
	return nil
}

// keep charges a value that outlives the operation that made it.
func (b *allowance) keep(v any) error {
	b.charge(v, 0)
	if b.built > maxBuilt {
		return errTooLarge
	}
	return nil
}

func (b *allowance) charge(v any, depth int) {
	if b.built > maxBuilt {
		return
	}
	b.built += 16
	switch x := v.(type) {
	case string:
		b.built += len(x)
	case []any:
		for _, item := range x {
			b.charge(item, depth+1)
		}
	case map[string]any:
		for k, item := range x {
			b.built += len(k)
			b.charge(item, depth+1)
		}
	case nil, bool, int, float64:
	default:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Slice || r.Kind() == reflect.Map {
			b.built += 16 * r.Len()
		}
	}
}

// limits makes loops count their rounds and kept values their size.
type limits struct{}

// Visit wraps the body of each predicate and the value of each let.
func (limits) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		n.Node = &ast.SequenceNode{Nodes: []ast.Node{call(roundName), n.Node}}
	case *ast.VariableDeclaratorNode:
		n.Value = call(keepName, n.Value)
	case *ast.BuiltinNode:
		if n.Name != "reduce" && n.Name != "map" || len(n.Arguments) < 2 {
			return
		}
		if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
			p.Node = call(keepName, p.Node)
		}
	}
}

func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: append([]ast.Node{&ast.IdentifierNode{Value: allowanceName}}, args...)}
}

// environment returns the names that every expression is compiled against. Clocks, dates and time
// zones are left out: an expression gives the same on every worker.
func environment() []expr.Option {
	text := types.String
	return []expr.Option{
		expr.Env(types.Map{
			"host": types.Map{"name": text, "address": text, "customer": text, "site": text, "pool": text, "ha_group": text,
				"groups": types.Array(text), "labels": types.Any, "vars": types.Any, "facts": types.Any},
			"vars": types.Any, "params": types.Any, "steps": types.Any, "item": types.Any, "run": types.Any, "error": types.Any, "secrets": types.Any, allowanceName: types.Any,
		}),
		expr.DisableBuiltin("now"), expr.DisableBuiltin("date"), expr.DisableBuiltin("duration"), expr.DisableBuiltin("timezone"),
		expr.DisableBuiltin("replace"), expr.DisableBuiltin("repeat"), expr.DisableBuiltin("join"),
		expr.Function("default", defaultTo, new(func(any, any) any)),
		expr.Function("has_group", hasGroup, new(func(map[string]any, string) bool)),
		expr.Function("cidr_contains", cidrContains, new(func(string, string) bool)),
		expr.Function("replace", replaceAll, new(func(string, string, string) string)),
		expr.Function("repeat", repeatText, new(func(string, int) string)),
		expr.Function("join", joinTexts, new(func([]any, string) string), new(func([]any) string)),
		expr.Function(roundName, func(args ...any) (any, error) { return nil, args[0].(*allowance).round() }, new(func(any) any)),
		expr.Function(keepName, func(args ...any) (any, error) { return args[1], args[0].(*allowance).keep(args[1]) }, new(func(any, any) any)),
		expr.Function(matchName, matchText, new(func(any, any, any) bool)),
		expr.Function(uniqName, uniqueItems, new(func(any, any) []any)),
		expr.Optimize(false), // it folds ranges into constants, a million elements each, past every allowance
		hostsFunction(),
		expr.Patch(limits{}), expr.Patch(hostCalls{}), expr.Patch(heavy{}),
	}
}

func functionNames() []string { return []string{"default", "has_group", "cidr_contains", hostsWord} }

func defaultTo(args ...any) (any, error) {
	if args[0] == nil || args[0] == "" {
		return args[1], nil
	}
	return args[0], nil
}

func hasGroup(args ...any) (any, error) {
	host, _ := args[0].(map[string]any)
	groups, ok := host["groups"].([]any)
	if !ok {
		return nil, errors.New("has_group needs the host: has_group(host, \"name\")")
	}
	if slices.Contains(groups, args[1]) {
		return true, nil
	}
	return false, nil
}

// cidrContains reports whether an IP address is in a network. A text that is no IP address, such as
// a DNS name, is in none.
func cidrContains(args ...any) (any, error) {
	network, ok1 := args[0].(string)
	address, ok2 := args[1].(string)
	if !ok1 || !ok2 {
		return nil, errors.New("cidr_contains needs two texts: cidr_contains(\"10.0.0.0/8\", host.address)")
	}
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return nil, fmt.Errorf("cidr_contains: %s is not a network such as 10.0.0.0/8", quote(network))
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && prefix.Contains(ip.Unmap()), nil
}

func replaceAll(args ...any) (any, error) {
	s, old, with, ok := threeTexts(args)
	if !ok {
		return nil, errors.New("replace needs three texts: replace(text, old, new)")
	}
	if len(with) > 0 && (strings.Count(s, old)+1)*len(with) > maxBuilt {
		return nil, errTooLarge
	}
	return strings.ReplaceAll(s, old, with), nil
}

func threeTexts(args []any) (a, b, c string, ok bool) {
	if len(args) != 3 {
		return "", "", "", false
	}
	a, ok1 := args[0].(string)
	b, ok2 := args[1].(string)
	c, ok3 := args[2].(string)
	return a, b, c, ok1 && ok2 && ok3
}

func repeatText(args ...any) (any, error) {
	s, ok1 := args[0].(string)
	n, ok2 := args[1].(int)
	switch {
	case !ok1 || !ok2 || n < 0:
		return nil, errors.New("repeat needs a text and a number: repeat(text, 3)")
	case n > maxBuilt || n*len(s) > maxBuilt:
		return nil, errTooLarge
	}
	return strings.Repeat(s, n), nil
}

func joinTexts(args ...any) (any, error) {
	sep := ""
	if len(args) > 1 {
		sep, _ = args[1].(string)
	}
	r := reflect.ValueOf(args[0])
	if args[0] == nil || r.Kind() != reflect.Slice {
		return nil, errors.New("join needs a list of texts")
	}
	var b strings.Builder
	for i := range r.Len() {
		s, ok := reflect.TypeAssert[string](r.Index(i))
		if !ok {
			return nil, fmt.Errorf("join: element %d is %s, not text", i, describe(r.Index(i).Interface()))
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
		if b.Len() > maxBuilt {
			return nil, errTooLarge
		}
	}
	return b.String(), nil
}

// reads lists what an expression reads, so that only that is made for each host.
type reads struct {
	host                     map[string]bool // fields; nil: none
	vars, params, steps, run bool
	failure                  bool            // error
	age                      bool            // a field age, which may be that of host.facts
	results                  map[string]bool // steps whose outputs or stdout it may read; "" is any step
	ends                     map[string]bool // steps of which it reads how they ended; true: also exit_code
	secret                   string          // the one that it is, by its name in the step
}

// values is the environment of one evaluation.
func (c *code) values(env Env, b *allowance) map[string]any {
	out := make(map[string]any, 8)
	out[allowanceName] = b
	if c.reads.host != nil {
		out["host"] = c.hostValues(env.Host)
	}
	if c.reads.vars {
		out["vars"] = orEmpty(env.Vars)
	}
	if c.reads.params {
		out["params"] = orEmpty(env.paramsOf(c.within))
	}
	if c.reads.run {
		out["run"] = orEmpty(env.Run)
	}
	if c.reads.failure {
		out["error"] = orEmpty(env.Error)
	}
	if c.reads.steps {
		steps := make(map[string]any, len(c.steps))
		for _, name := range c.steps {
			if r := env.Steps[c.full(name)]; r["outputs"] != nil {
				steps[name] = r
			} else {
				steps[name] = withOutputs(r)
			}
		}
		out["steps"] = steps
	}
	if c.reads.secret != "" {
		out["secrets"] = map[string]any{c.reads.secret: env.Secrets[c.reads.secret]}
	}
	out["item"] = env.Item
	return out
}

// paramsOf returns the params that the file of an include reads; "" is the playbook itself.
func (e Env) paramsOf(include string) map[string]any {
	if include == "" {
		return e.Params
	}
	return e.Included[include]
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// withOutputs lets steps.X.outputs.Y be nil, not an error, for a step without any.
func withOutputs(r map[string]any) map[string]any {
	out := make(map[string]any, len(r)+1)
	maps.Copy(out, r)
	out["outputs"] = map[string]any{}
	return out
}

func (c *code) hostValues(h core.Host) map[string]any {
	out := make(map[string]any, len(c.reads.host))
	for field := range c.reads.host {
		if out[field] = hostField(h, field); field == factsField && c.reads.age {
			out[field] = withAge(h) // elsewhere left out: all facts written as text are the same in each run
		}
	}
	return out
}

func hostField(h core.Host, field string) any {
	switch field {
	case "name":
		return h.Name
	case "address":
		return h.Target()
	case "customer":
		return h.Customer
	case "site":
		return h.Site
	case "pool":
		return h.Pool
	case "ha_group":
		return h.HAGroup
	case "vars":
		return orEmpty(h.Vars)
	case "facts":
		return orEmpty(h.Facts)
	case "labels":
		labels := make(map[string]any, len(h.Labels))
		for k, v := range h.Labels {
			labels[k] = v
		}
		return labels
	case "groups":
		return core.Map(h.Groups, func(g string) any { return g })
	}
	return nil
}
