package localrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
)

// lastRun is what run keeps of a playbook's last run, for --retry-failed.
type lastRun struct {
	Run      string                    `json:"run"`
	Playbook string                    `json:"playbook"`
	File     string                    `json:"file"`
	Hosts    map[core.Outcome][]string `json:"hosts"`
}

func lastRunFile(playbook string) (string, error) {
	dir, err := settings.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "last", fmt.Sprintf("%x.json", playbook)), nil
}

// saveLastRun replaces the record of the playbook's last run, atomically.
func saveLastRun(r runview.Report) error {
	last := lastRun{Run: r.Run, Playbook: r.Playbook, File: r.File, Hosts: map[core.Outcome][]string{}}
	for _, res := range r.Results {
		last.Hosts[res.Outcome] = append(last.Hosts[res.Outcome], res.Host)
	}
	path, err := lastRunFile(r.Playbook)
	if err != nil {
		return err
	}
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return settings.ReplaceFile(path, text)
}

// hostsToRetry are the hosts of the playbook's last run that are not as they should be.
func hostsToRetry(playbook string) (map[string]bool, error) {
	path, err := lastRunFile(playbook)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, console.Invalid("--retry-failed: no earlier run of %q is recorded here", playbook)
	}
	if err != nil {
		return nil, err
	}
	var last lastRun
	if err := json.Unmarshal(text, &last); err != nil {
		return nil, fmt.Errorf("record of the last run, %s: %w", path, err)
	}
	retry := map[string]bool{}
	for outcome, hosts := range last.Hosts {
		if outcome.Good() {
			continue
		}
		for _, h := range hosts {
			retry[h] = true
		}
	}
	return retry, nil
}
