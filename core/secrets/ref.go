package secrets

import (
	"regexp"
	"sync"
)

// Bounds.
const (
	MinValue     = 4         // bytes of one value, the white space around it left out: a shorter one is in every text
	MaxValue     = 64 << 10  // bytes of one value
	MaxNames     = 10_000    // of one file
	MaxEncrypted = 256 << 10 // bytes of armored ciphertext, for a value and its recipients
	maxName      = 128       // bytes
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`) })

// ValidName reports whether a secret may be named so: a letter or _, then letters, digits, and the
// characters _ . and -.
func ValidName(name string) bool { return len(name) <= maxName && nameForm().MatchString(name) }

// Ref is where a secret's value is, and who may use it. It holds no value: Age is ciphertext.
// Exactly one of its kinds is set. References of a definitions tree are of the kinds Vault and Age
// only, so that a commit reads no file and runs nothing on workers.
type Ref struct {
	Env     string   `json:"env,omitempty"`     // name of an environment variable of the node
	File    string   `json:"file,omitempty"`    // path on the node
	Command string   `json:"command,omitempty"` // a line for /bin/sh of the node
	Argv    []string `json:"argv,omitempty"`    // the same without a shell; command: [a, b] in YAML
	Vault   string   `json:"vault,omitempty"`   // MOUNT/PATH#FIELD
	Age     string   `json:"age,omitempty"`     // armored ciphertext
	Limits
}

// Limits define who may use a secret. An empty field does not limit.
type Limits struct {
	Tenants   []string `json:"tenants,omitempty"`   // of the run
	Playbooks []string `json:"playbooks,omitempty"` // by name
	Hosts     string   `json:"hosts,omitempty"`     // an expression over host, as in targets:
}

// Kind is the word that YAML has for where the value is, or "".
func (r Ref) Kind() string {
	switch {
	case r.Env != "":
		return kindEnv
	case r.File != "":
		return kindFile
	case r.Command != "", len(r.Argv) > 0:
		return kindCommand
	case r.Vault != "":
		return kindVault
	case r.Age != "":
		return kindAge
	}
	return ""
}

// Travels reports whether a run may bring the reference to other nodes.
func (r Ref) Travels() bool { k := r.Kind(); return k == kindVault || k == kindAge }

// The kinds of references, as YAML has them.
const (
	kindEnv     = "env"
	kindFile    = "file"
	kindCommand = "command"
	kindVault   = "vault"
	kindAge     = "age"
)
