package login

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Rules define what people may do by what their provider claims of them. The first that holds
// counts; without one there is no access.
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

var tenantName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^\x00-\x20\x7f/]{1,128}$`) })

// ParseRules reads a file's text; path is for errors, which name line and column and wrap
// core.ErrInvalid. roles are those that there are.
func ParseRules(path string, text []byte, roles []string) (Rules, error) {
	var problems yamlread.Problems
	var r Rules
	in, root := problems.Open(path, text)
	if root == nil && len(problems) == 0 {
		return Rules{}, fmt.Errorf("%s: it is empty, expected access: with a list of rules: %w", path, core.ErrInvalid)
	}
	if root != nil {
		access := in.Each("access", maxRules, func(n *yaml.Node) {
			var rule Rule
			in.Mapping(n, "the rule",
				yamlread.Value(in, "claim", &rule.Claim, word).Needed(),
				yamlread.Value(in, "value", &rule.Value, word).Needed(),
				yamlread.Value(in, "tenant", &rule.Tenant, tenant).Needed(),
				yamlread.Choice(in, "role", &rule.Role, roles...).Needed())
			r.Access = append(r.Access, rule)
		})
		in.Mapping(root, "the file", access.Needed())
	}
	if err := problems.Err(); err != nil {
		return Rules{}, err
	}
	return r, nil
}

func word(text string) (string, error) {
	if text == "" || len(text) > maxWord {
		return "", yamlread.Fault{Expected: fmt.Sprintf("a text of 1 to %d bytes", maxWord)}
	}
	return text, nil
}

func tenant(text string) (string, error) {
	if text != Everyone && !tenantName().MatchString(text) {
		return "", yamlread.Fault{Expected: fmt.Sprintf("a name without blanks and /, or %q for all tenants", Everyone)}
	}
	return word(text)
}

// RulesFile returns the rules of a file, read again when it changes: a person who is removed from
// it has no access from the next login on. A file that cannot be read, or is wrong, lets nobody in.
func RulesFile(path string, roles []string) func() (Rules, error) {
	watch := securefile.NewWatch(path)
	var mu sync.Mutex
	rules, err := readRules(path, roles)
	return func() (Rules, error) {
		mu.Lock()
		defer mu.Unlock()
		if watch.Changed(securefile.MaxAge) {
			if rules, err = readRules(path, roles); err != nil {
				watch.Again() // the cause may end without a change of the file
			}
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
