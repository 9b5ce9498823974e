package launch

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// KeysName is the name of the playbook of a run that collects host keys, and of its one job type.
const KeysName = "hostkeys"

// keysFile is Snapshot.File of such a run. No playbook of a project has it.
const keysFile = "turnus hostkeys scan"

// KeysPlaybook returns the playbook of a run that collects host keys. The step waits for no window:
// it changes nothing, and logs in to jump hosts only.
func KeysPlaybook(tenant string, types func(string) (playbooks.Type, bool)) (*playbooks.Playbook, error) {
	source, err := yaml.Marshal(commandPlaybook{Playbook: KeysName, Targets: "true", Tenant: tenant, Steps: []commandStep{{Name: "scan", Uses: KeysName}}})
	if err != nil {
		return nil, fmt.Errorf("scan host keys: write its playbook: %w", err)
	}
	p, err := playbooks.Parse(keysFile, source, playbooks.Options{Types: types})
	if err != nil {
		return nil, fmt.Errorf("scan host keys: %w: %w", core.ErrInvalid, err)
	}
	return p, nil
}

// ScansKeys reports whether a launch collects host keys, whatever the name of its playbook is.
func ScansKeys(l *Launch) bool { return l.Snapshot.File == keysFile }
