package core

import (
	"fmt"
	"strings"
)

// Programs that run a command as another user.
const (
	BecomeSudo = "sudo"
	BecomeDoas = "doas"
)

// Become is the user as whom a host runs commands, and reads and writes files. The zero value is
// the login itself.
type Become struct {
	User   string `json:"user,omitempty"`
	Method string `json:"method,omitempty"` // BecomeSudo when empty
}

// Check returns an error, which wraps ErrInvalid, if b names no user or program that can be.
func (b Become) Check() error {
	switch {
	case b.Method != "" && b.Method != BecomeSudo && b.Method != BecomeDoas:
		return fmt.Errorf("become method %q: expected %s or %s: %w", b.Method, BecomeSudo, BecomeDoas, ErrInvalid)
	case b.User != "" && !userName(b.User):
		return fmt.Errorf("become user %q: expected a user name or a numeric id: %w", b.User, ErrInvalid)
	}
	return nil
}

// userName reports whether s may be a user of a POSIX system: portable characters, and no leading
// hyphen. A name is bounded as useradd bounds it, with room for names of directories (DOMAIN\user
// is left out).
func userName(s string) bool {
	return len(s) <= 64 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@") == ""
}

// rootUser is the user of a rule without one.
const rootUser = "root"

// BecomeRule is the rule of a playbook, a step or a command line for becoming another user.
type BecomeRule struct {
	On   bool   `json:"on,omitempty"`   // false: the login itself
	User string `json:"user,omitempty"` // the host's, or root, when empty
}

// HostBecome is the inventory's rule for becoming another user.
type HostBecome struct {
	Become
	Always bool `json:"always,omitempty"` // also where no rule asks for it
}

// As returns as which user a step runs on the host: the rule counts; where none is given, the
// inventory.
func (h Host) As(rule *BecomeRule) Become {
	b := h.Become.Become
	switch {
	case rule == nil && !h.Become.Always, rule != nil && !rule.On:
		return Become{}
	case rule != nil && rule.User != "":
		b.User = rule.User
	case b.User == "":
		b.User = rootUser
	}
	return b
}
