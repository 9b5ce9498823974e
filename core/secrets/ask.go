package secrets

import "github.com/turnus/turnus/core"

// Ask is one use of a secret: its name, for whom, and what the run brought along.
type Ask struct {
	Name      string
	Tenant    string // of the run; "" is the operator's own
	Playbook  string
	Host      core.Host
	Encrypted map[string]Ref // of the run's snapshot, by name
}
