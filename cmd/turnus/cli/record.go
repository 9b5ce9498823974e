package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// lastRun is what run keeps of a playbook's last run, for --retry-failed.
type lastRun struct {
	Run      string                    `json:"run"`
	Playbook string                    `json:"playbook"`
	File     string                    `json:"file"`
	Hosts    map[core.Outcome][]string `json:"hosts"`
}

// stateDir is where turnus keeps what it remembers between commands.
func stateDir() (string, error) {
	if dir := os.Getenv("TURNUS_STATE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "turnus"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("folder for the last run's record: %w\nhint: set TURNUS_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "turnus"), nil
}

func lastRunFile(playbook string) (string, error) {
	dir, err := stateDir()
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
	return replaceFile(path, text)
}

// replaceFile puts a file, and the folder for it, where nobody else can read it.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return securefile.Replace(path, text, 0o600)
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
