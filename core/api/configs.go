package api

import "time"

// ConfigVersion is one kept version of a host's configuration.
type ConfigVersion struct {
	Version  string    `json:"version" doc:"its commit"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	Playbook string    `json:"playbook"`
	Run      string    `json:"run"`
	Index    *int      `json:"index,omitempty" doc:"of the host's job in the run; a caller of all tenants does not get it"`
	Changed  []string  `json:"changed" doc:"files that differ from the version before"`
	Gone     []string  `json:"gone,omitempty" doc:"files that the host has no more"`
}

// ConfigDiff compares two kept versions of a host's configuration.
type ConfigDiff struct {
	Host  string           `json:"host"`
	From  string           `json:"from" doc:"empty: nothing was kept before"`
	To    string           `json:"to"`
	Files []ConfigFileDiff `json:"files"`
}

// ConfigFileDiff compares one file.
type ConfigFileDiff struct {
	Name    string `json:"name"`
	Change  string `json:"change" enum:"added,changed,gone"`
	Added   int    `json:"lines_added"`
	Removed int    `json:"lines_removed"`
	Diff    string `json:"diff" doc:"unified; of a binary or large file its size only"`
	Cut     bool   `json:"cut,omitempty" doc:"the diff is longer"`
}
