module github.com/talos-provision/provision/tools/vuln

go 1.26.6

require (
	golang.org/x/vuln v1.9.0
	// Only its folder data/osv is read: the vulnerability database as files.
	golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/telemetry v0.0.0-20261010193011-f71dc92da45e // indirect
	golang.org/x/tools v0.52.0 // indirect
)
