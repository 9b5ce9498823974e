package firmware

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// rauc drives devices that run the RAUC service.
type rauc struct {
	artifact Artifact
	version  string // command
}

const osVersion = `. /etc/os-release && echo "${IMAGE_VERSION:-$VERSION_ID}"`

func (d *rauc) questions() []question {
	return []question{
		{"version", cmp.Or(d.version, osVersion)},
		{"status", "rauc status --detailed --output-format=json 2>/dev/null"},
	}
}

// raucStatus is the JSON of rauc status.
type raucStatus struct {
	Compatible string                `json:"compatible"`
	Primary    string                `json:"boot_primary"`
	Slots      []map[string]raucSlot `json:"slots"` // one entry each
}

type raucSlot struct {
	Class    string `json:"class"`
	Bootname string `json:"bootname"`
	State    string `json:"state"`       // booted, inactive, …
	Boot     string `json:"boot_status"` // good, bad
	Status   struct {
		Bundle struct {
			Version string `json:"version"`
		} `json:"bundle"`
		Status string `json:"status"`
	} `json:"slot_status"`
}

func (d *rauc) facts(a answers) (facts, error) {
	version, err := a.text("version")
	if err != nil {
		return facts{}, err
	}
	raw, err := a.text("status")
	if err != nil {
		return facts{}, err
	}
	var status raucStatus
	if err := json.Unmarshal([]byte(raw), &status); err != nil {
		return facts{}, unclear("rauc status: %w", err)
	}
	f := facts{Version: version, Compatible: status.Compatible, Primary: status.Primary}
	class := ""
	for _, entry := range status.Slots {
		for name, s := range entry {
			if s.State == "booted" && s.Bootname != "" {
				f.Slot, f.Good, class = name, s.Boot == "good", s.Class
			}
		}
	}
	if f.Slot == "" {
		return facts{}, unclear("rauc status shows no booted slot")
	}
	for _, entry := range status.Slots {
		for name, s := range entry {
			if name == f.Slot || s.Class != class || s.Bootname == "" {
				continue
			}
			if f.Other != "" {
				return facts{}, errors.New("rauc: more than two slots to boot from are not supported")
			}
			if f.Other = name; s.Status.Status == "ok" {
				f.Installed = s.Status.Bundle.Version
			}
		}
	}
	return f, nil
}

// verify: without a keyring rauc info fails, and so it does for a bundle that was changed.
func (d *rauc) verify(file string) string { return "rauc info --output-format=json " + sdk.Quote(file) }

func (d *rauc) verified(stdout string, f facts) error {
	var info struct{ Compatible, Version string }
	text := strings.TrimSpace(stdout)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return fmt.Errorf("rauc info: %w", err)
	}
	switch {
	case info.Compatible != f.Compatible:
		return fmt.Errorf("the bundle is for %q, the device is %q", info.Compatible, f.Compatible)
	case info.Version != d.artifact.Version:
		return fmt.Errorf("the bundle holds version %q, expected %q", info.Version, d.artifact.Version)
	}
	return nil
}

func (d *rauc) install(file, _ string) string { return "rauc install " + sdk.Quote(file) }

func (d *rauc) slot(what slotAction, slot string) string {
	if what == activate {
		return "rauc status mark-active " + sdk.Quote(slot)
	}
	return "rauc status mark-good booted"
}
