package core

import "time"

// MaxFacts bounds the facts of one host, in bytes of JSON.
const MaxFacts = 4 << 10

// Facts are values that a host reported about its own state at a time.
type Facts struct {
	// Values are the outputs of the job type facts. Nil: a job did not ask, and only reports that it
	// saw the host with the boot id Boot.
	Values map[string]any `json:"values,omitempty"`
	At     time.Time      `json:"at"`
	Boot   string         `json:"boot,omitempty"` // boot id that the host had last, at At; "" is not known
}

// bootOutput is the output of job types that know the boot id of their host.
const bootOutput = "boot_id"

// Gathered returns facts that a host gave at a time.
func Gathered(values map[string]any, at time.Time) *Facts {
	boot, _ := values[bootOutput].(string)
	return &Facts{Values: values, At: at.UTC(), Boot: boot}
}

// Saw takes in the outputs of a step that ended at a time: where they name another boot id, the
// host has booted since. f may be nil, and so is the answer where nothing is known.
func (f *Facts) Saw(outputs map[string]any, at time.Time) *Facts {
	boot, _ := outputs[bootOutput].(string)
	if boot == "" || f != nil && f.Boot == boot {
		return f
	}
	return &Facts{At: at.UTC(), Boot: boot} // f has the facts of an earlier boot
}

// Booted reports whether the facts are of a boot that is known to have ended.
func (f Facts) Booted() bool {
	boot, _ := f.Values[bootOutput].(string)
	return f.Boot != "" && f.Boot != boot
}

// Fresh reports whether the facts may be used for their host at a time: they are not older than
// age, and of the present boot as far as that is known.
func (f Facts) Fresh(now time.Time, age time.Duration) bool {
	return f.Values != nil && now.Sub(f.At) <= age && !f.Booted()
}
