// Package words owns how errors of encoding/json, YAML and JSON Schema read for people: by the
// place in the playbook or file, what was expected there and what was found, without names of Go
// types.
//
// It must not know job types, processes or hosts.
package words
