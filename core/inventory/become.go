package inventory

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// become is one layer's rule of becoming another user; nil and "" leave it to the layer below.
type become struct {
	always       *bool
	user, method string
}

func (b *become) over(top become) {
	if top.always != nil {
		b.always = top.always
	}
	override(&b.user, top.user)
	override(&b.method, top.method)
}

func (b *become) host() core.HostBecome {
	return core.HostBecome{Always: b.always != nil && *b.always, Become: core.Become{User: b.user, Method: b.method}}
}

// becomeField reads {always: true, user: app, method: doas}.
func (t *turnus) becomeField(s *settings) field {
	return field{Key: "become", Read: func(v *yaml.Node) { t.Mapping(v, "become", t.becomeFields(s)...) }}
}

func (t *turnus) becomeFields(s *settings) []field {
	return []field{
		yamlread.Value(t.Reader, "always", &s.become.always, func(text string) (*bool, error) {
			on, ok := truth(text)
			if !ok {
				return nil, yamlread.Fault{Expected: "true or false"}
			}
			return &on, nil
		}),
		yamlread.Value(t.Reader, "user", &s.become.user, func(text string) (string, error) {
			if text == "" || (core.Become{User: text}).Check() != nil {
				return "", yamlread.Fault{Expected: "a user name such as root"}
			}
			return text, nil
		}),
		yamlread.Value(t.Reader, "method", &s.become.method, func(text string) (string, error) {
			if text == "" || (core.Become{Method: text}).Check() != nil {
				return "", yamlread.Fault{Expected: core.BecomeSudo + " or " + core.BecomeDoas}
			}
			return text, nil
		}),
	}
}

// ansibleBecome applies a var of Ansible; false when it is none of these.
func (f *file) ansibleBecome(into *settings, key, text string, line, col int) bool {
	switch key {
	case "ansible_become":
		on, ok := truth(text)
		if !ok {
			f.fail(line, col, "ansible_become: %q is neither true nor false", text)
			return true
		}
		into.become.always = &on
	case "ansible_become_user":
		if text == "" || (core.Become{User: text}).Check() != nil {
			f.fail(line, col, "ansible_become_user: %q is no user name", text)
			return true
		}
		into.become.user = text
	case "ansible_become_method":
		if text == "" || (core.Become{Method: text}).Check() != nil {
			f.warn(line, col, "ansible_become_method=%s is not supported, expected %s or %s: sudo is used", text, core.BecomeSudo, core.BecomeDoas)
			return true
		}
		into.become.method = text
	case "ansible_become_password", "ansible_become_pass", "ansible_sudo_pass":
		if text != "" {
			f.ownLogin(key, line, col, true)
			into.login.BecomePassword = text
		}
	default:
		return false
	}
	return true
}

// truth reads a boolean as Ansible writes it.
func truth(text string) (on, ok bool) {
	switch strings.ToLower(text) {
	case "yes", "on":
		return true, true
	case "no", "off":
		return false, true
	}
	on, err := strconv.ParseBool(strings.ToLower(text))
	return on, err == nil
}
