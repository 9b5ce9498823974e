package wire

// SecretKeyword is the keyword of a params schema under which texts may hold ${{ secrets.NAME }}.
const SecretKeyword = "x-turnus-secret"

// FileKeyword is the keyword of a text that names a file or folder of the playbook's folder: its
// value is "file", "folder", or "template": a file that is a Go template. Of a boolean it is
// "templates": where it is true, files *.tmpl of a folder beside it are Go templates.
// A playbook that names a missing file, or a template with mistakes, is refused before a run.
const FileKeyword = "x-turnus-file"

// ConditionKeyword is the keyword of a value that is a condition. A playbook that compares
// something there outside of ${{ }} is refused before a run: as a text it would always hold.
const ConditionKeyword = "x-turnus-condition"

// The handshake: worker and plugin must agree on these before the first call.
const (
	ProtocolVersion = 1
	CookieKey       = "TURNUS_PLUGIN" // environment; go-plugin's magic cookie, no secret
	CookieValue     = "7f2d6f8c1e5b4a0f9d33c1a86e2b5490"
	ServiceName     = "turnus"             // go-plugin's name of the plugin set
	HostSocketEnv   = "TURNUS_HOST_SOCKET" // path of the worker's socket for Hosts and Job
	LeaseKey        = "turnus-lease"       // metadata of each call to Hosts and Job
	MaxMessage      = 8 << 20              // of gRPC, both ends
	ChunkSize       = 64 << 10             // of streamed bytes
	MaxState        = 256 << 10
)
