-- posted.lua: reads a document from the board.
-- Needs: base. Does: writes the clock, so that a server which may not write answers with a refusal
-- instead of an old version: a replica that was the master, or a master that was cut off from its
-- replicas (min-replicas-to-write).
-- ARGV: escaped name, known version. Returns: {version, bytes}; {version} when that is the known
-- one; {} without the document.
tick()
local k = pBoard .. ARGV[1]
local version = call('HGET', k, 'v')
if not version then return {} end
if version == ARGV[2] then return { version } end
return { version, call('HGET', k, 'b') }
