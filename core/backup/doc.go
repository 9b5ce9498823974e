// Package backup owns copies of a ledger and its outputs: making one beside a service at work,
// checking that it is whole, and filling an empty ledger from it, in either database.
//
// A place holds backups: a folder, a bucket, or a .zip file for one. A backup is a folder in it,
// named for when it was made:
//
//	20261122-093000-ab12cd/manifest.json      what there is, written last: without it there is no backup
//	20261122-093000-ab12cd/TABLE.ndjson.zst   the rows of a table, a JSON array a line; bytes are base64
//	20261122-093000-ab12cd/objects.ndjson.zst the large outputs that belong to it
//	objects/KEY                               these, each once for all backups of the place
//
// Rows and objects are copied as they are stored, encrypted ones encrypted; the manifest names the
// keys. Reading a backup first compares its files with the sizes and hashes of the manifest.
//
// It must not know what rows mean, except which objects they name; nor who may do what.
package backup
