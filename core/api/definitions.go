package api

import "time"

// Host is a managed machine as the inventory has it, without its secrets' names.
type Host struct {
	Name      string            `json:"name"`
	Address   string            `json:"address,omitempty"`
	Customer  string            `json:"customer,omitempty"`
	Site      string            `json:"site,omitempty"`
	Pool      string            `json:"pool,omitempty"`
	HAGroup   string            `json:"ha_group,omitempty"`
	WindowSet string            `json:"window_set,omitempty"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Playbook is a playbook of the definitions.
type Playbook struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Tenant      string    `json:"tenant"`
	File        string    `json:"file"`
	Revision    string    `json:"revision,omitempty"`
	Window      string    `json:"window,omitempty"`
	Schedule    string    `json:"schedule,omitempty" doc:"its cron expression"`
	Params      []Param   `json:"params,omitempty" doc:"inputs of a launch"`
	Steps       []string  `json:"steps"`
	Handlers    []string  `json:"handlers,omitempty" doc:"names"`
	Source      string    `json:"source,omitempty" doc:"in the view of one playbook only"`
	Changed     time.Time `json:"changed,omitzero"`
}

// Param is one input of a launch of a playbook.
type Param struct {
	Name        string   `json:"name"`
	Type        string   `json:"type" enum:"string,integer,number,boolean,list,secret"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty" doc:"a launch without a value is refused"`
	Pattern     string   `json:"pattern,omitempty" doc:"regular expression (RE2) that the whole text matches"`
	Choices     []any    `json:"choices,omitempty" doc:"the values that there are"`
	Min         *float64 `json:"min,omitempty"`
	Max         *float64 `json:"max,omitempty"`
	Default     any      `json:"default,omitempty"`
	Expected    string   `json:"expected" doc:"the values that there are, in words"`
}

// Definitions is the server's present playbooks, inventory and windows.
type Definitions struct {
	Revision  string    `json:"revision,omitempty"`
	ETag      string    `json:"etag"`
	Source    string    `json:"source" doc:"git, folder or apply"`
	Author    string    `json:"author,omitempty"`
	Subject   string    `json:"subject,omitempty"`
	Applied   time.Time `json:"applied,omitzero"`
	Playbooks int       `json:"playbooks"`
	Hosts     int       `json:"hosts"`
	Windows   int       `json:"window_sets"`
	Schedules int       `json:"schedules"`
	Rejected  *Rejected `json:"rejected,omitempty" doc:"a newer revision that was not taken"`
}

// DefinitionChanges lists the differences between the present definitions and those before them.
type DefinitionChanges struct {
	From    string    `json:"from,omitempty" doc:"the revision before"`
	To      string    `json:"to,omitempty" doc:"the present revision"`
	At      time.Time `json:"at,omitzero" doc:"windows and fire times are counted from here; absent of the first project, which changes nothing"`
	Changes []Change  `json:"changes" doc:"by kind, then by name; at most 500"`
	LeftOut int       `json:"left_out,omitempty" doc:"further changes"`
}

// Rejected is a revision of the definitions that is wrong.
type Rejected struct {
	Revision string    `json:"revision"`
	Author   string    `json:"author,omitempty"`
	Since    time.Time `json:"since"`
	Error    string    `json:"error"`
}

// RejectedChanges lists the differences between the present definitions and a revision that was
// not taken.
type RejectedChanges struct {
	Rejected     *Rejected    `json:"rejected,omitempty" doc:"absent where no revision is rejected; then nothing else is here"`
	From         string       `json:"from,omitempty" doc:"the present revision"`
	Files        []FileChange `json:"files" doc:"by path; at most 200"`
	FilesLeftOut int          `json:"files_left_out,omitempty" doc:"further files"`
	At           time.Time    `json:"at,omitzero" doc:"windows and fire times are counted from here; absent where more is wrong than single files"`
	Changes      []Change     `json:"changes" doc:"of the files without mistakes, by kind, then by name; at most 500"`
	LeftOut      int          `json:"left_out,omitempty" doc:"further changes"`
}

// FileChange is one file that two revisions hold differently.
type FileChange struct {
	Path    string `json:"path"`
	Action  string `json:"action" doc:"added, removed or changed"`
	Added   int    `json:"added,omitempty" doc:"lines"`
	Removed int    `json:"removed,omitempty" doc:"lines"`
	Text    string `json:"text,omitempty" doc:"unified diff without its head, at most 16 KiB; 256 KiB of all files"`
	Note    string `json:"note,omitempty" doc:"why there is no text, or less than all"`
}

// Document is one file of the definitions.
type Document struct {
	Path string `json:"path" minLength:"1" maxLength:"1024" doc:"from the root of the project, with slashes"`
	Data []byte `json:"data" doc:"the file's bytes, in base64"`
}

// Apply asks for definitions in the place of those that hold.
type Apply struct {
	Documents []Document `json:"documents" maxItems:"20000"`
	Revision  string     `json:"revision,omitempty" maxLength:"128" doc:"commit that they come from"`
	Author    string     `json:"author,omitempty" maxLength:"300"`
	Subject   string     `json:"subject,omitempty" maxLength:"300"`
}

// Change is one thing in which definitions differ.
type Change struct {
	Kind        string    `json:"kind" doc:"playbook, schedule, window_set, freeze, holidays, secret, channel, routes, tenant, host or file"`
	Name        string    `json:"name"`
	Action      string    `json:"action" doc:"added, removed or changed"`
	Details     []string  `json:"details"`
	HostsCome   []string  `json:"hosts_come,omitempty"`
	HostsGo     []string  `json:"hosts_go,omitempty"`
	WindowsCome int       `json:"windows_come,omitempty"`
	WindowsGo   int       `json:"windows_go,omitempty"`
	Voids       []string  `json:"voids,omitempty" doc:"approvals that the edit voids, in the project or given at the server: by id, or by place and person"`
	OldNext     time.Time `json:"old_next,omitzero"`
	NewNext     time.Time `json:"new_next,omitzero"`
}
