package login

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Rules say what people may do by what their provider claims of them. The first that holds counts; without one there is no access.
type Rules struct{ Access []Rule }

// Rule is one of them.
type Rule struct {
	Claim  string // as groups, email (if it is verified), realm_access.roles
	Value  string // that the claim is, or lists
	Tenant string // Everyone: all
	Role   string
}

const (
	maxRules = 1000
	maxFile  = 1 << 20
	maxWord  = 256
)

var tenantName = regexp.MustCompile(`^[^\x00-\x20\x7f/]{1,128}$`)

// ParseRules reads a file's text; path is for errors, which name line and column and wrap core.ErrInvalid. roles are those that there are.
func ParseRules(path string, text []byte, roles []string) (Rules, error) {
	bad := func(n *yaml.Node, format string, args ...any) error {
		return fmt.Errorf("%s:%d:%d: %s: %w", path, n.Line, n.Column, fmt.Sprintf(format, args...), core.ErrInvalid)
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return Rules{}, fmt.Errorf("%s: it is empty, expected access: with a list of rules: %w", path, core.ErrInvalid)
	}
	if err != nil {
		return Rules{}, fmt.Errorf("%s: %w: %w", path, err, core.ErrInvalid)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode || len(top.Content) != 2 || top.Content[0].Value != "access" || top.Content[1].Kind != yaml.SequenceNode {
		return Rules{}, bad(top, "expected one key, access:, with a list of rules")
	}
	if n := len(top.Content[1].Content); n > maxRules {
		return Rules{}, bad(top, "%d rules, expected at most %d", n, maxRules)
	}
	var r Rules
	for _, node := range top.Content[1].Content {
		rule, err := parseRule(node, roles, bad)
		if err != nil {
			return Rules{}, err
		}
		r.Access = append(r.Access, rule)
	}
	return r, nil
}

func parseRule(node *yaml.Node, roles []string, bad func(*yaml.Node, string, ...any) error) (Rule, error) {
	var rule Rule
	fields := map[string]*string{"claim": &rule.Claim, "value": &rule.Value, "tenant": &rule.Tenant, "role": &rule.Role}
	names := []string{"claim", "value", "tenant", "role"}
	if node.Kind != yaml.MappingNode {
		return rule, bad(node, "expected a rule with claim, value, tenant and role")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		to, known := fields[key.Value]
		switch {
		case !known:
			return rule, bad(key, "key %q, expected claim, value, tenant or role%s", key.Value, hintOf(key.Value, names))
		case *to != "":
			return rule, bad(key, "%s is there twice", key.Value)
		case value.Kind != yaml.ScalarNode || value.Value == "" || len(value.Value) > maxWord:
			return rule, bad(value, "%s: expected a text of 1 to %d bytes", key.Value, maxWord)
		case key.Value == "role" && !slices.Contains(roles, value.Value):
			return rule, bad(value, "role %q, expected one of %s%s", value.Value, strings.Join(roles, ", "), hintOf(value.Value, roles))
		case key.Value == "tenant" && value.Value != Everyone && !tenantName.MatchString(value.Value):
			return rule, bad(value, "tenant %q: expected a name without blanks and /, or %q for all tenants", value.Value, Everyone)
		}
		*to = value.Value
	}
	for _, name := range names {
		if *fields[name] == "" {
			return rule, bad(node, "the rule has no %s", name)
		}
	}
	return rule, nil
}

func hintOf(word string, words []string) string {
	if hint := yamlread.DidYouMean(word, words); hint != "" {
		return "; " + hint
	}
	return ""
}

// RulesFile gives what a file says, read again when it changes: who is taken out of it has no access from the next login on. A file that
// cannot be read, or is wrong, lets nobody in.
func RulesFile(path string, roles []string) func() (Rules, error) {
	watch := securefile.NewWatch(path)
	var mu sync.Mutex
	rules, err := readRules(path, roles)
	return func() (Rules, error) {
		mu.Lock()
		defer mu.Unlock()
		if watch.Changed(securefile.MaxAge) {
			rules, err = readRules(path, roles)
		}
		return rules, err
	}
}

func readRules(path string, roles []string) (Rules, error) {
	text, err := securefile.Read(path, securefile.Rule{Most: maxFile, Shut: 0o022})
	if open, ok := errors.AsType[*securefile.ModeError](err); ok {
		return Rules{}, fmt.Errorf("access file %s: others may write it (mode %04o), and with it who is an admin\nhint: chmod go-w: %w", path, open.Mode, core.ErrInvalid)
	}
	if err != nil {
		return Rules{}, fmt.Errorf("access file: %w: %w", err, core.ErrInvalid)
	}
	return ParseRules(path, text, roles)
}
