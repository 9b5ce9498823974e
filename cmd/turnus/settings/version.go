package settings

// version is set by the build.
var version = "dev"

// Version returns the version of this program.
func Version() string { return version }
