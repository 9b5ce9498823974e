package sdk

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Environment is own and what lets a command of the host recognise its own
// repetition: TURNUS_IDEMPOTENCY_KEY and TURNUS_FENCE (see [Run].Key and Fence).
func (r *Run[P, S]) Environment(own map[string]string) map[string]string {
	env := make(map[string]string, len(own)+2)
	maps.Copy(env, own)
	env["TURNUS_IDEMPOTENCY_KEY"] = r.Key
	env["TURNUS_FENCE"] = strconv.FormatUint(r.Fence, 10)
	return env
}

// SecretEnvironment makes an environment variable of each of the step's secrets, for
// [Command].Secrets. One that is in own too is an error.
func (r *Run[P, S]) SecretEnvironment(own map[string]string) (map[string]string, error) {
	if len(r.Secrets) == 0 {
		return nil, nil
	}
	env := make(map[string]string, len(r.Secrets))
	for _, name := range r.Secrets {
		if _, twice := own[name]; twice {
			return nil, Refuse("%s is in env and among the step's secrets: take it out of one", name)
		}
		env[name] = name
	}
	return env, nil
}

var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// CheckEnvironment refuses names that a shell cannot export; at is the JSON pointer of env.
func CheckEnvironment(at string, env map[string]string) error {
	var bad Problems
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !variableName().MatchString(name) {
			bad.Add(at+"/"+escapePointer(name), "%q is no name of an environment variable: expected letters, digits and _", name)
		}
	}
	return bad.Err()
}
