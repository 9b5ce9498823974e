package fleet

import "time"

// Profile is the faults of one host. The zero value is a healthy host; faults
// may be combined. Faults of commands concern each of them, not file transfer.
type Profile struct {
	Kind string // a word for reports; the built-in profiles set it; "" reads as "ok"

	// Connecting.
	Silent      bool          // accepts TCP and never sends anything
	KexDelay    time.Duration // added to the key exchange
	ChangedKey  bool          // shows another host key than the inventory pins
	RefuseAuth  bool          // lets nobody in
	MaxStartups int           // more unauthenticated connections than this are dropped; 0: no limit
	BanAfter    int           // a source that left so many times without authenticating is dropped; 0: never
	BanFor      time.Duration // how long; 1 minute when zero
	MaxSessions int           // open sessions on one connection; 10 when zero, as in sshd
	Forward     bool          // allows direct-tcpip, to hosts of the same fleet only, as a bastion does

	// Commands.
	Latency    time.Duration // before each command begins
	Hang       bool          // the command never ends
	IgnoreTerm bool          // only KILL ends a command
	Reset      bool          // the connection is reset after the first output
	Cut        bool          // the connection is closed in order after the first output, without an exit status
	ExitCode   int           // every command fails with this code
	Stderr     string        // written before ExitCode is returned
	Flood      int64         // so many bytes are written to stdout before the command's own output
	Binary     bool          // all byte values are written to stdout before the command's own output

	FullDisk bool          // no file can grow, by commands or by file transfer
	BootTime time.Duration // how long a reboot takes; 500 ms when zero
}

const (
	defaultMaxSessions = 10 // sshd's
	defaultBan         = time.Minute
	defaultBoot        = 500 * time.Millisecond
)

// The usual faults. Each may be changed further before it is used.

// OK is a healthy host.
func OK() Profile { return Profile{Kind: "ok"} }

// Slow is a host that takes d for each command, on top of the command's own time.
func Slow(d time.Duration) Profile { return Profile{Kind: "slow", Latency: d} }

// SlowKex is a host whose key exchange takes d longer.
func SlowKex(d time.Duration) Profile { return Profile{Kind: "slow-kex", KexDelay: d} }

// Hang is a host on which no command ends.
func Hang() Profile { return Profile{Kind: "hang", Hang: true} }

// Silent is a host that accepts TCP and sends nothing.
func Silent() Profile { return Profile{Kind: "silent", Silent: true} }

// Reset is a host that resets the connection in the middle of a command.
func Reset() Profile { return Profile{Kind: "reset", Reset: true} }

// Cut is a host that closes the connection in the middle of a command.
func Cut() Profile { return Profile{Kind: "cut", Cut: true} }

// RefuseAuth is a host that lets nobody in.
func RefuseAuth() Profile { return Profile{Kind: "refuse-auth", RefuseAuth: true} }

// ChangedKey is a host whose key is not the one that the inventory pins.
func ChangedKey() Profile { return Profile{Kind: "changed-key", ChangedKey: true} }

// MaxSessions is a host that opens at most n sessions on one connection.
func MaxSessions(n int) Profile { return Profile{Kind: "max-sessions", MaxSessions: n} }

// MaxStartups is a host that drops connections beyond n that are not yet authenticated.
func MaxStartups(n int) Profile { return Profile{Kind: "max-startups", MaxStartups: n} }

// Ban is a host that drops a source for d after n connections without authentication.
func Ban(n int, d time.Duration) Profile { return Profile{Kind: "ban", BanAfter: n, BanFor: d} }

// Fail is a host on which every command writes stderr and exits with code.
func Fail(code int, stderr string) Profile {
	return Profile{Kind: "fail", ExitCode: code, Stderr: stderr}
}

// Flood is a host whose commands first write n bytes to stdout.
func Flood(n int64) Profile { return Profile{Kind: "flood", Flood: n} }

// Binary is a host whose commands first write all byte values to stdout.
func Binary() Profile { return Profile{Kind: "binary", Binary: true} }

// All gives every host the same faults.
func All(p Profile) func(int) Profile { return func(int) Profile { return p } }

// Only gives some hosts faults, by their numbers from 0; the others are healthy.
func Only(faults map[int]Profile) func(int) Profile {
	return func(n int) Profile {
		if p, ok := faults[n]; ok {
			return p
		}
		return OK()
	}
}

// DemoProfile is a fleet as operators know it: nearly all hosts are well, a few
// fail, are slow, cannot be reached, and about one in a thousand hangs. A fleet
// of 40 hosts has each of them at least once.
func DemoProfile(seed uint64) func(int) Profile {
	faults := []struct {
		every int // one host in so many
		p     Profile
	}{
		{100, Slow(700 * time.Millisecond)},
		{150, Fail(1, "fwctl: rule 17: no such interface: wan1\n")},
		{400, Reset()},
		{500, RefuseAuth()},
		{1000, Hang()},
		{1000, ChangedKey()},
	}
	// Each fault gets a place of its own within the first 40 hosts, so that small
	// fleets show it too and no two meet there.
	const first = 40
	step := first / len(faults)
	return func(n int) Profile {
		for i, f := range faults {
			place := i*step + int(mix(seed, uint64(i), saltDemo)%uint64(step))
			if n%f.every == place {
				return f.p
			}
		}
		return OK()
	}
}
